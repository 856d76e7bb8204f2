//! What the accountant knows of a step.

use dapple_plan::{BatchLimit, Plan, Sampling, Scheme};
use serde::{Deserialize, Serialize};

/// The accounting event of one step: everything that its price depends on beside the plan's relation and partition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingEvent {
    /// How records are drawn.
    pub scheme: Scheme,
    /// Expected number of records of a step.
    pub batch: u64,
    /// Records in the data set.
    pub records: u64,
    /// Steps of an epoch that each record joins in balanced sampling; 0 in other schemes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub per_record: u64,
    /// Steps of an epoch in balanced sampling; 0 in other schemes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub epoch_steps: u64,
    /// Into how many groups records are dealt out, of which the step draws from one, at as many times the rate; 0 if it draws from all records.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub groups: u64,
    /// The most records that the step takes; 0 if there is no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_batch: u64,
    /// Standard deviation of the noise on the sum of clipped gradients, in clip norms.
    pub noise_multiplier: f64,
    /// The probability that a sampled record shows what is protected.
    pub inclusion_probability: f64,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl SamplingEvent {
    /// The event of every step of a plan without phases, or of one phase.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let (per_record, epoch_steps) = match plan.sampling() {
            Sampling::Balanced { per_record, epoch_steps } => (per_record, epoch_steps),
            Sampling::Poisson | Sampling::WithoutReplacement => (0, 0),
        };
        Self {
            scheme: plan.sampling().scheme(),
            batch: plan.batch(),
            records: plan.records(),
            per_record,
            epoch_steps,
            max_batch: plan.batch_limit().map_or(0, BatchLimit::most),
            groups: if plan.groups() > 1 { plan.groups() } else { 0 },
            noise_multiplier: plan.noise_multiplier(),
            inclusion_probability: plan.inclusion_probability(),
        }
    }

    /// The scheme with its parameters.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        match self.scheme {
            Scheme::Poisson => Sampling::Poisson,
            Scheme::WithoutReplacement => Sampling::WithoutReplacement,
            Scheme::Balanced => {
                Sampling::Balanced { per_record: self.per_record, epoch_steps: self.epoch_steps }
            }
        }
    }
}
