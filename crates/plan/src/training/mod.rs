//! The whole checked plan: what is priced, and how it is trained.

mod clipping;
mod conduct;
mod data;
mod evaluation;
mod masked;
mod model;
mod optimiser;
mod performance;
mod rate;
mod submodels;
mod trained;
mod user;

pub use clipping::GradientBound;
pub use conduct::Conduct;
pub(crate) use data::augment;
pub use data::{
    ClassNumbers, ClipLayout, DataLimits, DataPlan, HeldOut, ListedSplit, MAX_CLASSES, NtuSplit, PoolPlan,
    ProgramScenes, RecordFiles, RecordOrigin, SessionChoice, SettingError, SmarthomeSplit, StoredFormat,
    TargetKind, UserFile, ViewPlan,
};
pub use evaluation::{EvaluationPlan, Look, MapEvaluation};
pub use masked::MaskedPlan;
pub use model::{ModelPlan, WeightSource};
pub use optimiser::{Momentum, OptimiserPlan, OptimiserRule};
pub use performance::PerformancePlan;
pub use rate::LearningRate;
pub use submodels::SubmodelPlan;
pub use trained::{AdapterPlan, TrainedPart};
pub use user::UserPlan;

use crate::error::PlanError;
use crate::spec::PlanSpec;
use crate::{Plan, Relation, Split, number};

/// A plan that can be trained, with every default filled in and every choice made. The trainer reads nothing else.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingPlan {
    /// What the accountant prices and the sampler carries out.
    pub privacy: Plan,
    /// Where the records come from, and how they are shown.
    pub data: DataPlan,
    /// What is trained.
    pub model: ModelPlan,
    /// Which blocks are dealt out to submodels; `None` if none are, because the model is not split or dropout splits it.
    pub submodels: Option<SubmodelPlan>,
    /// How private and public parts of images are trained on; `None` under other relations than `masked`.
    pub masked: Option<MaskedPlan>,
    /// How users train in a round; `None` under other relations than `user`.
    pub users: Option<UserPlan>,
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
        let model = ModelPlan::check(&spec.model)?;
        check_rates(&privacy, &model)?;
        let clipping = GradientBound::check(&privacy, &spec.train)?;
        let optimiser = OptimiserPlan::check(&spec.optimiser)?;
        check_scales(&privacy, clipping, optimiser)?;
        Ok(Self {
            model,
            submodels: SubmodelPlan::check(&privacy, &spec.partition, targets)?,
            masked: MaskedPlan::check(&privacy, spec, targets)?,
            users: UserPlan::check(&privacy, spec)?,
            clipping,
            optimiser,
            schedule: LearningRate::check(&spec.optimiser, privacy.steps())?,
            evaluation: EvaluationPlan::check(&spec.train, targets)?,
            performance: PerformancePlan::check(&spec.performance)?,
            data,
            conduct,
            privacy,
        })
    }

    /// Whether dropout at one half splits the model, so that each record draws a mask for it.
    #[must_use]
    pub fn is_split_by_dropout(&self) -> bool {
        self.privacy.parts()[0].split().is_some_and(Split::by_dropout)
    }

    /// Whether gradients are clipped and noised.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.conduct.private
    }
}

/// Refuses gradients that are scaled before they are clipped where they are bounded in another way than as a whole, by one clip norm.
fn check_scales(privacy: &Plan, bound: GradientBound, optimiser: OptimiserPlan) -> Result<(), PlanError> {
    if optimiser.rule.scales().is_none() {
        return Ok(());
    }
    let refused = [
        (bound == GradientBound::Off, "without privacy, nothing is clipped"),
        (
            !matches!(bound, GradientBound::Off | GradientBound::Flat { .. }),
            "gradients are not clipped as a whole, to one norm",
        ),
        (privacy.clip_quantile().is_some(), "the clip norm follows a quantile, and would follow the scales"),
        (privacy.masked().is_some(), "gradients of public parts are not scaled"),
        (privacy.relation() == Relation::User, "what is clipped are updates of users, not gradients"),
    ];
    match refused.into_iter().find(|(refused, _)| *refused) {
        None => Ok(()),
        Some((_, reason)) => {
            let hint = "leave it out: adam then divides after the noise";
            Err(PlanError::invalid("optimiser.scale_first", reason, hint))
        }
    }
}

/// Refuses a dropout layer at another rate where dropout at one half splits the model.
fn check_rates(privacy: &Plan, model: &ModelPlan) -> Result<(), PlanError> {
    let split = privacy.parts()[0].split().and_then(Split::dropout_rate);
    match (split, model.head_dropout) {
        (Some(split), Some(rate)) if split != rate => Err(PlanError::invalid(
            "model.head_dropout",
            format!("{} is another rate than that of partition.dropout", number::exact(rate)),
            "give 0.5, the only rate that splits a model",
        )),
        _ => Ok(()),
    }
}
