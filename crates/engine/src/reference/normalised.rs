//! Normalised values, by whichever values share their statistics.

use dapple_graph::Affine;

use super::{Gradients, ReferenceContext, Tensor};

/// A value from which the mean was taken off, and which was divided by the deviation.
pub(crate) struct Normalised {
    hat: Vec<f64>,
    /// One over the deviation, for every element.
    inverse: Vec<f64>,
    /// How many neighbouring elements share their own statistics; `None` if the statistics are stored ones.
    run: Option<usize>,
    /// Whether the mean was taken off.
    centred: bool,
}

impl Normalised {
    /// Normalises every `run` neighbouring values by their own mean and variance, or, unless they are `centred`, by their mean square.
    pub(crate) fn in_runs(x: &Tensor, run: usize, eps: f32, centred: bool) -> Self {
        let mut hat = x.data.clone();
        let mut inverse = vec![0.0; hat.len()];
        for (set, inverse) in hat.chunks_exact_mut(run).zip(inverse.chunks_exact_mut(run)) {
            let mean = if centred { set.iter().sum::<f64>() / run as f64 } else { 0.0 };
            let variance = set.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / run as f64;
            inverse.fill(1.0 / (variance + f64::from(eps)).sqrt());
            set.iter_mut().zip(inverse).for_each(|(v, r)| *v = (*v - mean) * *r);
        }
        Self { hat, inverse, run: Some(run), centred }
    }

    /// Normalises every channel by stored statistics.
    pub(crate) fn by_statistics(x: &Tensor, mean: &[f64], variance: &[f64], eps: f32) -> Self {
        let positions = x.positions();
        let inverse = |index: usize| 1.0 / (variance[index / positions] + f64::from(eps)).sqrt();
        let inverse: Vec<f64> = (0..x.data.len()).map(inverse).collect();
        let hat = |(index, value): (usize, &f64)| (value - mean[index / positions]) * inverse[index];
        Self { hat: x.data.iter().enumerate().map(hat).collect(), inverse, run: None, centred: true }
    }

    /// Scales and shifts the normalised values; `feature` tells which scale and shift an element has.
    pub(crate) fn affine(
        self,
        affine: Option<Affine>,
        feature: impl Fn(usize) -> usize,
        context: &ReferenceContext<'_>,
    ) -> Vec<f64> {
        let mut y = self.hat;
        if let Some(Affine { weight, bias }) = affine {
            let (weight, bias) = (context.parameter(weight), bias.map(|bias| context.parameter(bias)));
            for (index, value) in y.iter_mut().enumerate() {
                *value = *value * weight[feature(index)] + bias.map_or(0.0, |bias| bias[feature(index)]);
            }
        }
        y
    }

    /// The gradients of the value that was normalised, and of scale and shift.
    pub(crate) fn backward(
        &self,
        affine: Option<Affine>,
        feature: impl Fn(usize) -> usize,
        context: &ReferenceContext<'_>,
        g: &Tensor,
    ) -> Gradients {
        let mut dx = g.clone();
        let mut parameters = Vec::new();
        if let Some(Affine { weight, bias }) = affine {
            let scale = context.parameter(weight);
            let (mut dw, mut db) = (vec![0.0; scale.len()], vec![0.0; scale.len()]);
            for (index, value) in dx.data.iter_mut().enumerate() {
                let feature = feature(index);
                dw[feature] += *value * self.hat[index];
                db[feature] += *value;
                *value *= scale[feature];
            }
            parameters = std::iter::once((weight, dw)).chain(bias.map(|bias| (bias, db))).collect();
        }
        match self.run {
            None => dx.data.iter_mut().zip(&self.inverse).for_each(|(d, r)| *d *= r),
            Some(run) => {
                let sets = self.hat.chunks_exact(run).zip(self.inverse.chunks_exact(run));
                for (set, (hat, inverse)) in dx.data.chunks_exact_mut(run).zip(sets) {
                    let mean = if self.centred { set.iter().sum::<f64>() / run as f64 } else { 0.0 };
                    let along = set.iter().zip(hat).map(|(d, h)| d * h).sum::<f64>() / run as f64;
                    for (d, h) in set.iter_mut().zip(hat) {
                        *d = (*d - mean - h * along) * inverse[0];
                    }
                }
            }
        }
        Gradients { inputs: vec![dx], parameters }
    }
}
