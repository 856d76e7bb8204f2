//! The whole plan, checked: what is priced, and how it is trained.

mod clipping;
mod conduct;
mod model;
mod optimiser;
mod rate;

pub use clipping::GradientBound;
pub use conduct::Conduct;
pub use model::{ModelPlan, WeightSource};
pub use optimiser::{OptimiserPlan, OptimiserRule};
pub use rate::LearningRate;

use crate::Plan;
use crate::error::PlanError;
use crate::spec::PlanSpec;

/// A plan that can be trained: every default is filled in, every choice made. The trainer reads nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingPlan {
    /// What the accountant prices and the sampler carries out.
    pub privacy: Plan,
    /// What is trained.
    pub model: ModelPlan,
    /// How a record's gradient is bounded.
    pub bound: GradientBound,
    /// What the noisy gradient does.
    pub optimiser: OptimiserPlan,
    /// By how much, at each step.
    pub rate: LearningRate,
    /// Everything else about how the run is carried out.
    pub conduct: Conduct,
}

impl TrainingPlan {
    /// The plan of a run whose priced part was checked before.
    ///
    /// # Errors
    /// The first setting that is missing or makes no sense, with its key.
    pub fn new(privacy: Plan, spec: &PlanSpec) -> Result<Self, PlanError> {
        let conduct = Conduct::check(&spec.train)?;
        Ok(Self {
            model: ModelPlan::check(&spec.model)?,
            bound: GradientBound::new(&privacy, spec.train.clipping.unwrap_or_default(), conduct.private),
            optimiser: OptimiserPlan::check(&spec.optimiser)?,
            rate: LearningRate::check(&spec.optimiser, privacy.steps())?,
            conduct,
            privacy,
        })
    }

    /// Whether gradients are clipped and noised.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.conduct.private
    }
}
