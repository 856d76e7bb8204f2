//! Searches where noise cancels across steps: coefficients follow from the steps, so that every trial is a plan of its own.

use super::problem::Problem;
use super::{Calibrated, MAX_STEPS, Solution, SolvedValue, Unknown};
use crate::Plan;
use crate::error::PlanError;
use crate::spec::{Bands, PlanSpec};

/// The numbers of bands among which auto chooses. Between two of them the noise changes little.
const CANDIDATES: [u64; 16] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256];
/// So many numbers that are no better than one before them end the search, because more bands cost more from some number on.
const PATIENCE: usize = 2;

impl Problem<'_> {
    /// How many groups records are dealt out to.
    fn groups(&self) -> u64 {
        match self.spec.noise.bands {
            Some(Bands::Count(bands)) => bands.max(1),
            Some(Bands::Auto) | None => 1,
        }
    }

    /// Whether noise cancels across steps.
    pub(super) fn is_correlated(&self) -> bool {
        self.groups() > 1
    }

    /// Finds the most steps or epochs.
    pub(super) fn correlated_length(&self, unknown: Unknown) -> Result<Solution, PlanError> {
        let with = |length: u64| {
            self.plan(|spec| {
                (spec.sampling.epochs, spec.sampling.steps) = match unknown {
                    Unknown::Epochs => (Some(length), None),
                    _ => (None, Some(length)),
                };
            })
        };
        let steps_of_one = match unknown {
            Unknown::Epochs => {
                let sampling = &self.spec.sampling;
                sampling.records.unwrap_or(1).div_ceil(sampling.batch.unwrap_or(1).max(1))
            }
            _ => 1,
        };
        // A warm-up must end before the run does.
        let least = self.spec.optimiser.warmup.unwrap_or(0) / steps_of_one + 1;
        // A run that goes on until its budget is spent takes no more than its own steps. Fewer steps than what fits may cost more, because
        // coefficients follow from the steps, so that the search must not go beyond.
        let own = match unknown {
            Unknown::Steps if self.spec.train.until_budget == Some(true) => self.own_steps()?,
            _ => MAX_STEPS,
        };
        let most = (MAX_STEPS / steps_of_one).min(own).max(least);
        let found = self.largest(least, most, with)?;
        let length = found.ok_or_else(|| self.unreachable(unknown, least as f64, most as f64))?;
        Ok((with(length)?, SolvedValue::Whole(length), None))
    }

    /// The steps that the plan gives; as many as a run may have if it gives none.
    fn own_steps(&self) -> Result<u64, PlanError> {
        match self.plan(|_| ()) {
            Ok(plan) => Ok(plan.steps()),
            Err(PlanError::Missing { key: "sampling.epochs", .. }) => Ok(MAX_STEPS),
            Err(other) => Err(other),
        }
    }

    /// Finds the largest batch that every group can be drawn at.
    pub(super) fn correlated_batch(&self) -> Result<Solution, PlanError> {
        let records = self.spec.sampling.records.unwrap_or(1);
        let most = (records / self.groups()).max(1);
        let with = |batch| self.plan(|spec| spec.sampling.batch = Some(batch));
        with(most)?;
        let epochs = self.spec.sampling.epochs.unwrap_or(1);
        let least =
            ((records as f64 * 1e-8).ceil() as u64).max(records.div_ceil((MAX_STEPS / epochs).max(1)));
        let found = self.largest(least.clamp(1, most), most, with)?;
        let batch = found.ok_or_else(|| self.unreachable(Unknown::Batch, least as f64, most as f64))?;
        Ok((with(batch)?, SolvedValue::Whole(batch), None))
    }
}

/// The number of bands with which a plan that leaves it open, and its noise, to its target epsilon has the least noise in its iterates. Which
/// number is chosen is a question of utility: each is priced in full.
pub(super) fn best_bands(
    spec: &PlanSpec,
    solve: impl Fn(&PlanSpec) -> Result<Calibrated, PlanError>,
) -> Result<Calibrated, PlanError> {
    let most = spec.sampling.records.unwrap_or(1) / spec.sampling.batch.unwrap_or(1).max(1);
    let (mut best, mut worse): (Option<(f64, Calibrated)>, usize) = (None, 0);
    let mut failed = None;
    for bands in CANDIDATES.into_iter().take_while(|&bands| bands <= most.max(1)) {
        let mut spec = spec.clone();
        spec.noise.bands = Some(Bands::Count(bands));
        let found = match solve(&spec) {
            Ok(found) => found,
            Err(error @ PlanError::Unreachable { .. }) => {
                failed.get_or_insert(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let noise = noise_in_iterates(&found.plan);
        if best.as_ref().is_none_or(|(least, _)| noise < *least) {
            (best, worse) = (Some((noise, found)), 0);
        } else {
            worse += 1;
        }
        if worse == PATIENCE {
            break;
        }
    }
    best.map(|(_, found)| found)
        .ok_or_else(|| failed.expect("one band is always tried, and was found or failed"))
}

/// The noise in a plan's iterates, in those of independent noise of noise multiplier one.
fn noise_in_iterates(plan: &Plan) -> f64 {
    plan.noise_multiplier() * plan.correlated_noise().map_or(1.0, |noise| noise.relative_error())
}
