//! Sums as large as they can get, which no batch of a test would reach.

use dapple_graph::op::Reshape;
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Loss, Parameters, Window};

use super::*;
use crate::{Clipping, Targets};

fn standardised() -> Graph {
    let mut builder = GraphBuilder::new(&[16, 4, 4]);
    let spec = ConvSpec::new(12, Window::square(3)).bias().standardise(1e-5);
    let x = builder.conv("conv", builder.input(), spec).unwrap();
    let x = builder.add("flat", Reshape(vec![48]), &[x]).unwrap();
    builder.finish(x, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap()
}

/// A record that is added to one of the largest sums comes out of the projection as it would alone, except for rounding, for which a
/// clipping rule makes room. One of the sums is the same in every coordinate, one has random signs, and one points along the filters.
#[test]
fn projections_of_the_largest_sums_have_room_to_round() {
    let graph = standardised();
    let parameters = Parameters::init(&graph, 1);
    let mut executor = CpuExecutor::new(&graph, CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, executor.layout()).unwrap();
    let len = executor.layout().len();
    let mut loaded = executor.load(&parameters).unwrap();
    let batch = Batch::new(&[0.5; 256], Targets::Classes(&[3]));
    loaded.clipped_sum(&batch, &rule, &mut loaded.executor.gradient_sum()).unwrap();
    let mut projected = |counts: &dyn Fn(usize) -> i64| -> Vec<i64> {
        let mut sum = loaded.executor.gradient_sum();
        sum.reserve(&rule, rule.capacity()).unwrap();
        sum.carry(&mut Vec::new(), 0);
        sum.carried().iter_mut().enumerate().for_each(|(at, carried)| *carried = counts(at));
        let total = loaded.total(sum).unwrap();
        let (counts, unit) = total.counts().unwrap();
        assert_eq!(unit, rule.unit().unwrap() / f64::from(1 << FRACTION));
        counts.collect()
    };
    let units = rule.sensitivity() / rule.unit().unwrap();
    let hash = |at: usize| (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    // A record of about the norm that a rule allows, in whole units.
    let record = |at: usize| (hash(at) % 2001) as i64 - 1000;
    let each = (units * rule.capacity() as f64 / (len as f64).sqrt()) as i64;
    // The weights in the order in which the sum has them: tap, channel, filter.
    let weights = parameters.get(Layout::new(&graph).entries()[0].id);
    let largest = weights.iter().fold(0f32, |most, weight| most.max(weight.abs()));
    let along = |at: usize| {
        let (filter, channel, tap) = (at % 12, at / 12 % 16, at / 12 / 16);
        weights.get((filter * 16 + channel) * 9 + tap).map_or(0.0, |weight| f64::from(weight / largest))
    };
    let sums: [&dyn Fn(usize) -> i64; 3] =
        [&|_| each, &|at| if hash(at) % 2 == 0 { each } else { 1 - each }, &|at| {
            (along(at) * each as f64) as i64
        }];
    let alone = projected(&record);
    let room = rule.taken_off() * units - 0.5 * (len as f64).sqrt();
    for (number, sum) in sums.into_iter().enumerate() {
        let (with, without) = (projected(&|at| sum(at) + record(at)), projected(sum));
        let apart =
            with.iter().zip(&without).zip(&alone).map(|((with, without), alone)| with - without - alone);
        let square: f64 = apart.map(|apart| (apart as f64 / f64::from(1 << FRACTION)).powi(2)).sum();
        // A record alone is rounded to a fraction of a unit as well.
        let most = room + 0.5 / f64::from(1 << FRACTION) * (len as f64).sqrt();
        assert!(square.sqrt() <= most, "{number}: {} of {most} units", square.sqrt());
    }
}
