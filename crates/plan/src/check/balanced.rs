//! Balanced sampling: each record joins exactly `k` of the `T` steps of an epoch.

use dapple_accounting::limits;

use super::phase::batch_of;
use crate::error::PlanError;
use crate::spec::SamplingSpec;

/// How often a record is seen; a checked value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Balanced {
    /// `k`: steps of an epoch that a record joins.
    pub(crate) per_record: u64,
    /// `T`: steps of an epoch.
    pub(crate) epoch_steps: u64,
    /// Number of epochs.
    pub(crate) epochs: u64,
    /// The expected batch `k N / T`, as given or rounded up.
    pub(crate) batch: u64,
}

impl Balanced {
    /// Finds the length of an epoch from what is given.
    ///
    /// `steps` alone make one epoch. `steps` and `epochs` make that many epochs of equal length. `epochs` and `batch` give the length
    /// `ceil(k N / batch)`, which for `k = 1` is that of the other schemes.
    pub(crate) fn check(spec: &SamplingSpec, records: u64) -> Result<Self, PlanError> {
        let per_record = spec.per_record.unwrap_or(1);
        if per_record == 0 {
            return Err(PlanError::invalid(
                "sampling.per_record",
                "each record joins 0 steps",
                "give at least 1",
            ));
        }
        if let Some(batch) = spec.batch {
            batch_of(batch, records)?;
        }
        let draws = u128::from(per_record) * u128::from(records);
        let (key, epochs, epoch_steps) = epoch(spec, draws)?;
        if epoch_steps < u128::from(per_record) {
            return Err(PlanError::invalid(
                "sampling.per_record",
                format!("each record joins {per_record} of the {epoch_steps} steps of an epoch"),
                format!("a record joins a step at most once: give at most {epoch_steps}, or more steps"),
            ));
        }
        let steps = epoch_steps.saturating_mul(u128::from(epochs));
        let within = u64::try_from(steps).ok().and_then(|steps| limits::steps(steps).ok());
        let (Some(_), Ok(epoch_steps)) = (within, u64::try_from(epoch_steps)) else {
            return Err(PlanError::invalid(
                key,
                format!("{steps} steps are outside [1, 10000000]"),
                "steps = epochs * ceil(records * per-record / batch)",
            ));
        };
        // This is at most the number of records, because k <= T.
        let expected = draws.div_ceil(u128::from(epoch_steps));
        let batch = match spec.batch.filter(|_| spec.steps.is_some()) {
            // Either whole number next to k N / T will do.
            Some(batch) if (draws / u128::from(epoch_steps)..=expected).contains(&batch.into()) => batch,
            Some(batch) => {
                return Err(PlanError::invalid(
                    "sampling.batch",
                    format!(
                        "{batch} records a step, where {records} records in {per_record} of {epoch_steps} steps each make {expected}"
                    ),
                    "leave --batch out: records, steps and --per-record settle it; or give --epochs in place of --steps",
                ));
            }
            None => u64::try_from(expected).unwrap_or(records),
        };
        Ok(Self { per_record, epoch_steps, epochs, batch })
    }
}

/// The key that determines the length of an epoch, the number of epochs, and the steps of each.
fn epoch(spec: &SamplingSpec, draws: u128) -> Result<(&'static str, u64, u128), PlanError> {
    let none = |key| PlanError::invalid(key, "0 of them", "give at least 1");
    match (spec.epochs, spec.steps) {
        (Some(0), _) => Err(none("sampling.epochs")),
        (_, Some(0)) => Err(none("sampling.steps")),
        (None, None) => {
            Err(PlanError::Missing { key: "sampling.steps", why: "neither steps nor epochs are given" })
        }
        (None, Some(steps)) => Ok(("sampling.steps", 1, steps.into())),
        (Some(epochs), Some(steps)) if steps % epochs != 0 => Err(PlanError::invalid(
            "sampling.steps",
            format!("{steps} steps are not {epochs} epochs of equal length"),
            format!(
                "give a multiple of {epochs}, the steps of all epochs together; or give --batch in place of --steps"
            ),
        )),
        (Some(epochs), Some(steps)) => Ok(("sampling.steps", epochs, (steps / epochs).into())),
        (Some(epochs), None) => {
            let batch = spec.batch.ok_or(PlanError::Missing {
                key: "sampling.batch",
                why: "an epoch of balanced sampling has records * per-record / batch steps",
            })?;
            Ok(("sampling.epochs", epochs, draws.div_ceil(batch.into())))
        }
    }
}
