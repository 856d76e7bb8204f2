//! Convolution, pooling and resampling, by walking every output position and every tap.

use dapple_graph::op::{AvgPool, Conv, MaxPool};
use dapple_graph::{Op, Window};

use super::{Gradients, Tensor};

/// All index tuples of a shape, in row-major order.
fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..shape.iter().product()).map(|mut flat: usize| {
        let mut index = vec![0; shape.len()];
        for axis in (0..shape.len()).rev() {
            index[axis] = flat % shape[axis];
            flat /= shape[axis];
        }
        index
    })
}

fn flat(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |sum, (size, i)| sum * size + i)
}

/// For every output position, the taps that fall inside the input: `(output, tap, input)`, all flat.
fn taps(window: &Window, input: &[usize], output: &[usize]) -> Vec<(usize, usize, usize)> {
    let mut list = Vec::new();
    for position in indices(output) {
        for tap in indices(&window.kernel) {
            let place: Option<Vec<usize>> = (0..input.len())
                .map(|axis| {
                    let padded = position[axis] * window.stride[axis] + tap[axis] * window.dilation[axis];
                    padded.checked_sub(window.padding[axis]).filter(|&i| i < input[axis])
                })
                .collect();
            if let Some(place) = place {
                list.push((flat(output, &position), flat(&window.kernel, &tap), flat(input, &place)));
            }
        }
    }
    list
}

/// Weights of the linear map that adaptive pooling or bilinear resampling applies to each channel: `(output, input, weight)`.
fn resampling(op: &Op, input: &[usize], output: &[usize]) -> Vec<(usize, usize, f64)> {
    let axis_weights = |axis: usize, position: usize| -> Vec<(usize, f64)> {
        let (from, to) = (input[axis], output[axis]);
        if matches!(op, Op::AdaptiveAvgPool(_)) {
            let (start, end) = (position * from / to, ((position + 1) * from).div_ceil(to));
            return (start..end).map(|i| (i, 1.0 / (end - start) as f64)).collect();
        }
        let source = ((position as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
        let low = (source as usize).min(from - 1);
        let high = (low + 1).min(from - 1);
        let share = source - low as f64;
        vec![(low, 1.0 - share), (high, share)]
    };
    let mut list = Vec::new();
    for position in indices(output) {
        let mut terms = vec![(0, 1.0)];
        for axis in 0..input.len() {
            let weights = axis_weights(axis, position[axis]);
            terms = terms
                .iter()
                .flat_map(|&(place, w)| weights.iter().map(move |&(i, v)| (place * input[axis] + i, w * v)))
                .collect();
        }
        list.extend(terms.into_iter().map(|(place, weight)| (flat(output, &position), place, weight)));
    }
    list
}

/// The weight a convolution uses: the parameter itself, or standardised per output filter.
fn effective_weight(weight: &[f64], out: usize, standardise: Option<f32>) -> Vec<f64> {
    let Some(eps) = standardise else { return weight.to_vec() };
    let mut result = weight.to_vec();
    for filter in result.chunks_exact_mut(weight.len() / out) {
        let n = filter.len() as f64;
        let mean = filter.iter().sum::<f64>() / n;
        let variance = filter.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / n;
        filter.iter_mut().for_each(|w| *w = (*w - mean) / (variance + f64::from(eps)).sqrt());
    }
    result
}

/// Gradient of the parameter from the gradient of the weight that was used, with its part along the filter still in it: less the mean, over
/// the deviation.
fn centred_gradient(weight: &[f64], gradient: &[f64], out: usize, standardise: Option<f32>) -> Vec<f64> {
    let Some(eps) = standardise else { return gradient.to_vec() };
    let size = weight.len() / out;
    let n = size as f64;
    let mut result = Vec::with_capacity(weight.len());
    for (filter, upstream) in weight.chunks_exact(size).zip(gradient.chunks_exact(size)) {
        let mean = filter.iter().sum::<f64>() / n;
        let variance = filter.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / n;
        let deviation = (variance + f64::from(eps)).sqrt();
        let upstream_mean = upstream.iter().sum::<f64>() / n;
        result.extend(upstream.iter().map(|g| (g - upstream_mean) / deviation));
    }
    result
}

/// Takes the part along each standardised filter off a gradient.
pub(super) fn project(weight: &[f64], out: usize, eps: f32, gradient: &mut [f64]) {
    let size = weight.len() / out;
    let used = effective_weight(weight, out, Some(eps));
    for (used, gradient) in used.chunks_exact(size).zip(gradient.chunks_exact_mut(size)) {
        let along = used.iter().zip(&*gradient).map(|(w, g)| w * g).sum::<f64>() / size as f64;
        gradient.iter_mut().zip(used).for_each(|(g, w)| *g -= w * along);
    }
}

pub(super) fn forward(op: &Op, x: &Tensor, parameters: &[Vec<f64>], y: &mut Tensor) {
    let (inside, outside): (usize, usize) = (x.shape[1..].iter().product(), y.shape[1..].iter().product());
    match op {
        Op::Conv(Conv { window, groups, weight, bias, standardise }) => {
            let out = y.shape[0];
            let weight = effective_weight(&parameters[weight.index()], out, *standardise);
            let (per_in, per_out, size) = (x.shape[0] / groups, out / groups, window.taps());
            if let Some(bias) = bias {
                for (channel, value) in y.data.chunks_exact_mut(outside).zip(&parameters[bias.index()]) {
                    channel.fill(*value);
                }
            }
            for (position, tap, place) in taps(window, &x.shape[1..], &y.shape[1..]) {
                for o in 0..out {
                    for i in 0..per_in {
                        let channel = o / per_out * per_in + i;
                        y.data[o * outside + position] +=
                            weight[(o * per_in + i) * size + tap] * x.data[channel * inside + place];
                    }
                }
            }
        }
        Op::MaxPool(MaxPool(window)) => {
            y.data.fill(f64::NEG_INFINITY);
            for (position, _, place) in taps(window, &x.shape[1..], &y.shape[1..]) {
                for c in 0..x.shape[0] {
                    let best = &mut y.data[c * outside + position];
                    *best = best.max(x.data[c * inside + place]);
                }
            }
        }
        Op::AvgPool(AvgPool(window)) => {
            for (position, _, place) in taps(window, &x.shape[1..], &y.shape[1..]) {
                for c in 0..x.shape[0] {
                    y.data[c * outside + position] += x.data[c * inside + place] / window.taps() as f64;
                }
            }
        }
        op => {
            for (position, place, weight) in resampling(op, &x.shape[1..], &y.shape[1..]) {
                for c in 0..x.shape[0] {
                    y.data[c * outside + position] += weight * x.data[c * inside + place];
                }
            }
        }
    }
}

pub(super) fn backward(op: &Op, x: &Tensor, parameters: &[Vec<f64>], g: &Tensor) -> Gradients {
    let (inside, outside): (usize, usize) = (x.shape[1..].iter().product(), g.shape[1..].iter().product());
    let mut dx = Tensor::zeros(&x.shape);
    let mut gradients = Vec::new();
    match op {
        Op::Conv(Conv { window, groups, weight, bias, standardise }) => {
            let out = g.shape[0];
            let stored = &parameters[weight.index()];
            let used = effective_weight(stored, out, *standardise);
            let mut dw = vec![0.0; stored.len()];
            let (per_in, per_out, size) = (x.shape[0] / groups, out / groups, window.taps());
            for (position, tap, place) in taps(window, &x.shape[1..], &g.shape[1..]) {
                for o in 0..out {
                    for i in 0..per_in {
                        let channel = o / per_out * per_in + i;
                        let index = (o * per_in + i) * size + tap;
                        let upstream = g.data[o * outside + position];
                        dw[index] += upstream * x.data[channel * inside + place];
                        dx.data[channel * inside + place] += upstream * used[index];
                    }
                }
            }
            gradients.push((*weight, centred_gradient(stored, &dw, out, *standardise)));
            if let Some(bias) = bias {
                gradients.push((*bias, g.data.chunks_exact(outside).map(|row| row.iter().sum()).collect()));
            }
        }
        Op::MaxPool(MaxPool(window)) => {
            // The first tap that holds the maximum receives the gradient, as in PyTorch.
            let mut best = vec![(f64::NEG_INFINITY, usize::MAX); g.data.len()];
            for (position, _, place) in taps(window, &x.shape[1..], &g.shape[1..]) {
                for c in 0..x.shape[0] {
                    let value = x.data[c * inside + place];
                    let entry = &mut best[c * outside + position];
                    if value > entry.0 || entry.1 == usize::MAX {
                        *entry = (value, c * inside + place);
                    }
                }
            }
            for (&(_, place), upstream) in best.iter().zip(&g.data) {
                dx.data[place] += upstream;
            }
        }
        Op::AvgPool(AvgPool(window)) => {
            for (position, _, place) in taps(window, &x.shape[1..], &g.shape[1..]) {
                for c in 0..x.shape[0] {
                    dx.data[c * inside + place] += g.data[c * outside + position] / window.taps() as f64;
                }
            }
        }
        op => {
            for (position, place, weight) in resampling(op, &x.shape[1..], &g.shape[1..]) {
                for c in 0..x.shape[0] {
                    dx.data[c * inside + place] += weight * g.data[c * outside + position];
                }
            }
        }
    }
    Gradients { inputs: vec![dx], parameters: gradients }
}
