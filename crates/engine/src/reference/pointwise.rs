//! Activations, sums, products, dropout, and operations that only move values.

use dapple_graph::Op;
use dapple_graph::op::{Activation, Concat, Dropout, Gather, Permute, Slice};

use super::{Gradients, Tensor};
use crate::batch::keeps;

/// For operations that only move values: the input and the element that each output element is.
fn sources(op: &Op, inputs: &[&[usize]], output: &[usize]) -> Option<Vec<(usize, usize)>> {
    let strides = |shape: &[usize]| -> Vec<usize> {
        (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
    };
    let len: usize = output.iter().product();
    let out_strides = strides(output);
    let index = |flat: usize, axis: usize| flat / out_strides[axis] % output[axis];
    let source = |flat: usize| -> Option<(usize, usize)> {
        match op {
            Op::Concat(Concat { axis }) => {
                let mut along = index(flat, *axis);
                let mut input = 0;
                while along >= inputs[input][*axis] {
                    along -= inputs[input][*axis];
                    input += 1;
                }
                let strides = strides(inputs[input]);
                let element = (0..output.len())
                    .map(|a| if a == *axis { along } else { index(flat, a) } * strides[a])
                    .sum();
                Some((input, element))
            }
            Op::Slice(Slice { axis, start, .. }) => {
                let strides = strides(inputs[0]);
                let shift = |a: usize| if a == *axis { *start } else { 0 };
                Some((0, (0..output.len()).map(|a| (index(flat, a) + shift(a)) * strides[a]).sum()))
            }
            Op::Permute(Permute(axes)) => {
                let strides = strides(inputs[0]);
                Some((0, axes.iter().enumerate().map(|(to, &from)| index(flat, to) * strides[from]).sum()))
            }
            Op::Reshape(_) => Some((0, flat)),
            Op::Gather(Gather(rows)) => {
                let size = len / rows.len();
                Some((0, rows[flat / size] * size + flat % size))
            }
            _ => None,
        }
    };
    (0..len).map(source).collect()
}

/// Value and derivative of an activation.
fn activation(op: &Op, x: f64) -> (f64, f64) {
    match op {
        Op::Activation(Activation::Relu) => (x.max(0.0), if x > 0.0 { 1.0 } else { 0.0 }),
        Op::Activation(Activation::Relu6) => (x.clamp(0.0, 6.0), if x > 0.0 && x < 6.0 { 1.0 } else { 0.0 }),
        Op::Activation(Activation::Tanh) => (x.tanh(), 1.0 - x.tanh().powi(2)),
        Op::Activation(Activation::Silu) => {
            let sigmoid = 1.0 / (1.0 + (-x).exp());
            (x * sigmoid, sigmoid * (1.0 + x * (1.0 - sigmoid)))
        }
        Op::Activation(Activation::Scale(factor)) => (x * f64::from(*factor), f64::from(*factor)),
        _ => {
            let below = 0.5 * (1.0 + libm::erf(x / std::f64::consts::SQRT_2));
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
            (x * below, below + x * density)
        }
    }
}

fn dropout(rate: f32, key: Option<(u64, usize)>, element: usize) -> f64 {
    match key {
        Some((key, node)) if !keeps(key, node, element, rate) => 0.0,
        Some(_) => 1.0 / (1.0 - f64::from(rate)),
        None => 1.0,
    }
}

pub(super) fn forward(op: &Op, inputs: &[&Tensor], key: Option<(u64, usize)>, y: &mut Tensor) {
    let shapes: Vec<&[usize]> = inputs.iter().map(|x| x.shape.as_slice()).collect();
    if let Some(sources) = sources(op, &shapes, &y.shape) {
        y.data = sources.iter().map(|&(input, element)| inputs[input].data[element]).collect();
        return;
    }
    let channel = y.shape.iter().skip(1).product::<usize>();
    for (index, value) in y.data.iter_mut().enumerate() {
        let x = inputs[0].data[index];
        *value = match op {
            Op::Add(_) => x + inputs[1].data[index],
            Op::Mul(_) => x * inputs[1].data[index],
            Op::Dropout(Dropout { rate, channels: false }) => x * dropout(*rate, key, index),
            Op::Dropout(Dropout { rate, channels: true }) => x * dropout(*rate, key, index / channel),
            op => activation(op, x).0,
        };
    }
}

pub(super) fn backward(op: &Op, inputs: &[&Tensor], key: Option<(u64, usize)>, g: &Tensor) -> Gradients {
    let shapes: Vec<&[usize]> = inputs.iter().map(|x| x.shape.as_slice()).collect();
    let mut gradients: Vec<Tensor> = inputs.iter().map(|x| Tensor::zeros(&x.shape)).collect();
    if let Some(sources) = sources(op, &shapes, &g.shape) {
        for (&(input, element), upstream) in sources.iter().zip(&g.data) {
            gradients[input].data[element] += upstream;
        }
        return Gradients { inputs: gradients, parameters: Vec::new() };
    }
    let channel = g.shape.iter().skip(1).product::<usize>();
    for (index, upstream) in g.data.iter().enumerate() {
        let x = inputs[0].data[index];
        match op {
            Op::Add(_) => gradients.iter_mut().for_each(|d| d.data[index] = *upstream),
            Op::Mul(_) => {
                gradients[0].data[index] = upstream * inputs[1].data[index];
                gradients[1].data[index] = upstream * x;
            }
            Op::Dropout(Dropout { rate, channels: false }) => {
                gradients[0].data[index] = upstream * dropout(*rate, key, index)
            }
            Op::Dropout(Dropout { rate, channels: true }) => {
                gradients[0].data[index] = upstream * dropout(*rate, key, index / channel)
            }
            op => gradients[0].data[index] = upstream * activation(op, x).1,
        }
    }
    Gradients { inputs: gradients, parameters: Vec::new() }
}
