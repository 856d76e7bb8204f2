//! Group, layer and frozen batch normalisation.

use dapple_graph::op::{BatchNorm, GroupNorm, LayerNorm};
use dapple_graph::{Affine, Op};

use super::{Gradients, Tensor};

/// The sets of elements that share statistics, and the affine index of every element.
fn sets(op: &Op, shape: &[usize]) -> (usize, Box<dyn Fn(usize) -> usize>) {
    let len: usize = shape.iter().product();
    match op {
        Op::GroupNorm(GroupNorm { groups, .. }) => {
            let positions: usize = shape[1..].iter().product();
            (len / groups, Box::new(move |index| index / positions))
        }
        _ => {
            let features = shape[shape.len() - 1];
            (features, Box::new(move |index| index % features))
        }
    }
}

fn statistics(op: &Op) -> (f64, Option<Affine>) {
    match op {
        Op::GroupNorm(GroupNorm { eps, affine, .. }) | Op::LayerNorm(LayerNorm { eps, affine }) => {
            (f64::from(*eps), *affine)
        }
        _ => (0.0, None),
    }
}

/// Normalised values and one over the deviation, for every element.
fn normalise(op: &Op, x: &Tensor, parameters: &[Vec<f64>]) -> (Vec<f64>, Vec<f64>) {
    let mut hat = x.data.clone();
    let mut inverse = vec![0.0; hat.len()];
    if let Op::BatchNorm(BatchNorm { eps, mean, variance, .. }) = op {
        let positions: usize = x.shape[1..].iter().product();
        for (index, value) in hat.iter_mut().enumerate() {
            let channel = index / positions;
            inverse[index] = 1.0 / (parameters[variance.index()][channel] + f64::from(*eps)).sqrt();
            *value = (*value - parameters[mean.index()][channel]) * inverse[index];
        }
        return (hat, inverse);
    }
    let (size, _) = sets(op, &x.shape);
    let (eps, _) = statistics(op);
    for (set, inverse) in hat.chunks_exact_mut(size).zip(inverse.chunks_exact_mut(size)) {
        let mean = set.iter().sum::<f64>() / size as f64;
        let variance = set.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / size as f64;
        inverse.fill(1.0 / (variance + eps).sqrt());
        set.iter_mut().zip(inverse).for_each(|(v, r)| *v = (*v - mean) * *r);
    }
    (hat, inverse)
}

/// Affine parameters and the affine index of every element.
fn affine(op: &Op, shape: &[usize]) -> (Option<Affine>, Box<dyn Fn(usize) -> usize>) {
    match op {
        Op::BatchNorm(BatchNorm { affine, .. }) => {
            let positions: usize = shape[1..].iter().product();
            (Some(*affine), Box::new(move |index| index / positions))
        }
        op => (statistics(op).1, sets(op, shape).1),
    }
}

pub(super) fn forward(op: &Op, x: &Tensor, parameters: &[Vec<f64>], y: &mut Tensor) {
    y.data = normalise(op, x, parameters).0;
    let (affine, feature) = affine(op, &x.shape);
    if let Some(Affine { weight, bias }) = affine {
        for (index, value) in y.data.iter_mut().enumerate() {
            let feature = feature(index);
            *value = *value * parameters[weight.index()][feature] + parameters[bias.index()][feature];
        }
    }
}

pub(super) fn backward(op: &Op, x: &Tensor, parameters: &[Vec<f64>], g: &Tensor) -> Gradients {
    let (hat, inverse) = normalise(op, x, parameters);
    let (affine, feature) = affine(op, &x.shape);
    let mut dhat = g.data.clone();
    let mut gradients = Vec::new();
    if let Some(Affine { weight, bias }) = affine {
        let scale = &parameters[weight.index()];
        let (mut dw, mut db) = (vec![0.0; scale.len()], vec![0.0; scale.len()]);
        for (index, value) in dhat.iter_mut().enumerate() {
            let feature = feature(index);
            dw[feature] += *value * hat[index];
            db[feature] += *value;
            *value *= scale[feature];
        }
        gradients = vec![(weight, dw), (bias, db)];
    }
    let mut dx = Tensor { shape: x.shape.clone(), data: dhat };
    if matches!(op, Op::BatchNorm(_)) {
        dx.data.iter_mut().zip(&inverse).for_each(|(d, r)| *d *= r);
    } else {
        let (size, _) = sets(op, &x.shape);
        for (start, set) in dx.data.chunks_exact_mut(size).enumerate() {
            let hat = &hat[start * size..][..size];
            let mean = set.iter().sum::<f64>() / size as f64;
            let along = set.iter().zip(hat).map(|(d, h)| d * h).sum::<f64>() / size as f64;
            for (d, h) in set.iter_mut().zip(hat) {
                *d = (*d - mean - h * along) * inverse[start * size];
            }
        }
    }
    Gradients { inputs: vec![dx], parameters: gradients }
}
