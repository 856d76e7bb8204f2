//! Wrong input gives a typed error that names the place, never a panic.
#![allow(clippy::unwrap_used)]

mod common;

use common::{parameters, specimen};
use dapple_engine::{
    Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, DropoutSource, EngineError, Targets,
};
use dapple_graph::{Graph, Parameters};

fn step(graph: &Graph, batch: &Batch<'_>, clipping: &Clipping) -> EngineError {
    let parameters = parameters(graph);
    let mut executor = CpuExecutor::new(graph, CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
    let mut sum = executor.gradient_sum();
    match ClippingRule::new(clipping, executor.layout()) {
        Ok(rule) => executor.load(&parameters).unwrap().clipped_sum(batch, &rule, &mut sum).unwrap_err(),
        Err(error) => error,
    }
}

const CLIPPING: Clipping = Clipping::Flat { max_norm: 1.0 };

#[test]
fn wrong_lengths() {
    let graph = specimen("smoothing");
    let error = step(&graph, &Batch::new(&[0.0; 7], Targets::Classes(&[0])), &CLIPPING);
    assert_eq!(error.to_string(), "input: expected 12 values, found 7");
    let error = step(&graph, &Batch::new(&[0.0; 12], Targets::Classes(&[0])), &CLIPPING);
    assert_eq!(error.to_string(), "target classes: expected 2 values, found 1");
    let dropout = Some(DropoutSource { seed: 1, records: &[7] });
    let records = Batch { dropout, ..Batch::new(&[0.0; 12], Targets::Classes(&[0, 1])) };
    assert_eq!(step(&graph, &records, &CLIPPING).to_string(), "records: expected 2 values, found 1");
    let none = Batch { views: 0, ..Batch::new(&[0.0; 12], Targets::Classes(&[0, 1])) };
    assert!(matches!(step(&graph, &none, &CLIPPING), EngineError::Length { .. }));
}

#[test]
fn wrong_targets() {
    let graph = specimen("smoothing");
    let error = step(&graph, &Batch::new(&[0.0; 12], Targets::Classes(&[0, 4])), &CLIPPING);
    assert_eq!(error, EngineError::Class { sample: 1, class: 4, classes: 4 });
    let error = step(&graph, &Batch::new(&[0.0; 6], Targets::Values(&[0.0; 4])), &CLIPPING);
    assert_eq!(error.to_string(), "the loss takes classes or probabilities, not values");
    let graph = specimen("squares");
    let error = step(&graph, &Batch::new(&[0.0; 6], Targets::Classes(&[0])), &CLIPPING);
    assert_eq!(error.to_string(), "the loss takes values, not classes");
}

#[test]
fn inputs_that_are_not_finite_cannot_be_evaluated() {
    let graph = specimen("smoothing");
    let mut inputs = [0.0; 12];
    inputs[8] = f32::NAN;
    let mut executor = CpuExecutor::new(&graph, CpuOptions::default()).unwrap();
    let error = executor.load(&parameters(&graph)).unwrap().forward(&inputs).unwrap_err();
    assert_eq!(error, EngineError::NotFinite { place: "input".into(), sample: 1 });
}

#[test]
fn a_sum_has_one_rule() {
    let graph = specimen("smoothing");
    let parameters = parameters(&graph);
    let mut executor = CpuExecutor::new(&graph, CpuOptions::default()).unwrap();
    let rule = |max_norm| common::rule(&Clipping::Flat { max_norm }, &dapple_engine::Layout::new(&graph));
    let mut sum = executor.gradient_sum();
    let mut loaded = executor.load(&parameters).unwrap();
    let batch = Batch::new(&[0.5; 12], Targets::Classes(&[0, 1]));
    loaded.clipped_sum(&batch, &rule(1.0), &mut sum).unwrap();
    // With twice the bound, the units are different.
    let other = loaded.clipped_sum(&batch, &rule(2.0), &mut sum).unwrap_err();
    assert_eq!(other, EngineError::Sum { capacity: rule(2.0).capacity() });
}

#[test]
fn foreign_parameters_and_sums() {
    let graph = specimen("smoothing");
    let other = specimen("deep");
    let mut executor = CpuExecutor::new(&graph, CpuOptions::default()).unwrap();
    let foreign = Parameters::zeros(&other);
    assert_eq!(executor.load(&foreign).unwrap_err(), EngineError::Parameters);
    let mut sum = CpuExecutor::new(&other, CpuOptions::default()).unwrap().gradient_sum();
    let own = parameters(&graph);
    let batch = Batch::new(&[0.0; 6], Targets::Classes(&[0]));
    let rule = common::rule(&CLIPPING, executor.layout());
    assert_eq!(
        executor.load(&own).unwrap().clipped_sum(&batch, &rule, &mut sum).unwrap_err(),
        EngineError::Parameters
    );
}

#[test]
fn wrong_clipping() {
    let graph = specimen("smoothing");
    let batch = Batch::new(&[0.0; 6], Targets::Classes(&[0]));
    for clipping in [
        Clipping::Flat { max_norm: 0.0 },
        Clipping::Flat { max_norm: f64::NAN },
        Clipping::PerLayer { max_norm: -1.0 },
        Clipping::Automatic { max_norm: 1.0, stability: 0.0 },
        Clipping::PerGroup { groups: vec![0], max_norms: vec![1.0] },
        Clipping::PerGroup { groups: vec![0, 1, 2, 3], max_norms: vec![1.0] },
    ] {
        assert!(matches!(step(&graph, &batch, &clipping), EngineError::Clipping(_)), "{clipping:?}");
    }
}
