//! Solves a plan for one unknown.

mod batch;
mod correlated;
mod length;
mod noise;
mod problem;
mod size;

use dapple_accounting::BracketPrecision;
use dapple_geometry::Mask;
use serde::Serialize;

use crate::Plan;
use crate::certificate::Certificate;
use crate::error::PlanError;
use crate::spec::{Bands, Pixels, PlanSpec};
use problem::Problem;

/// The most steps of a run.
const MAX_STEPS: u64 = 10_000_000;

/// What a plan is solved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unknown {
    /// The least noise.
    NoiseMultiplier,
    /// The most passes over the data set.
    Epochs,
    /// The most steps.
    Steps,
    /// The largest batch.
    Batch,
    /// The largest crop.
    Crop,
    /// The largest protected patch.
    Patch,
}

impl Unknown {
    /// Every unknown.
    pub const ALL: [Self; 6] =
        [Self::NoiseMultiplier, Self::Epochs, Self::Steps, Self::Batch, Self::Crop, Self::Patch];

    /// The name of its flag.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoiseMultiplier => "noise-multiplier",
            Self::Epochs => "epochs",
            Self::Steps => "steps",
            Self::Batch => "batch",
            Self::Crop => "crop",
            Self::Patch => "patch",
        }
    }
}

/// A number that was solved for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SolvedValue {
    /// A whole number: steps, records, or the width of a crop or patch.
    Whole(u64),
    /// A real number.
    Real(f64),
}

/// The unknown and its value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SolvedUnknown {
    /// Name of the unknown.
    pub name: &'static str,
    /// The value found. For a crop or a patch it is the width.
    pub value: SolvedValue,
    /// Width and height, for a crop or a patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Pixels>,
}

/// The plan that was solved for, and its certificate.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// The unknown and its value.
    pub solved: SolvedUnknown,
    /// The plan with that value.
    pub plan: Plan,
    /// Its certificate.
    pub certificate: Certificate,
}

/// Finds the least noise, or the most of anything else, for which the plan's epsilon stays at or below `privacy.epsilon`. A value given
/// for the unknown itself is replaced. A crop or patch keeps its shape, and is a square if none is given.
///
/// # Guarantee
/// The certificate is that of the plan returned, and its `epsilon.upper` is at most the target.
///
/// # Errors
/// A plan that is wrong apart from the unknown, a target that no value reaches, or a search that takes too much work.
pub fn calibrate(
    spec: &PlanSpec,
    masks: &[Mask],
    unknown: Unknown,
    precision: BracketPrecision,
) -> Result<Calibrated, PlanError> {
    calibrate_watched(spec, masks, unknown, precision, &|_| {})
}

/// A price that was computed on the way to an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// The number of the trial, from 1.
    pub number: u32,
    /// The epsilon found, or infinity if it is too large to report.
    pub epsilon: f64,
    /// The share of the allowed work that was done up to here.
    pub share: f64,
}

/// As [`calibrate`], and tells `watch` about each price.
///
/// # Guarantee
/// As [`calibrate`].
///
/// # Errors
/// As [`calibrate`].
pub fn calibrate_watched(
    spec: &PlanSpec,
    masks: &[Mask],
    unknown: Unknown,
    precision: BracketPrecision,
    watch: &dyn Fn(Trial),
) -> Result<Calibrated, PlanError> {
    let target = spec.privacy.epsilon.ok_or(PlanError::Missing {
        key: "privacy.epsilon",
        why: "calibration needs the epsilon to reach",
    })?;
    let open_noise = spec.phases.iter().any(|phase| phase.noise_multiplier.is_none());
    let solvable = spec.phases.is_empty() || (unknown == Unknown::NoiseMultiplier && open_noise);
    if !solvable {
        return Err(PlanError::invalid(
            "phases",
            format!("a schedule has no single value of {} to solve for", unknown.name()),
            "solve for the noise-multiplier of the phases that give none, or price schedules one by one with `dapple account`",
        ));
    }
    if unknown == Unknown::Batch && spec.sampling.max_batch.is_some() {
        return Err(PlanError::invalid(
            "sampling.max_batch",
            "the batch that it limits is what is sought",
            "leave it out, and give it with the batch that is found",
        ));
    }
    let solve = |spec: &PlanSpec| Problem::new((spec, masks), target, precision, watch).solve(unknown);
    match (unknown, spec.noise.bands) {
        (Unknown::NoiseMultiplier, Some(Bands::Auto)) => correlated::best_bands(spec, solve),
        _ => solve(spec),
    }
}

/// A plan that meets the target, the value found, and the size if it is a crop or a patch.
type Solution = (Plan, SolvedValue, Option<Pixels>);

impl Problem<'_> {
    fn solve(&self, unknown: Unknown) -> Result<Calibrated, PlanError> {
        let (plan, value, size) = match unknown {
            Unknown::NoiseMultiplier => return self.priced_noise(),
            Unknown::Epochs | Unknown::Steps if self.is_correlated() => self.correlated_length(unknown)?,
            Unknown::Batch if self.is_correlated() => self.correlated_batch()?,
            Unknown::Epochs => self.epochs()?,
            Unknown::Steps => self.steps()?,
            Unknown::Batch => self.batch()?,
            Unknown::Crop => self.crop()?,
            Unknown::Patch => self.patch()?,
        };
        let certificate = self.price(&plan)?;
        Ok(Calibrated { solved: SolvedUnknown { name: unknown.name(), value, size }, plan, certificate })
    }
}
