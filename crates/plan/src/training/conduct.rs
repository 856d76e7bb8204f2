//! How a run is carried out, apart from what its steps compute.

use crate::error::PlanError;
use crate::spec::TrainSpec;

/// How a run is carried out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conduct {
    /// Whether gradients are clipped and noised. If not, the same steps are taken without.
    pub private: bool,
    /// A seed from which every random number follows. It is for tests, because whoever knows it is promised nothing.
    pub seed: Option<u64>,
    /// Steps between two evaluations. If `None`, the model is evaluated only at the end.
    pub evaluate_every: Option<u64>,
    /// Steps between two checkpoints. If `None`, the size of the work decides.
    pub checkpoint_every: Option<u64>,
    /// Whether histograms of gradient norms are kept among the private files.
    pub gradient_norms: bool,
    /// Whether event files for TensorBoard are written.
    pub tensorboard: bool,
    /// Weight of the uniform distribution in the labels, in [0, 1).
    pub label_smoothing: f64,
}

impl Conduct {
    /// Fills in what is not given.
    ///
    /// # Errors
    /// A setting that makes no sense, with its key.
    pub fn check(spec: &TrainSpec) -> Result<Self, PlanError> {
        let label_smoothing = spec.label_smoothing.unwrap_or(0.0);
        if !(0.0..1.0).contains(&label_smoothing) {
            return Err(PlanError::invalid(
                "train.label_smoothing",
                format!("{label_smoothing} is not in [0, 1)"),
                "give a small share such as 0.1",
            ));
        }
        let every = |key, every: Option<u64>| match every {
            Some(0) => Err(PlanError::invalid(key, "0 steps", "give at least 1, or leave it out")),
            every => Ok(every),
        };
        let (private, gradient_norms) = (spec.private.unwrap_or(true), spec.gradient_norms.unwrap_or(false));
        if gradient_norms && !private {
            return Err(PlanError::invalid(
                "train.gradient_norms",
                "norms are computed only where gradients are clipped",
                "leave it out, or leave train.private out",
            ));
        }
        Ok(Self {
            private,
            gradient_norms,
            tensorboard: spec.tensorboard.unwrap_or(false),
            seed: spec.seed,
            evaluate_every: every("train.evaluate_every", spec.evaluate_every)?,
            checkpoint_every: every("train.checkpoint_every", spec.checkpoint_every)?,
            label_smoothing,
        })
    }
}
