//! What a run has learned, and how a step changes it.

use dapple_data::StepKey;
use dapple_engine::{Layout, Total};
use dapple_graph::Parameters;

use crate::adaptive::AdaptiveClip;
use crate::correlated::CorrelatedSums;
use crate::error::StepError;
use crate::noise::Noise;
use crate::optimiser::{Ema, Optimiser, OptimiserSettings};
use crate::parallel::{self, PIECE};
use crate::scales::GradientScales;

/// Everything that steps change: the parameters, what the optimiser remembers, the running mean of the parameters, and the clip norm and the
/// scales of gradients if they move.
#[derive(Debug)]
pub struct Learned {
    /// The parameters that steps move.
    pub parameters: Parameters,
    /// The optimiser that moves them, with its state.
    pub optimiser: Optimiser,
    /// The running mean of the parameters, if the run keeps one.
    pub mean: Option<Ema>,
    /// The clip norm, if it follows a quantile.
    pub clip: Option<AdaptiveClip>,
    /// The scales by which gradients are multiplied before they are clipped, if there are any.
    pub scales: Option<GradientScales>,
    /// The sums that are released together with those of the next steps, if noise cancels across steps.
    pub correlated: Option<CorrelatedSums>,
}

/// What turns a sum of clipped gradients into a change of the parameters.
#[derive(Debug, Clone, Copy)]
pub struct Update<'s> {
    /// The noise and the key of the step, or `None` for a run that is not private.
    pub noise: Option<(&'s Noise, &'s StepKey)>,
    /// The noise on twice the count of records within the clip norm, and the step's key for it; `None` if the clip norm is fixed.
    pub count: Option<(&'s Noise, &'s StepKey)>,
    /// The expected batch.
    pub batch: u64,
    /// The learning rate.
    pub learning_rate: f64,
}

impl Update<'_> {
    /// What the noisy sum is multiplied by.
    fn share(&self) -> f32 {
        1.0 / self.batch as f32
    }

    /// The variance of the noise in each coordinate of the noisy sum, once it is divided by the expected batch.
    pub(crate) fn variance(&self) -> f64 {
        self.noise.map_or(0.0, |(noise, _)| noise.variance() / (self.batch as f64).powi(2))
    }
}

impl Learned {
    /// What a run has learned before its first step: the parameters it starts from, an optimiser that remembers
    /// nothing, and a fixed clip norm.
    #[must_use]
    pub fn new(settings: &OptimiserSettings, layout: &Layout, parameters: Parameters) -> Self {
        let optimiser = Optimiser::new(settings, layout, &parameters);
        let mean = settings.mean_decay.map(|decay| Ema::new(decay, &parameters));
        Self { parameters, optimiser, mean, clip: None, scales: None, correlated: None }
    }

    /// Updates everything by a sum of clipped gradients, whose memory is overwritten on the way. A sum of public gradients, times a weight,
    /// may be added behind the noise.
    ///
    /// # Guarantee
    /// What is learned changes by a function of the noisy sum, rounded to a lattice, and of the public one alone, divided by the expected
    /// batch. If noise cancels across steps, the noisy sum is that of this step and those before, times the coefficients
    /// ([`CorrelatedSums`]).
    ///
    /// # Errors
    /// A sum of plain numbers that is to be noised, or a weight that is no longer finite, which is public, since the weights are.
    pub(crate) fn update(
        &mut self,
        sum: &mut Total,
        public: Option<(&[f32], f32)>,
        update: &Update<'_>,
    ) -> Result<(), StepError> {
        let variance = update.variance() * self.correlated.as_ref().map_or(1.0, CorrelatedSums::variance);
        let sum = match update.noise {
            // Only a rule with a bound makes sums of whole numbers, and only what is bounded may be noised.
            Some(_) if sum.counts().is_none() => return Err(dapple_engine::EngineError::Parameters.into()),
            Some((noise, key)) => match &mut self.correlated {
                None => sum.make_plain(|bits, carried, unit| noise.add(bits, carried, unit, key))?,
                Some(correlated) => correlated.release(sum, noise, key)?,
            },
            None => sum.to_single(),
        };
        if let Some((public, weight)) = public {
            sum.iter_mut().zip(public).for_each(|(sum, public)| *sum += weight * public);
        }
        let share = update.share();
        let trainable = sum.len();
        let pieces = sum.chunks_mut(PIECE).collect();
        let scale = |piece: &mut [f32]| piece.iter_mut().for_each(|value| *value *= share);
        parallel::for_each(trainable, pieces, scale);
        if let Some(scales) = &mut self.scales {
            scales.learn(sum, variance);
        }
        self.optimiser.update(&mut self.parameters, sum, update.learning_rate, variance);
        self.check()?;
        if let Some(mean) = &mut self.mean {
            mean.update(&self.parameters, self.optimiser.state().updates);
        }
        Ok(())
    }

    /// The weights to evaluate and to keep: the running mean if there is one, else the parameters.
    #[must_use]
    pub fn weights(&self) -> &Parameters {
        self.mean.as_ref().map_or(&self.parameters, Ema::parameters)
    }

    /// Checks that all weights are finite. The weights are released, so the answer tells nothing more about the records.
    ///
    /// # Errors
    /// A weight that is not finite.
    pub fn check(&self) -> Result<(), StepError> {
        // An early exit would keep the compiler from making vectors of this loop.
        match self.parameters.values().iter().fold(true, |finite, value| finite & value.is_finite()) {
            true => Ok(()),
            false => Err(StepError::NotFinite { what: "a weight" }),
        }
    }
}
