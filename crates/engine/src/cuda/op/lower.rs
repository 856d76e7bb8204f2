//! From an operation of a graph to how it runs on the card.

use dapple_graph::{Op, Window, op as graph};

use super::CardOperation;
use super::arithmetic::{Product, Sum};
use super::attention::Attention;
use super::convolution::Conv;
use super::dropout::Dropout;
use super::gather::Gather;
use super::group_norm::GroupNorm;
use super::input::Input;
use super::layer_norm::LayerNorm;
use super::linear::Linear;
use super::matrix_product::MatrixProduct;
use super::moved::Moved;
use super::parameter::ParameterValue;
use super::pool::{AdaptivePool, AveragePool, MaxPool};
use super::resampling::{self, Upsample};
use super::softmax::Softmax;
use super::unary::{Activation, Unary};
use crate::cuda::geometry::Geometry;
use crate::cuda::lower::Steps;

/// Positions of a channel.
fn positions(shape: &[usize]) -> usize {
    shape.iter().skip(1).product()
}

/// Values of a row.
fn last(shape: &[usize]) -> usize {
    shape.last().copied().unwrap_or(1)
}

fn rows(shape: &[usize]) -> usize {
    shape.iter().product::<usize>() / last(shape)
}

/// Places a window's table.
fn window(steps: &mut Steps, window: &Window, input: &[usize], output: &[usize]) -> usize {
    steps.table(Geometry::new(window, 1, input, output).window_table())
}

/// An operation on inputs of these shapes, with its tables placed; `before` is the node of its first input.
pub(in crate::cuda) fn lower(
    steps: &mut Steps,
    op: &Op,
    inputs: &[&[usize]],
    shape: &[usize],
    before: Option<usize>,
) -> Box<dyn CardOperation> {
    let x = inputs.first().copied().unwrap_or(&[]);
    let unary = |activation, factor| Box::new(Unary { activation, factor });
    match op {
        // A reshape is always folded into its input.
        Op::Input(_) | Op::Reshape(_) => Box::new(Input),
        Op::ParameterValue(graph::ParameterValue(id)) => Box::new(ParameterValue(*id)),
        Op::Conv(graph::Conv { window, groups, weight, bias, standardise }) => {
            let wanted = before.is_some_and(|before| steps.needs_gradient[before]);
            let parameters = (*weight, *bias, *standardise);
            Box::new(Conv::new(steps, (window, *groups), parameters, (x, shape), wanted))
        }
        Op::Linear(graph::Linear { weight, bias }) => {
            let (rows, features, out) = (rows(x), last(x), last(shape));
            Box::new(Linear { weight: *weight, bias: *bias, rows, features, out })
        }
        Op::GroupNorm(graph::GroupNorm { groups, eps, affine }) => {
            Box::new(GroupNorm::new((*groups, x[0] / groups, positions(x)), *eps, *affine, None))
        }
        Op::BatchNorm(graph::BatchNorm { eps, affine, mean, variance, .. }) => {
            let stored = Some((*mean, *variance));
            Box::new(GroupNorm::new((x[0], 1, positions(x)), *eps, Some(*affine), stored))
        }
        Op::LayerNorm(graph::LayerNorm { eps, affine }) => {
            Box::new(LayerNorm { features: last(x), rows: rows(x), eps: *eps, affine: *affine })
        }
        Op::Activation(graph::Activation::Relu) => unary(Activation::Relu, 1.0),
        Op::Activation(graph::Activation::Relu6) => unary(Activation::Relu6, 1.0),
        Op::Activation(graph::Activation::Gelu) => unary(Activation::Gelu, 1.0),
        Op::Activation(graph::Activation::Silu) => unary(Activation::Silu, 1.0),
        Op::Activation(graph::Activation::Tanh) => unary(Activation::Tanh, 1.0),
        Op::Activation(graph::Activation::Scale(factor)) => unary(Activation::Scale, *factor),
        Op::MaxPool(graph::MaxPool(size)) => Box::new(MaxPool(window(steps, size, x, shape))),
        Op::AvgPool(graph::AvgPool(size)) => Box::new(AveragePool(window(steps, size, x, shape))),
        Op::AdaptiveAvgPool(graph::AdaptiveAvgPool(size)) => {
            Box::new(AdaptivePool(window(steps, &Window::new(size.len(), 1), x, shape)))
        }
        Op::Upsample(graph::Upsample(size)) => {
            Box::new(Upsample(steps.table(resampling::table(&x[1..], size))))
        }
        Op::Add(_) => Box::new(Sum),
        Op::Mul(_) => Box::new(Product),
        Op::Dropout(graph::Dropout { rate, channels }) => {
            Box::new(Dropout { rate: *rate, together: if *channels { positions(x) } else { 1 } })
        }
        Op::Concat(graph::Concat { axis }) => Box::new(Moved::concatenated(steps, *axis, inputs, shape)),
        Op::Slice(graph::Slice { axis, start, .. }) => {
            Box::new(Moved::sliced(steps, (*axis, *start), x, shape))
        }
        Op::Permute(graph::Permute(axes)) => Box::new(Moved::permuted(steps, axes, x, shape)),
        Op::Gather(graph::Gather(indices)) => {
            let table = steps.table(indices.iter().map(|&index| index as i32).collect());
            Box::new(Gather { table, count: indices.len(), size: positions(x), rows: x[0] })
        }
        Op::MatMul(graph::MatMul { transpose }) => {
            let rank = shape.len();
            let batches = shape[..rank - 2].iter().product();
            let (m, k, n) = (shape[rank - 2], x[rank - 1], shape[rank - 1]);
            Box::new(MatrixProduct { batches, m, k, n, transpose: *transpose })
        }
        Op::Softmax(_) => Box::new(Softmax { features: last(x), rows: rows(x) }),
        Op::Attention(graph::Attention { heads }) => {
            let keys = inputs.get(1).map_or(x[0], |key| key[0]);
            Box::new(Attention { heads: *heads, width: x[1] / heads, queries: x[0], keys })
        }
    }
}
