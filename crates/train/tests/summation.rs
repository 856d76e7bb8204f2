//! How far single-precision sums of two neighbouring data sets differ from the record that tells them apart.
#![allow(clippy::unwrap_used)]

use dapple_engine::{Batch, Clipping, CpuExecutor, Options, Targets};
use dapple_graph::{Parameters, zoo};

#[test]
fn rounding_of_the_sum_is_far_below_the_clip_norm() {
    let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    let parameters = Parameters::init(&graph, 1);
    let mut executor = CpuExecutor::new(&graph, Options::default()).unwrap();
    let (records, len) = (256, 28 * 28);
    let inputs: Vec<f32> = (0..records * len).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    let classes: Vec<u32> = (0..records as u32).map(|i| i % 10).collect();
    let mut sum = |records: std::ops::Range<usize>| -> Vec<f64> {
        let mut sum = executor.gradient_sum();
        let mut loaded = executor.load(&parameters).unwrap();
        let batch =
            Batch::new(&inputs[records.start * len..records.end * len], Targets::Classes(&classes[records]));
        // So small a bound that every gradient has exactly its length.
        loaded.clipped_sum(&batch, &Clipping::Flat { max_norm: 1e-3 }, &mut sum).unwrap();
        loaded.gradient(sum).unwrap().into_iter().map(f64::from).collect()
    };
    // Without the first record all others are added up in another state.
    let (with, without, alone) = (sum(0..records), sum(1..records), sum(0..1));
    let error = with
        .iter()
        .zip(&without)
        .zip(&alone)
        .map(|((with, without), alone)| (with - without - alone).powi(2));
    let in_clip_norms = error.sum::<f64>().sqrt() / 1e-3;
    assert!(in_clip_norms < 1e-5, "{in_clip_norms:e}");
}
