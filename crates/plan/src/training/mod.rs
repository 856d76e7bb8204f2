//! The whole checked plan: what is priced, and how it is trained.

mod clipping;
mod conduct;
mod data;
mod evaluation;
mod model;
mod optimiser;
mod performance;
mod rate;
mod submodels;
mod trained;

pub use clipping::GradientBound;
pub use conduct::Conduct;
pub(crate) use data::augment;
pub use data::{
    ClassNumbers, DataLimits, DataPlan, HeldOut, MAX_CLASSES, PoolPlan, ProgramScenes, RecordFiles,
    RecordOrigin, SessionChoice, SettingError, StoredFormat, TargetKind, ViewPlan,
};
pub use evaluation::{EvaluationPlan, Look, MapEvaluation};
pub use model::{ModelPlan, WeightSource};
pub use optimiser::{Momentum, OptimiserPlan, OptimiserRule};
pub use performance::PerformancePlan;
pub use rate::LearningRate;
pub use submodels::SubmodelPlan;
pub use trained::{AdapterPlan, TrainedPart};

use crate::Plan;
use crate::error::PlanError;
use crate::spec::PlanSpec;

/// A plan that can be trained, with every default filled in and every choice made. The trainer reads nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingPlan {
    /// What the accountant prices and the sampler carries out.
    pub privacy: Plan,
    /// Where the records come from, and how they are shown.
    pub data: DataPlan,
    /// What is trained.
    pub model: ModelPlan,
    /// How the model is split; `None` if every record updates all of it.
    pub submodels: Option<SubmodelPlan>,
    /// How a record's gradient is bounded.
    pub clipping: GradientBound,
    /// What happens to the noisy gradient.
    pub optimiser: OptimiserPlan,
    /// The learning rate of each step.
    pub schedule: LearningRate,
    /// How the model is evaluated.
    pub evaluation: EvaluationPlan,
    /// How the machine is used.
    pub performance: PerformancePlan,
    /// Everything else about how the run is carried out.
    pub conduct: Conduct,
}

impl TrainingPlan {
    /// The plan of a run whose priced part has been checked.
    ///
    /// # Errors
    /// The first setting that is missing or makes no sense, with its key.
    pub fn new(privacy: Plan, spec: &PlanSpec) -> Result<Self, PlanError> {
        let conduct = Conduct::check(&spec.train)?;
        let data = DataPlan::check(spec)?;
        // The caller's own records are not evaluated on, so any kind of targets will do.
        let targets = data.origin.targets().unwrap_or(TargetKind::Class);
        Ok(Self {
            model: ModelPlan::check(&spec.model)?,
            submodels: SubmodelPlan::check(&privacy, &spec.partition, targets)?,
            clipping: GradientBound::check(&privacy, &spec.train)?,
            optimiser: OptimiserPlan::check(&spec.optimiser)?,
            schedule: LearningRate::check(&spec.optimiser, privacy.steps())?,
            evaluation: EvaluationPlan::check(&spec.train, targets)?,
            performance: PerformancePlan::check(&spec.performance)?,
            data,
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
