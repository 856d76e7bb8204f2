//! Checks that the sum of a deferred convolution is no farther from the exact one than norms are raised by.

use dapple_engine::cuda::{CudaOptions, Precision};
use dapple_engine::{Batch, Clipping, Targets};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Loss, Parameters, Window};

use crate::common::uniform;
use crate::subject::{Subject, length};

const CHANNELS: usize = 96;
const OUT: usize = 128;
const CASES: usize = 20;

/// How far the executor assumes sums over this many positions to be off, as a share of the sizes of what they are made of: by the rounding
/// of factors, and by the sum's own rounding.
fn assumed(subject: Subject, positions: usize) -> f64 {
    let factors = match subject {
        Subject::Cuda(CudaOptions { precision: Precision::Tf32, .. }) => (-9f64).exp2(),
        Subject::Cuda(CudaOptions { precision: Precision::Bf16, .. }) => (-7f64).exp2(),
        _ => 0.0,
    };
    factors + (positions + 8) as f64 * (-20f64).exp2()
}

/// A convolution whose weights are to be zero. Then its outputs are zero, and the gradient of the output is the same for both sides.
fn convolution(size: usize) -> Graph {
    let mut builder = GraphBuilder::new(&[CHANNELS, size, size]);
    let spec = ConvSpec::new(OUT, Window::square(3).padding(1));
    let x = builder.conv("conv", builder.input(), spec).unwrap();
    builder.finish(x, Loss::SquaredError).unwrap()
}

/// Values of many sizes, of one sign or alternating, with low bits that are lost if they are rounded to fewer bits.
fn value(case: usize, name: &str, i: usize) -> f32 {
    let value = uniform(&format!("{name} {case}"), i);
    let value = match case % 4 {
        0 => value,
        1 => 1.0 + value.abs() / 512.0,
        2 => (1.0 + value / 1024.0) * if i.is_multiple_of(2) { 1.0 } else { -1.0 },
        _ => value * (20.0 * uniform(name, i)).exp2(),
    };
    value as f32
}

/// How far a sum is from the exact one, as a share of the sizes of what it is made of.
fn distance(size: usize, inputs: &[f32], targets: &[f32], got: &[f64]) -> f64 {
    let positions = size * size;
    // The gradient of the mean squared error, rounded as the card rounds it.
    let count = targets.len() as f64;
    let g =
        |o: usize, p: usize| f64::from((-2.0 * f64::from(targets[o * positions + p]) * (1.0 / count)) as f32);
    let at = |p: usize, tap: usize| {
        let (y, x) = (p / size + tap / 3, p % size + tap % 3);
        ((1..=size).contains(&y) && (1..=size).contains(&x)).then(|| (y - 1) * size + x - 1)
    };
    let input = |c: usize, p: usize| f64::from(inputs[c * positions + p]);
    let mut squares = 0.0;
    for o in 0..OUT {
        for c in 0..CHANNELS {
            for tap in 0..9 {
                let exact: f64 = (0..positions).filter_map(|p| Some(g(o, p) * input(c, at(p, tap)?))).sum();
                squares += (got[(o * CHANNELS + c) * 9 + tap] - exact).powi(2);
            }
        }
    }
    let sizes = (0..positions).map(|p| {
        let taps = (0..9).filter_map(|tap| at(p, tap));
        let read = taps.flat_map(|from| (0..CHANNELS).map(move |c| (c, from)));
        length(read.map(|(c, from)| input(c, from))) * length((0..OUT).map(|o| g(o, p)))
    });
    squares.sqrt() / sizes.sum::<f64>()
}

pub(crate) fn sums_of_deferred_layers_are_as_exact_as_assumed(subjects: &[Subject]) {
    for size in [2, 4, 8] {
        let (graph, positions) = (convolution(size), size * size);
        for subject in subjects {
            let mut opened = subject.planned_for(1).open(&graph);
            let rule = opened.rule(&Clipping::Off);
            let mut worst = 0f64;
            for case in 0..CASES {
                let inputs: Vec<f32> = (0..CHANNELS * positions).map(|i| value(case, "x", i)).collect();
                let targets: Vec<f32> = (0..OUT * positions).map(|i| value(case, "t", i)).collect();
                let batch = Batch::new(&inputs, Targets::Values(&targets));
                let got = opened.step(&Parameters::zeros(&graph), &batch, &rule).gradient;
                worst = worst.max(distance(size, &inputs, &targets, &got));
            }
            let assumed = assumed(*subject, positions);
            println!("sums of {positions} positions: off by {worst:.1e} of the sizes, {assumed:.1e} assumed");
            assert!(worst <= assumed, "{positions} positions, {subject:?}: off by {worst:.1e}");
        }
    }
}
