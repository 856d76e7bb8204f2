//! Submodels of blocks: a record adds the gradient of the submodel that it drew.

use std::collections::BTreeSet;

use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Targets};

use super::*;

fn prepared(folder: &std::path::Path, batch: u64, partition: &str) -> Prepared {
    super::prepared(
        folder,
        ("name = 'small-hybrid'", 8),
        batch,
        &format!("[partition]\nblocks = ['blocks.0..blocks.3']\n{partition}\n"),
    )
}

/// The sum over records of the gradients of their submodels, clipped, divided by the expected batch; and the submodels that were drawn.
fn expected(prepared: &Prepared) -> (Vec<f64>, BTreeSet<usize>) {
    let submodels = prepared.split.as_ref().unwrap().submodels(&prepared.graphs[0]).unwrap();
    let layout = Layout::new(&prepared.graphs[0]);
    let (mut sum, mut drawn) = (vec![0.0; layout.len()], BTreeSet::new());
    for microbatch in loader(prepared, SEED, 0) {
        let microbatch = microbatch.unwrap();
        let submodel = microbatch.submodel.unwrap();
        drawn.insert(submodel);
        let reference = ReferenceExecutor::new(&submodels[submodel], &prepared.parameters).unwrap();
        let Labels::Classes(classes) = &microbatch.labels else { panic!("one class each") };
        let batch =
            Batch { views: microbatch.views, ..Batch::new(&microbatch.inputs, Targets::Classes(classes)) };
        for sample in 0..microbatch.records.len() {
            let (_, gradient) = reference.gradient(&batch, sample).unwrap();
            add_clipped(&mut sum, &gradient, &layout, |name| name.starts_with("blocks"));
        }
    }
    (sum, drawn)
}

/// The blocks whose parameters did not move at all.
fn still(prepared: &Prepared, moved: &[f64]) -> Vec<usize> {
    let layout = Layout::new(&prepared.graphs[0]);
    let of = |block: usize| {
        let name = format!("blocks.{block}.");
        let own: Vec<_> = layout.entries().iter().filter(|entry| entry.name.starts_with(&name)).collect();
        assert!(!own.is_empty());
        own.iter().all(|entry| moved[entry.range.clone()].iter().all(|&value| value == 0.0))
    };
    (0..4).filter(|&block| of(block)).collect()
}

#[test]
fn a_record_adds_the_clipped_gradient_of_its_submodel() {
    let norms = format!("split_norm = {}\nnonsplit_norm = {}", PARTS[0], PARTS[1]);
    for partition in ["submodels = 2", "submodels = 4", "mixture = [[2, 0.5], [3, 0.5]]", "submodels = 1"] {
        let folder = tempfile::tempdir().unwrap();
        let prepared = prepared(folder.path(), 12, &format!("{partition}\n{norms}"));
        let (expected, drawn) = expected(&prepared);
        assert!(drawn.len() > 1 || partition == "submodels = 1", "{drawn:?}");
        assert_close(partition, &step(&prepared, SEED, false), &expected);
    }
}

/// In a step whose records all drew one submodel, the blocks of the others get exactly nothing before the noise, and noise like all with it.
#[test]
fn blocks_of_other_submodels_get_noise_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), 1, "submodels = 4\nsplit_fraction = 0.5");
    let drawn = |seed: &u64| -> BTreeSet<Option<usize>> {
        loader(&prepared, *seed, 0).map(|microbatch| microbatch.unwrap().submodel).collect()
    };
    let alone = |seed: &u64| drawn(seed).len() == 1 && !drawn(seed).contains(&None);
    for seed in (0..).filter(alone).take(3) {
        let own = drawn(&seed).into_iter().flatten().next().unwrap();
        let others: Vec<usize> = (0..4).filter(|&block| block != own).collect();
        assert_eq!(still(&prepared, &step(&prepared, seed, false)), others);
        let noisy = step(&prepared, seed, true);
        assert!(still(&prepared, &noisy).is_empty());
        assert_moves_everything(&noisy);
    }
}
