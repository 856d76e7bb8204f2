//! The same seeded plans on processor and card.

use std::path::Path;

use dapple_graph::{Parameters, weights};
use dapple_plan::spec::{FactorPrecision, Performance};

use crate::{Fault, cpu, expect, gpu, graph, losses, plan};

/// The share by which first weights are moved to see how much a curve makes of a small difference.
const MOVED: f32 = 1e-5;
/// The card's curve may differ from the processor's so many times as much as the processor's own does from other first weights.
const FACTOR: f64 = 10.0;

pub(crate) fn check(folder: &Path) -> Result<(), Fault> {
    let momentum = "learning_rate = 0.05\nmomentum = 0.9\nnesterov = true\nweight_decay = 0.001";
    let adam = "kind = 'adam'\nlearning_rate = 0.0005\nema = 0.9";
    let plans = [("small-cnn", momentum), ("wrn-16-4", adam), ("resnet-18", momentum)];
    plans.into_iter().try_for_each(|(model, optimiser)| compare(folder, model, optimiser))
}

/// The largest share by which two curves differ.
fn difference(one: &[f64], other: &[f64]) -> f64 {
    if one.len() != other.len() {
        return f64::INFINITY;
    }
    one.iter().zip(other).map(|(one, other)| (one / other - 1.0).abs()).fold(0.0, f64::max)
}

/// Compares the curve on the card with the processor's, beside what the processor makes of slightly other first weights.
fn compare(folder: &Path, model: &str, optimiser: &str) -> Result<(), Fault> {
    let graph = graph(model, &[1, 28, 28], 4)?;
    let mut parameters = Parameters::init(&graph, 1);
    weights::save(&graph, &parameters, &folder.join("first"))?;
    for (i, value) in parameters.values_mut().iter_mut().enumerate() {
        *value *= if i % 2 == 0 { 1.0 + MOVED } else { 1.0 - MOVED };
    }
    weights::save(&graph, &parameters, &folder.join("moved"))?;
    let run = |name: &str, first: &str, performance: Performance| {
        let mut request = plan(folder, model, optimiser, &performance);
        request.spec.model.weights = Some(first.to_owned());
        losses(folder, &format!("{model}-{name}"), &request)
    };
    let processor = run("cpu", "first", cpu())?;
    let moved = difference(&run("moved", "moved", cpu())?, &processor);
    let mut words = format!(
        "{model}: from first weights moved by {MOVED:.0e}, losses of 20 steps differ by {moved:.1e}; on the card"
    );
    let mut single = f64::NAN;
    for precision in [FactorPrecision::F32, FactorPrecision::Tf32, FactorPrecision::Bf16] {
        let card = run(precision.name(), "first", Performance { precision: Some(precision), ..gpu() })?;
        let share = difference(&card, &processor);
        words += &format!(" by {share:.1e} in {}", precision.name());
        if precision == FactorPrecision::F32 {
            single = share;
        }
    }
    println!("{words}");
    expect(single < FACTOR * moved, || {
        format!("{model}: {single:.1e} in f32, more than {FACTOR} x {moved:.1e}")
    })
}
