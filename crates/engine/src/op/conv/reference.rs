//! How the oracle runs a convolution: by every output position, every tap and every pair of channels.

use dapple_graph::op::Conv;

use crate::reference::{Gradients, ReferenceContext, ReferenceOperation, Tensor, taps};

impl ReferenceOperation for Conv {
    fn forward(&self, inputs: &[&Tensor], context: &ReferenceContext<'_>, y: &mut Tensor) {
        let x = inputs[0];
        let (inside, outside) = (x.positions(), y.positions());
        let out = y.shape[0];
        let weight = effective_weight(context.parameter(self.weight), out, self.standardise);
        let (per_in, per_out, size) = (x.shape[0] / self.groups, out / self.groups, self.window.taps());
        if let Some(bias) = self.bias {
            for (channel, value) in y.data.chunks_exact_mut(outside).zip(context.parameter(bias)) {
                channel.fill(*value);
            }
        }
        for (position, tap, place) in taps(&self.window, &x.shape[1..], &y.shape[1..]) {
            for o in 0..out {
                for i in 0..per_in {
                    let channel = o / per_out * per_in + i;
                    y.data[o * outside + position] +=
                        weight[(o * per_in + i) * size + tap] * x.data[channel * inside + place];
                }
            }
        }
    }

    fn backward(
        &self,
        inputs: &[&Tensor],
        _: &Tensor,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let x = inputs[0];
        let (inside, outside) = (x.positions(), g.positions());
        let mut dx = Tensor::zeros(&x.shape);
        let out = g.shape[0];
        let stored = context.parameter(self.weight);
        let used = effective_weight(stored, out, self.standardise);
        let mut dw = vec![0.0; stored.len()];
        let (per_in, per_out, size) = (x.shape[0] / self.groups, out / self.groups, self.window.taps());
        for (position, tap, place) in taps(&self.window, &x.shape[1..], &g.shape[1..]) {
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
        let mut parameters = vec![(self.weight, centred_gradient(stored, &dw, out, self.standardise))];
        if let Some(bias) = self.bias {
            parameters.push((bias, g.data.chunks_exact(outside).map(|row| row.iter().sum()).collect()));
        }
        Gradients { inputs: vec![dx], parameters }
    }
}

/// The weight that a convolution uses, which is the parameter itself or, if asked, each of its filters standardised.
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

/// The gradient of the parameter, from the gradient of the weight that was used. If weights are standardised, the mean is taken off and the
/// rest divided by the deviation, but the part along the filter stays in.
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
pub(crate) fn project(weight: &[f64], out: usize, eps: f32, gradient: &mut [f64]) {
    let size = weight.len() / out;
    let used = effective_weight(weight, out, Some(eps));
    for (used, gradient) in used.chunks_exact(size).zip(gradient.chunks_exact_mut(size)) {
        let along = used.iter().zip(&*gradient).map(|(w, g)| w * g).sum::<f64>() / size as f64;
        gradient.iter_mut().zip(used).for_each(|(g, w)| *g -= w * along);
    }
}
