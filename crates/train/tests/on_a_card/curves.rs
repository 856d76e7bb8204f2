//! Compares the same seeded plans on the processor and on a card.

use std::path::Path;

use dapple_graph::{Graph, Parameters, weights, zoo};
use dapple_plan::spec::{FactorPrecision, Performance};

use crate::{alone, cpu, gpu, losses, plan};

/// The share by which first weights are moved, to see how strongly a curve reacts to a small difference.
const MOVED: f32 = 1e-5;
/// The card's curve may differ from the processor's this many times as much as the processor's own curve does with other first weights.
const FACTOR: f64 = 10.0;
const SHAPE: [usize; 3] = [1, 28, 28];

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn losses_follow_the_processor() {
    let (_card, folder) = alone();
    let momentum = "learning_rate = 0.05\nmomentum = 0.9\nnesterov = true\nweight_decay = 0.001";
    let adam = "kind = 'adam'\nlearning_rate = 0.0005\nema = 0.9";
    for (model, graph, optimiser) in [
        ("small-cnn", zoo::small_cnn(&SHAPE, 4), momentum),
        ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &SHAPE, 4), adam),
        ("resnet-18", zoo::resnet(zoo::ResNet::R18, &SHAPE, 4, zoo::Norm::Group(32)), momentum),
    ] {
        compare(folder.path(), model, &graph.unwrap(), optimiser);
    }
}

/// The largest share by which two curves differ.
fn difference(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one / other - 1.0).abs()).fold(0.0, f64::max)
}

/// Compares the curve on the card with the processor's, relative to what the processor makes of slightly different first weights.
fn compare(folder: &Path, model: &str, graph: &Graph, optimiser: &str) {
    let mut parameters = Parameters::init(graph, 1);
    weights::save(graph, &parameters, &folder.join("first")).unwrap();
    for (i, value) in parameters.values_mut().iter_mut().enumerate() {
        *value *= if i % 2 == 0 { 1.0 + MOVED } else { 1.0 - MOVED };
    }
    weights::save(graph, &parameters, &folder.join("moved")).unwrap();
    let run = |name: &str, first: &str, performance: Performance| {
        let mut request = plan(folder, model, optimiser, &performance);
        request.spec.model.weights = Some(first.to_owned());
        losses(folder, &format!("{model}-{name}"), &request)
    };
    let processor = run("cpu", "first", cpu());
    let moved = difference(&run("moved", "moved", cpu()), &processor);
    let mut words = format!("{model}: losses of moved first weights {moved:.1e} apart; on the card");
    let mut single = f64::NAN;
    for precision in [FactorPrecision::F32, FactorPrecision::Tf32, FactorPrecision::Bf16] {
        let card = run(precision.name(), "first", Performance { precision: Some(precision), ..gpu() });
        let share = difference(&card, &processor);
        words += &format!(" {share:.1e} in {}", precision.name());
        if precision == FactorPrecision::F32 {
            single = share;
        }
    }
    println!("{words}");
    assert!(single < FACTOR * moved, "{model}: {single:.1e} in f32, more than {FACTOR} x {moved:.1e}");
}
