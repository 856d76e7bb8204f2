//! What a run has learned, and how a step changes it.

use dapple_data::StepKey;
use dapple_engine::{Layout, Total};
use dapple_graph::Parameters;
use dapple_plan::spec::OptimiserSpec;

use crate::checkpoint::{Checkpoint, Place};
use crate::error::TrainError;
use crate::noise::Noise;
use crate::optimiser::{Ema, Optimiser};
use crate::parallel::{self, PIECE};

/// Everything that steps change: the parameters, what the optimiser remembers, the running mean of the parameters.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) parameters: Parameters,
    pub(crate) optimiser: Optimiser,
    pub(crate) mean: Option<Ema>,
}

/// What turns a sum of clipped gradients into a change of the parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Update<'s> {
    /// The noise and the key of the step; none where nothing is private.
    pub(crate) noise: Option<(&'s Noise, &'s StepKey)>,
    /// The expected batch.
    pub(crate) batch: u64,
    pub(crate) learning_rate: f64,
}

impl Update<'_> {
    /// What the noisy sum is multiplied by.
    pub(crate) fn share(&self) -> f32 {
        1.0 / self.batch as f32
    }
}

impl Learned {
    pub(crate) fn new(
        spec: &OptimiserSpec,
        layout: &Layout,
        parameters: Parameters,
    ) -> Result<Self, TrainError> {
        let optimiser = Optimiser::new(spec, layout, &parameters)?;
        let mean = spec.ema.map(|decay| Ema::new(decay, &parameters)).transpose()?;
        Ok(Self { parameters, optimiser, mean })
    }

    /// Takes in a sum of clipped gradients, whose memory is left with plain numbers.
    ///
    /// # Guarantee
    /// What is learned changes by a function of the noisy sum alone, rounded to a lattice and divided by the expected batch.
    ///
    /// # Errors
    /// A weight that is not finite any more, which is public.
    pub(crate) fn update(&mut self, sum: &mut Total, update: &Update<'_>) -> Result<(), TrainError> {
        let sum = match update.noise {
            // Sums by a rule with a bound are in whole numbers; nothing else may be noised.
            Some(_) if sum.counts().is_none() => return Err(dapple_engine::EngineError::Parameters.into()),
            Some((noise, key)) => {
                sum.make_plain(|bits, carried, unit| noise.add(bits, carried, unit, key))?
            }
            None => sum.to_single(),
        };
        let share = update.share();
        let trainable = sum.len();
        let pieces = sum.chunks_mut(PIECE).collect();
        let scale = |piece: &mut [f32]| piece.iter_mut().for_each(|value| *value *= share);
        parallel::for_each(trainable, pieces, scale);
        self.optimiser.update(&mut self.parameters, sum, update.learning_rate);
        self.check()?;
        if let Some(mean) = &mut self.mean {
            mean.update(&self.parameters, self.optimiser.state().updates);
        }
        Ok(())
    }

    /// The weights to evaluate and to keep: the running mean where there is one.
    pub(crate) fn weights(&self) -> &Parameters {
        self.mean.as_ref().map_or(&self.parameters, Ema::parameters)
    }

    /// Weights are released: whether they are finite tells nothing more.
    fn check(&self) -> Result<(), TrainError> {
        // Without a way out in the middle, which would keep the compiler from making vectors of it.
        match self.parameters.values().iter().fold(true, |finite, value| finite & value.is_finite()) {
            true => Ok(()),
            false => Err(TrainError::NotFinite { what: "a weight" }),
        }
    }

    /// What the run goes on from.
    pub(crate) fn checkpoint(&self, place: Place) -> Result<Checkpoint, TrainError> {
        self.check()?;
        Ok(Checkpoint {
            place,
            parameters: self.parameters.values().to_vec(),
            optimiser: self.optimiser.state().clone(),
            mean: self.mean.as_ref().map(|mean| mean.parameters().values().to_vec()),
        })
    }

    /// Goes on from a checkpoint; false if it does not fit.
    pub(crate) fn restore(&mut self, checkpoint: Checkpoint) -> bool {
        let mean_fits = match (&mut self.mean, &checkpoint.mean) {
            (Some(mean), Some(values)) => Checkpoint::fill(values, mean.parameters_mut()),
            (None, None) => true,
            _ => false,
        };
        mean_fits
            && Checkpoint::fill(&checkpoint.parameters, &mut self.parameters)
            && self.optimiser.restore(checkpoint.optimiser)
    }
}
