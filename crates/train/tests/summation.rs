//! The sums of two neighbouring data sets differ by what the additional record adds, and by nothing else.
#![allow(clippy::unwrap_used)]

use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Targets};
use dapple_graph::{Parameters, zoo};

#[test]
fn neighbours_differ_by_one_record_to_the_last_bit() {
    let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    let parameters = Parameters::init(&graph, 1);
    let mut executor = CpuExecutor::new(&graph, CpuOptions::default()).unwrap();
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1e-3 }, executor.layout()).unwrap();
    let unit = rule.unit().unwrap();
    // This is more than whole numbers of 32 bits can hold.
    let (records, len) = (1100, 28 * 28);
    let inputs: Vec<f32> = (0..records * len).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    let classes: Vec<u32> = (0..records as u32).map(|i| i % 10).collect();
    let mut sum = |records: std::ops::Range<usize>| -> Vec<i64> {
        let mut sum = executor.gradient_sum();
        let mut loaded = executor.load(&parameters).unwrap();
        let batch =
            Batch::new(&inputs[records.start * len..records.end * len], Targets::Classes(&classes[records]));
        // The bound is so small that every clipped gradient is nearly as long as it.
        loaded.clipped_sum(&batch, &rule, &mut sum).unwrap();
        let total = loaded.total(sum).unwrap();
        total.counts().unwrap().0.collect()
    };
    // Without the first record, all others move to other places.
    let (with, without, alone) = (sum(0..records), sum(1..records), sum(0..1));
    for ((with, without), alone) in with.iter().zip(&without).zip(&alone) {
        assert_eq!(with - without, *alone);
    }
    let length = alone.iter().map(|&whole| (whole as f64 * unit).powi(2)).sum::<f64>().sqrt();
    assert!(length <= 1e-3 && length > 0.999e-3, "{length}");
}
