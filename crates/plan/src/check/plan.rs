//! The checked plan.

use dapple_geometry::Mask;

use super::{hash, phase, schedule};
use crate::error::PlanError;
use crate::spec::{Accountant, MaskedContent, PlanSpec};
use crate::{
    Averaged, BatchLimit, ClipQuantile, CorrelatedNoise, MaskedTokens, Relation, Sampling, Spatial, Split,
};

/// A checked plan: the accountant prices it, the trainer carries it out, and neither reads anything else.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub(crate) relation: Relation,
    pub(crate) sampling: Sampling,
    pub(crate) batch: u64,
    pub(crate) records: u64,
    pub(crate) steps: u64,
    pub(crate) noise_multiplier: f64,
    pub(crate) max_grad_norm: Option<f64>,
    pub(crate) clip_quantile: Option<ClipQuantile>,
    pub(crate) delta: f64,
    pub(crate) epsilon: Option<f64>,
    pub(crate) accountant: Accountant,
    pub(crate) spatial: Spatial,
    pub(crate) masked: Option<MaskedTokens>,
    pub(crate) averaged: Averaged,
    pub(crate) split: Option<Split>,
    pub(crate) correlated: Option<CorrelatedNoise>,
    pub(crate) batch_limit: Option<BatchLimit>,
    pub(crate) phases: Vec<Plan>,
    pub(crate) hash: String,
}

impl Plan {
    /// Checks a plan that needs no masks.
    ///
    /// # Errors
    /// The first thing that is missing or makes no sense, with its key and flag.
    pub fn check(spec: &PlanSpec) -> Result<Self, PlanError> {
        Self::check_with_masks(spec, &[])
    }

    /// Checks a plan; `masks` are the decoded pictures that `region.mask` names.
    ///
    /// # Errors
    /// The first thing that is missing or makes no sense, with its key and flag.
    pub fn check_with_masks(spec: &PlanSpec, masks: &[Mask]) -> Result<Self, PlanError> {
        let mut plan =
            if spec.phases.is_empty() { phase::check(spec, masks)? } else { schedule::check(spec, masks)? };
        plan.hash = hash::of(&plan);
        Ok(plan)
    }

    /// The neighbouring relation.
    #[must_use]
    pub fn relation(&self) -> Relation {
        self.relation
    }

    /// How records are drawn.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// The expected number of records of a step.
    #[must_use]
    pub fn batch(&self) -> u64 {
        self.batch
    }

    /// Records in the data set.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Steps.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The probability that a step sees a given record: batch / records, or in balanced sampling the share of an epoch's steps that a
    /// record joins.
    #[must_use]
    pub fn sample_rate(&self) -> f64 {
        match self.sampling {
            Sampling::Poisson | Sampling::WithoutReplacement => self.batch as f64 / self.records as f64,
            Sampling::Balanced { per_record, epoch_steps } => per_record as f64 / epoch_steps as f64,
        }
    }

    /// The probability that a sampled record shows what is protected: `c_K` under `patch`, otherwise 1.
    #[must_use]
    pub fn inclusion_probability(&self) -> f64 {
        match self.relation {
            Relation::Patch => self.spatial.inclusion_probability(),
            Relation::AddRemove | Relation::Replace | Relation::Masked | Relation::User => 1.0,
        }
    }

    /// The probability that a step sees what is protected.
    #[must_use]
    pub fn effective_rate(&self) -> f64 {
        let rate = |part: &Self| part.sample_rate() * part.inclusion_probability();
        self.parts().iter().map(rate).fold(0.0, f64::max)
    }

    /// The most records that a step takes, where there is a limit.
    #[must_use]
    pub fn batch_limit(&self) -> Option<BatchLimit> {
        self.batch_limit
    }

    /// Standard deviation of the noise on the sum of clipped gradients, in clip norms; where a count is released beside it, of one release that
    /// costs as much as both.
    #[must_use]
    pub fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// The clip norm, if it is given. Epsilon does not depend on it.
    #[must_use]
    pub fn max_grad_norm(&self) -> Option<f64> {
        self.max_grad_norm
    }

    /// The clip norm: the one given, or 1; the first one where it follows a quantile.
    #[must_use]
    pub fn clip_norm(&self) -> f64 {
        self.max_grad_norm.unwrap_or(1.0)
    }

    /// The failure probability.
    #[must_use]
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// The epsilon to reach, if it is given.
    #[must_use]
    pub fn target_epsilon(&self) -> Option<f64> {
        self.epsilon
    }

    /// Which accountant answers.
    #[must_use]
    pub fn accountant(&self) -> Accountant {
        self.accountant
    }

    /// The spatial part.
    #[must_use]
    pub fn spatial(&self) -> &Spatial {
        &self.spatial
    }

    /// What is private and what public tokens do, under the `masked` relation.
    #[must_use]
    pub fn masked(&self) -> Option<MaskedTokens> {
        self.masked
    }

    /// The phases of a schedule in order, each a plan of its own; empty if the run does the same from its first step to its last. In a
    /// schedule, the other values of this plan are the largest batch and inclusion probability, the least noise, and the steps of all
    /// phases together.
    #[must_use]
    pub fn phases(&self) -> &[Self] {
        &self.phases
    }

    /// The phases, or the plan itself if there are none.
    #[must_use]
    pub fn parts(&self) -> &[Self] {
        if self.phases.is_empty() { std::slice::from_ref(self) } else { &self.phases }
    }

    /// What is averaged before clipping, beside the views.
    #[must_use]
    pub fn averaged(&self) -> Averaged {
        self.averaged
    }

    /// How many groups the records of a step are clipped in; `None` if each is clipped by itself. A drawn record picks its group by a
    /// uniform draw of its own.
    #[must_use]
    pub fn clip_groups(&self) -> Option<u64> {
        self.averaged.clip_groups(self.batch)
    }

    /// The expected number of contributions to a step's sum, by which the noisy sum is divided: records, or groups of them.
    #[must_use]
    pub fn contributions(&self) -> u64 {
        self.clip_groups().unwrap_or(self.batch)
    }

    /// Which parts of the model a record updates, if it does not update all of it.
    #[must_use]
    pub fn split(&self) -> Option<&Split> {
        self.split.as_ref()
    }

    /// Whether the price gains from the submodel being hidden. It does for records, users or private tokens added or removed, and under
    /// balanced sampling also for substitutions, which are priced as a removal and an addition.
    #[must_use]
    pub fn counts_submodels(&self) -> bool {
        let moves = match self.relation {
            Relation::AddRemove | Relation::User => true,
            Relation::Masked => {
                self.sampling == Sampling::Poisson && self.masked.is_some_and(MaskedTokens::removes_all)
            }
            Relation::Replace | Relation::Patch => false,
        };
        self.split.is_some() && (moves || matches!(self.sampling, Sampling::Balanced { .. }))
    }

    /// How far the sum of clipped gradients moves between neighbours, in clip norms. A record that shares its clip may turn the whole
    /// microbatch around (DP-Mix, section 2). The parts of a split model are clipped separately.
    #[must_use]
    pub fn sensitivity(&self) -> f64 {
        let removed = self.relation == Relation::Masked
            && self.masked.is_some_and(|tokens| tokens.content == MaskedContent::Remove);
        let moved = match () {
            () if self.averaged.shares_clip() => 2.0,
            () if removed => 1.0,
            () => self.relation.sensitivity(),
        };
        moved * self.split().map_or(1.0, Split::norm)
    }

    /// SHA-256, in hexadecimal digits, of everything that may change the guarantee. What is trained, and how fast, is left out.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The same run priced at record level: whole records are substituted, or (with Poisson sampling) added and removed. A run that uses
    /// public tokens has no such guarantee, and pricing it so is refused.
    #[must_use]
    pub fn at_relation(&self, relation: Relation) -> Self {
        self.changed(|plan| {
            plan.relation = relation;
            plan.phases.iter_mut().for_each(|phase| *phase = phase.at_relation(relation));
        })
    }

    /// The same run if each record's submodel were known, for comparison.
    #[must_use]
    pub fn with_known_submodels(&self) -> Self {
        self.changed(|plan| {
            plan.split = plan.split.as_ref().map(Split::revealed);
            plan.phases.iter_mut().for_each(|phase| *phase = phase.with_known_submodels());
        })
    }

    /// The same run with a coin for each record and step in place of balanced sampling, at the same rate, for comparison.
    #[must_use]
    pub fn with_independent_steps(&self) -> Self {
        self.changed(|plan| {
            if let Sampling::Balanced { per_record, epoch_steps } = plan.sampling {
                (plan.sampling, plan.batch, plan.records) = (Sampling::Poisson, per_record, epoch_steps);
            }
            plan.phases.iter_mut().for_each(|phase| *phase = phase.with_independent_steps());
        })
    }

    /// The plan with a change that keeps it checked.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut plan = self.clone();
        change(&mut plan);
        plan.hash = hash::of(&plan);
        plan
    }
}
