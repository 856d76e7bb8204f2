//! Scales by which gradients are multiplied before they are clipped, so that all parameters share the noise alike.

use dapple_engine::Layout;

use crate::parallel;

/// No scale is more than this many times another. What little a parameter has that hardly moves is not worth all of the clip norm.
const MOST_APART: f64 = 32.0;

/// A scale for each trainable parameter, by Adam's second moments ("scale then privatise").
///
/// The gradient of a parameter `p` is multiplied by `s_p`, then clipped and noised with the others. `s_p` is in inverse proportion to the root of
/// `v_p`, the running mean of the mean square of the values that were released for `p`, less what noise adds to it, in the units of the
/// gradient itself. So of parameters whose gradients have different lengths each gets the same share of the clip norm for each of its
/// values, and the noise, which is as large for all in the scaled gradient, is small where gradients are. One scale serves all values of a
/// parameter, since a single value shows nothing but noise. As far as noise hides `v_p`, its place is taken by the mean over all values.
///
/// # Guarantee
/// The scales are a function of what earlier steps released and of public numbers alone.
#[derive(Debug, Clone, PartialEq)]
pub struct GradientScales {
    decay: f64,
    /// How many values each parameter has.
    lens: Vec<usize>,
    state: ScaleState,
}

/// What scales follow from. All of it starts at zero, for all parameters alike, so that nothing need be corrected for that.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScaleState {
    /// The running mean `v_p` of each parameter.
    pub moments: Vec<f64>,
    /// The variance that noise gives each of these.
    pub doubts: Vec<f64>,
}

impl GradientScales {
    /// Scales of one, before anything was released.
    #[must_use]
    pub fn new(decay: f64, layout: &Layout) -> Self {
        let lens: Vec<usize> = layout.entries().iter().map(|entry| entry.range.len()).collect();
        let zeros = || vec![0.0; lens.len()];
        let state = ScaleState { moments: zeros(), doubts: zeros() };
        Self { decay, lens, state }
    }

    /// What the next scales follow from.
    #[must_use]
    pub fn state(&self) -> &ScaleState {
        &self.state
    }

    /// Goes on from what was kept. If it does not fit, nothing changes and the answer is false.
    pub fn restore(&mut self, state: &ScaleState) -> bool {
        let fits = [&state.moments, &state.doubts].into_iter().all(|numbers| {
            numbers.len() == self.lens.len() && numbers.iter().all(|number| number.is_finite())
        });
        if fits {
            self.state.clone_from(state);
        }
        fits
    }

    /// The scale of each trainable parameter for the next step. Over all values, the mean of their squares is one.
    #[must_use]
    pub fn scales(&self) -> Vec<f64> {
        let ScaleState { moments, doubts } = &self.state;
        let over_all = self.mean(moments);
        if over_all <= 0.0 {
            return vec![1.0; self.lens.len()];
        }
        let seen = |(&moment, &doubt): (&f64, &f64)| {
            let certain = over_all * over_all / (over_all * over_all + doubt);
            certain * moment.max(0.0) + (1.0 - certain) * over_all
        };
        let seen: Vec<f64> = moments.iter().zip(doubts).map(seen).collect();
        let largest = seen.iter().copied().fold(0.0, f64::max);
        let least = largest / (MOST_APART * MOST_APART);
        let squares: Vec<f64> = seen.into_iter().map(|moment| 1.0 / moment.max(least)).collect();
        let mean = self.mean(&squares);
        squares.into_iter().map(|square| (square / mean).sqrt()).collect()
    }

    /// The mean over all values of what each parameter has one of.
    fn mean(&self, each: &[f64]) -> f64 {
        let values: usize = self.lens.iter().sum();
        each.iter().zip(&self.lens).map(|(one, &len)| one * len as f64).sum::<f64>() / values as f64
    }

    /// Learns from a released gradient, whose values are scaled and have noise of this variance.
    pub(crate) fn learn(&mut self, gradient: &[f32], variance: f64) {
        let scales = self.scales();
        let mut rest = gradient;
        let mut means = vec![0.0; self.lens.len()];
        let parts = means.iter_mut().zip(&self.lens).map(|(mean, &len)| {
            let (own, behind) = rest.split_at(len);
            rest = behind;
            (mean, own)
        });
        let parts: Vec<(&mut f64, &[f32])> = parts.collect();
        parallel::for_each(gradient.len(), parts, |(mean, values)| {
            *mean = values.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>() / values.len() as f64;
        });
        let ScaleState { moments, doubts } = &mut self.state;
        let (kept, new) = (self.decay, 1.0 - self.decay);
        for (index, (moment, doubt)) in moments.iter_mut().zip(doubts).enumerate() {
            let square = scales[index] * scales[index];
            *moment = kept * *moment + new * (means[index] - variance) / square;
            // The square of a normal number has twice the square of its variance.
            let one = 2.0 * (variance / square).powi(2) / self.lens[index] as f64;
            *doubt = kept * kept * *doubt + new * new * one;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::{GraphBuilder, Init, Loss};

    /// Two parameters: 3000 weights and 3 biases.
    fn layout() -> Layout {
        let mut builder = GraphBuilder::new(&[1000]);
        let input = builder.input();
        let linear = builder.linear("linear", input, 3, Init::XavierUniform, Init::Constant(0.0)).unwrap();
        Layout::new(&builder.finish(linear, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap())
    }

    /// A released gradient whose mean squares are those of gradients of these lengths, scaled, with noise of this variance.
    fn released(scales: &[f64], lengths: [f64; 2], variance: f64) -> Vec<f32> {
        let value = |part: usize| ((scales[part] * lengths[part]).powi(2) + variance).sqrt() as f32;
        (0..3003).map(|index| value(usize::from(index >= 3000))).collect()
    }

    #[test]
    fn scales_even_out_what_has_different_lengths() {
        let mut scales = GradientScales::new(0.9, &layout());
        assert_eq!(scales.scales(), [1.0, 1.0]);
        for _ in 0..50 {
            scales.learn(&released(&scales.scales(), [0.1, 0.4], 1e-6), 1e-6);
        }
        let [weights, biases] = scales.scales()[..] else { panic!("two parameters") };
        // Noise of a ten-thousandth hides next to nothing.
        assert!((weights / biases - 4.0).abs() < 1e-3, "{weights} {biases}");
        let mean = (3000.0 * weights * weights + 3.0 * biases * biases) / 3003.0;
        assert!((mean - 1.0).abs() < 1e-12, "{mean}");
    }

    /// Of three biases under as much noise there is nothing to be seen, so they are taken for ordinary values.
    #[test]
    fn what_noise_hides_has_an_ordinary_scale() {
        let mut scales = GradientScales::new(0.9, &layout());
        for _ in 0..50 {
            scales.learn(&released(&scales.scales(), [0.1, 0.4], 10.0), 10.0);
        }
        let [weights, biases] = scales.scales()[..] else { panic!("two parameters") };
        assert!((weights / biases - 1.0).abs() < 0.01, "{weights} {biases}");
        // Less than noise alone shows nothing at all.
        let mut scales = GradientScales::new(0.9, &layout());
        scales.learn(&[0.1; 3003], 1.0);
        assert_eq!(scales.scales(), [1.0, 1.0]);
    }

    #[test]
    fn scales_are_never_far_apart() {
        let mut scales = GradientScales::new(0.9, &layout());
        for _ in 0..50 {
            scales.learn(&released(&scales.scales(), [0.5, 0.0], 0.0), 0.0);
        }
        let [weights, biases] = scales.scales()[..] else { panic!("two parameters") };
        assert!((biases / weights - MOST_APART).abs() < 1e-9, "{weights} {biases}");
    }

    #[test]
    fn what_was_learned_is_restored() {
        let mut scales = GradientScales::new(0.9, &layout());
        scales.learn(&released(&[1.0, 1.0], [0.1, 0.7], 1e-4), 1e-4);
        let mut other = GradientScales::new(0.9, &layout());
        assert!(other.restore(scales.state()));
        assert_eq!(other, scales);
        let short = ScaleState { moments: vec![1.0], doubts: vec![1.0] };
        let wrong = ScaleState { moments: vec![f64::NAN, 1.0], doubts: vec![0.0, 0.0] };
        assert!(!other.restore(&short) && !other.restore(&wrong));
        assert_eq!(other, scales);
    }
}
