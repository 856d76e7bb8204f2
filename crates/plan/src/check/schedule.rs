//! Runs in phases, in which noise, batch, crop or views change on the way.

use dapple_accounting::limits;
use dapple_geometry::Mask;

use super::{correlated, hash, phase};
use crate::Plan;
use crate::error::PlanError;
use crate::spec::PlanSpec;

/// The most phases. Each is discretised by itself, and a schedule that changes at every step is a slip of the pen.
const MAX_PHASES: usize = 100;

/// Checks a plan phase by phase. Successive phases that do the same are joined, and a run of one phase is a plain plan.
///
/// The values of the whole plan are bounds on those of its phases: the largest batch and inclusion probability, the least noise, and all
/// steps together.
pub(crate) fn check(spec: &PlanSpec, masks: &[Mask]) -> Result<Plan, PlanError> {
    let too_many = |problem: String, hint: &str| Err(PlanError::invalid("phases", problem, hint));
    if spec.phases.len() > MAX_PHASES {
        return too_many(
            format!("{} phases", spec.phases.len()),
            &format!("give at most {MAX_PHASES}; phases are priced one by one"),
        );
    }
    correlated::refuse_phases(spec)?;
    let mut phases: Vec<Plan> = Vec::new();
    for (index, phase) in spec.phases.iter().enumerate() {
        let plan = phase::check(&spec.in_phase(phase), masks)
            .map_err(|source| PlanError::Phase { number: index + 1, source: Box::new(source) })?;
        match phases.last_mut() {
            Some(last) if (Plan { steps: plan.steps, ..last.clone() }) == plan => last.steps += plan.steps,
            _ => phases.push(plan),
        }
    }
    let steps: u64 = phases.iter().map(|phase| phase.steps).sum();
    if limits::steps(steps).is_err() {
        return too_many(format!("{steps} steps are outside [1, 10000000]"), "shorten the phases");
    }
    joined(phases).ok_or(PlanError::Missing { key: "phases", why: "a schedule has at least one phase" })
}

/// Joins phases to one run; `None` if there are no phases. The hash of the whole is left as it is.
pub(super) fn joined(mut phases: Vec<Plan>) -> Option<Plan> {
    let steps = phases.iter().map(|phase| phase.steps).sum();
    let most_seen = phases
        .iter()
        .max_by(|a, b| a.inclusion_probability().total_cmp(&b.inclusion_probability()))
        .cloned()?;
    if phases.len() == 1 {
        return Some(Plan { steps, ..most_seen });
    }
    let batch = phases.iter().map(|phase| phase.batch).max().unwrap_or(most_seen.batch);
    let noise_multiplier = phases.iter().map(|phase| phase.noise_multiplier).fold(f64::INFINITY, f64::min);
    // Balanced phases may differ in how often a record is seen.
    let sampling = phases
        .iter()
        .max_by(|a, b| a.sample_rate().total_cmp(&b.sample_rate()))
        .map_or(most_seen.sampling, |phase| phase.sampling);
    for phase in &mut phases {
        phase.hash = hash::of(phase);
    }
    Some(Plan { steps, batch, sampling, noise_multiplier, phases, ..most_seen })
}
