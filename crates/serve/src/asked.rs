//! What the page asks about: a plan, and what was changed in it.

use std::collections::BTreeMap;

use dapple_plan::{Certificate, Mask, Plan, PlanError, PlanSpec, SolvedUnknown};
use serde::Deserialize;

use crate::answer::precision;
use crate::error::ServeError;

/// A question about a plan.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// The plan as TOML; without it, the plan that the page was started with.
    #[serde(default)]
    plan: Option<String>,
    /// Keys with values to lay over it, as behind `--set`.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Keys to leave out of it.
    #[serde(default)]
    unset: Vec<String>,
    /// What a curve is drawn over.
    #[serde(default)]
    pub(crate) over: Option<String>,
}

/// Answers questions about plans.
///
/// # Guarantee
/// No question opens a file: plans come as text, and one that names a mask is refused unless it is that of the plan it began with, whose mask
/// was read before.
#[derive(Debug, Clone)]
pub struct Explorer {
    first: PlanSpec,
    masks: Vec<Mask>,
}

/// A plan as it was asked about.
pub(crate) struct AskedPlan {
    /// As written.
    pub(crate) written: PlanSpec,
    /// With what it leaves to its target epsilon.
    pub(crate) settled: PlanSpec,
    pub(crate) solved: Option<SolvedUnknown>,
    pub(crate) plan: Plan,
    /// The plan's price, where the search for what it leaves open found it.
    certificate: Option<Certificate>,
}

impl AskedPlan {
    /// The certificate of the plan.
    pub(crate) fn price(&self) -> Result<Certificate, PlanError> {
        self.certificate.clone().map_or_else(|| self.plan.price(precision()), Ok)
    }
}

impl Explorer {
    /// Begins with this plan, whose mask was read.
    #[must_use]
    pub fn new(first: PlanSpec, masks: Vec<Mask>) -> Self {
        Self { first, masks }
    }

    /// The plan that the page began with.
    pub(crate) fn first(&self) -> &PlanSpec {
        &self.first
    }

    /// The plan of a question, as written.
    pub(crate) fn written(&self, asked: &Asked) -> Result<PlanSpec, ServeError> {
        let mut spec = match &asked.plan {
            Some(text) => PlanSpec::from_toml(text)?,
            None => self.first.clone(),
        };
        for key in &asked.unset {
            leave_out(&mut spec, key)?;
        }
        for (key, value) in &asked.set {
            spec.set(key, value)?;
        }
        self.allowed(spec)
    }

    /// The plan, if it names no other mask than the one that was read.
    pub(crate) fn allowed(&self, spec: PlanSpec) -> Result<PlanSpec, ServeError> {
        match spec.region.mask.is_none() || spec.region.mask == self.first.region.mask {
            true => Ok(spec),
            false => Err(ServeError::File { key: "region.mask" }),
        }
    }

    /// The plan of a question with what it leaves to its target, ready to be priced.
    pub(crate) fn plan(&self, asked: &Asked) -> Result<AskedPlan, ServeError> {
        self.settled(self.written(asked)?)
    }

    /// A plan with what it leaves to its target, ready to be priced.
    pub(crate) fn settled(&self, written: PlanSpec) -> Result<AskedPlan, ServeError> {
        let masks = self.masks_of(&written);
        let mut settled = written.clone();
        let (solved, certificate) = settled.settle_priced(masks, precision())?.unzip();
        let plan = Plan::check_with_masks(&settled, masks)?;
        let certificate = certificate.filter(|found| found.plan_hash == plan.hash());
        Ok(AskedPlan { written, settled, solved, plan, certificate })
    }

    /// The masks that a plan names.
    fn masks_of(&self, spec: &PlanSpec) -> &[Mask] {
        if spec.region.mask.is_some() { &self.masks } else { &[] }
    }

    /// The plan with one key at another value.
    pub(crate) fn varied(&self, spec: &PlanSpec, key: &str, value: &str) -> Result<Plan, PlanError> {
        let mut varied = spec.clone();
        varied.set(key, value)?;
        Plan::check_with_masks(&varied, self.masks_of(&varied))
    }
}

/// Takes out one of the keys of which a plan has one or the other.
fn leave_out(spec: &mut PlanSpec, key: &str) -> Result<(), ServeError> {
    match key {
        "privacy.noise_multiplier" => spec.privacy.noise_multiplier = None,
        "privacy.epsilon" => spec.privacy.epsilon = None,
        "sampling.epochs" => spec.sampling.epochs = None,
        "sampling.steps" => spec.sampling.steps = None,
        other => return Err(ServeError::Question(format!("{other:?} is never left out"))),
    }
    Ok(())
}
