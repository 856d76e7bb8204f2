//! Dropout at one half: a record adds the gradient of the model from which its mask has taken nodes.

use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Targets};
use dapple_graph::zoo;
use dapple_private::draw_unit_masks;

use super::*;

const CROP: usize = 24;
/// The nodes that may be dropped: what the last layer reads.
const UNITS: usize = 32;
const CLASSES: usize = 4;

fn prepared(folder: &std::path::Path, batch: u64) -> Prepared {
    let rest = format!(
        "crop = [{CROP}, {CROP}]\n[partition]\ndropout = 0.5\nsplit_norm = {}\nnonsplit_norm = {}\n",
        PARTS[0], PARTS[1]
    );
    super::prepared(folder, ("name = 'small-cnn'\nhead_dropout = 0.5", 28), batch, &rest)
}

fn is_split(name: &str) -> bool {
    ["fc1.weight", "fc1.bias", "fc2.weight"].contains(&name)
}

/// Which nodes a record keeps in the first step.
fn kept(prepared: &Prepared, seed: u64, record: usize) -> Vec<bool> {
    let key = StepKeys::of(&MasterKey::from_seed(seed)).units.step(0);
    draw_unit_masks(&key, &[record], &prepared.graphs[0].dropout_units())
}

/// The records of the first step, in the order in which the loader shows them.
fn drawn(prepared: &Prepared, seed: u64) -> Vec<usize> {
    loader(prepared, seed, 0).flat_map(|microbatch| microbatch.unwrap().records).collect()
}

/// The sum over records of their clipped gradients, divided by the expected batch. The oracle knows no dropout: to drop a node is to multiply
/// the weights behind it by zero, and to keep it is to multiply them by two.
fn expected(prepared: &Prepared) -> Vec<f64> {
    let plain = zoo::small_cnn(&[1, CROP, CROP], CLASSES).unwrap();
    let layout = Layout::new(&plain);
    let last = plain.find_parameter("fc2.weight").unwrap();
    let behind = layout.entries()[layout.position(last).unwrap()].range.clone();
    let mut sum = vec![0.0; layout.len()];
    for microbatch in loader(prepared, SEED, 0) {
        let microbatch = microbatch.unwrap();
        let Labels::Classes(classes) = &microbatch.labels else { panic!("one class each") };
        let batch =
            Batch { views: microbatch.views, ..Batch::new(&microbatch.inputs, Targets::Classes(classes)) };
        for (sample, &record) in microbatch.records.iter().enumerate() {
            let factors: Vec<f32> =
                kept(prepared, SEED, record).iter().map(|&kept| if kept { 2.0 } else { 0.0 }).collect();
            let mut parameters = prepared.parameters.clone();
            let weights = parameters.get_mut(last).iter_mut().enumerate();
            weights.for_each(|(place, weight)| *weight *= factors[place % UNITS]);
            let reference = ReferenceExecutor::new(&plain, &parameters).unwrap();
            let (_, mut gradient) = reference.gradient(&batch, sample).unwrap();
            let own = gradient[behind.clone()].iter_mut().enumerate();
            own.for_each(|(place, value)| *value *= f64::from(factors[place % UNITS]));
            add_clipped(&mut sum, &gradient, &layout, is_split);
        }
    }
    sum
}

/// Two crops of each record share its mask, or the oracle would have to know two.
#[test]
fn a_record_adds_the_clipped_gradient_under_its_mask() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), BATCH);
    assert_eq!(prepared.views[0].count(), 2);
    let records = drawn(&prepared, SEED);
    assert!(records.len() > 4 && kept(&prepared, SEED, records[0]) != kept(&prepared, SEED, records[1]));
    assert_close("dropout", &step(&prepared, SEED, false), &expected(&prepared));
}

/// In a step with one record, the weights that touch a dropped node get exactly nothing before the noise, and noise like all with it; a bias
/// behind the nodes, and layers that touch none, move in any case.
#[test]
fn weights_of_dropped_nodes_get_noise_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), 1);
    let layout = Layout::new(&prepared.graphs[0]);
    let of = |name: &str| layout.entries().iter().find(|entry| entry.name == name).unwrap().range.clone();
    let (first, bias, last) = (of("fc1.weight"), of("fc1.bias"), of("fc2.weight"));
    for seed in (0..).filter(|&seed| drawn(&prepared, seed).len() == 1).take(3) {
        let kept = kept(&prepared, seed, drawn(&prepared, seed)[0]);
        let moved = step(&prepared, seed, false);
        let inputs = first.len() / UNITS;
        for (place, &value) in moved.iter().enumerate() {
            let unit = if first.contains(&place) {
                Some((place - first.start) / inputs)
            } else if bias.contains(&place) {
                Some(place - bias.start)
            } else {
                last.contains(&place).then(|| (place - last.start) % UNITS)
            };
            assert!(unit.is_none_or(|unit| kept[unit]) || value == 0.0, "{place} moves by {value}");
        }
        for name in ["fc1.weight", "fc2.weight", "fc2.bias", "conv1.weight", "conv2.bias"] {
            assert!(moved[of(name)].iter().any(|&value| value != 0.0), "{name}");
        }
        assert_moves_everything(&step(&prepared, seed, true));
    }
}
