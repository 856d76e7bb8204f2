//! How the CPU takes a softmax.

use dapple_graph::op::Softmax;
use pulp::{Arch, NullaryFnOnce};

use crate::cpu::functions::exp;
use crate::cpu::operation::{
    BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode, Order,
};

/// How many partial results a row has, so that they do not wait for each other.
const LANES: usize = 16;

#[derive(Debug)]
struct SoftmaxKernel {
    features: usize,
}

impl CpuOperation for Softmax {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(SoftmaxKernel { features: node.form.rows().1 })
    }
}

impl CpuKernel for SoftmaxKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads { inputs: false, output: true }
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            softmax_rows(item.values.input(0), item.y, self.features);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if let Some((dx, accumulate)) = item.input_gradients.part(0) {
                softmax_rows_backward(item.values.output(), item.g, dx, self.features, accumulate);
            }
        });
    }
}

/// Takes the softmax of every row of `features` scores; of a subset, if the scores have numbers: those whose number is zero have no weight,
/// whatever they are, as long as they are finite.
pub(crate) fn softmax_rows_of(
    scores: &mut [f32],
    weights: &mut [f32],
    features: usize,
    numbers: Option<&[f32]>,
) {
    // Below every other score, what is left of a token is too little to count in the sum of a row, and is then set to nothing at all.
    replace_excluded(scores, numbers, f32::MIN);
    softmax_rows(scores, weights, features);
    replace_excluded(weights, numbers, 0.0);
}

/// Puts a value in the place of the scores, or of the weights, of all tokens whose number is zero.
fn replace_excluded(rows: &mut [f32], numbers: Option<&[f32]>, by: f32) {
    let Some(numbers) = numbers else { return };
    for row in rows.chunks_exact_mut(numbers.len()) {
        let excluded = row.iter_mut().zip(numbers).filter(|(_, number)| **number == 0.0);
        excluded.for_each(|(value, _)| *value = by);
    }
}

/// Takes the softmax of every row of `features` values.
fn softmax_rows(x: &[f32], y: &mut [f32], features: usize) {
    Arch::new().dispatch(SoftmaxRows { x, y, features });
}

struct SoftmaxRows<'a> {
    x: &'a [f32],
    y: &'a mut [f32],
    features: usize,
}

impl NullaryFnOnce for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { x, y, features } = self;
        for (x, y) in x.chunks_exact(features).zip(y.chunks_exact_mut(features)) {
            let max = fold(x, f32::NEG_INFINITY, |max, x| if x > max { x } else { max });
            y.iter_mut().zip(x).for_each(|(y, x)| *y = exp(x - max));
            let inverse = 1.0 / fold(y, 0.0, |sum, y| sum + y);
            y.iter_mut().for_each(|y| *y *= inverse);
        }
    }
}

/// Joins all values by an operation that may take them in any order, several at once.
#[inline(always)]
fn fold(values: &[f32], first: f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [first; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, &value)| *lane = join(*lane, value));
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, &value)| *lane = join(*lane, value));
    lanes.into_iter().fold(first, &join)
}

/// The inner product of two rows.
#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane += a * b);
    }
    lanes.iter_mut().zip(a_rest.iter().zip(b_rest)).for_each(|(lane, (a, b))| *lane += a * b);
    lanes.into_iter().sum()
}

/// Writes or adds the gradient of the input, from the output and its gradient.
pub(crate) fn softmax_rows_backward(y: &[f32], g: &[f32], dx: &mut [f32], features: usize, accumulate: bool) {
    Arch::new().dispatch(SoftmaxRowsBackward { y, g, dx, features, accumulate });
}

struct SoftmaxRowsBackward<'a> {
    y: &'a [f32],
    g: &'a [f32],
    dx: &'a mut [f32],
    features: usize,
    accumulate: bool,
}

impl NullaryFnOnce for SoftmaxRowsBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self { y, g, dx, features, accumulate } = self;
        for ((y, g), dx) in
            y.chunks_exact(features).zip(g.chunks_exact(features)).zip(dx.chunks_exact_mut(features))
        {
            let along = dot(y, g);
            let terms = y.iter().zip(g).map(|(y, g)| y * (g - along));
            if accumulate {
                dx.iter_mut().zip(terms).for_each(|(dx, term)| *dx += term);
            } else {
                dx.iter_mut().zip(terms).for_each(|(dx, term)| *dx = term);
            }
        }
    }
}
