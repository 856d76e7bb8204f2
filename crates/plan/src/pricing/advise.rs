//! Which batch, steps and bands leave the least noise in what is learned, for the same budget and the same work.

use std::collections::BTreeMap;

use dapple_accounting::BracketPrecision;
use dapple_geometry::Mask;
use serde::Serialize;

use super::{Unknown, calibrate};
use crate::error::PlanError;
use crate::spec::{Bands, PlanSpec};
use crate::{Plan, Relation, Scheme};

/// Numbers of bands that are tried. Between them the noise changes little.
const BANDS: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// So many settings in a row that are no better end the search in a direction.
const PATIENCE: usize = 2;
/// The most doublings or halvings of the batch.
const MOST_DOUBLINGS: i32 = 16;
/// An estimate of noise needs no more than two digits.
const ROUGH: BracketPrecision = BracketPrecision { relative: 1e-2 };

/// A setting of a plan, and the noise that it leaves in what is learned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Expected records of a step.
    pub batch: u64,
    /// Steps.
    pub steps: u64,
    /// Steps over which noise cancels.
    pub bands: u64,
    /// The noise multiplier that meets the plan's epsilon.
    pub noise_multiplier: f64,
    /// The norm of the noise in the iterates, over that of a signal of one clip norm in every record's gradient: an estimate, for each trained value.
    pub noise: f64,
}

impl Advice {
    /// The lines of a plan that take it.
    #[must_use]
    pub fn toml(&self) -> String {
        let Self { batch, steps, bands, .. } = self;
        let noise = if *bands > 1 { format!("\n[noise]\nbands = {bands}") } else { String::new() };
        format!("[sampling]\nbatch = {batch}\nsteps = {steps}{noise}")
    }
}

/// Settings of a plan for the same budget and the same work, that is, as many gradients of views.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advised {
    /// The setting with the least noise.
    pub best: Advice,
    /// The least noise at each batch that was tried, in ascending order.
    pub by_batch: Vec<Advice>,
}

/// Searches for the batch, the steps and the bands that leave the least noise in what a plan learns, at its epsilon, for as many gradients of records as
/// `gradients` allows. Nothing is known of the data: what crops show, and how fast a model learns, is for experiments.
///
/// # Errors
/// A plan without an epsilon, with phases, or with balanced sampling; one that no setting brings to its epsilon.
pub fn advise(spec: &PlanSpec, masks: &[Mask], gradients: u64) -> Result<Advised, PlanError> {
    if !spec.phases.is_empty() || spec.sampling.scheme == Some(Scheme::Balanced) {
        return Err(PlanError::invalid(
            "sampling",
            "advice is for runs whose steps are all alike and draw records independently",
            "leave phases out, and use --sampling poisson",
        ));
    }
    let records = spec
        .sampling
        .records
        .ok_or(PlanError::Missing { key: "sampling.records", why: "the sample rate is batch / records" })?;
    let start = spec.sampling.batch.unwrap_or(1).clamp(1, records.min(gradients.max(1)));
    let mut tried: BTreeMap<u64, Option<Advice>> = BTreeMap::new();
    for direction in [1, -1] {
        let mut worse = 0;
        let mut least = f64::INFINITY;
        for doublings in 0..MOST_DOUBLINGS {
            let batch = (start as f64 * 2f64.powi(direction * doublings)).round();
            if batch < 1.0 || batch > records.min(gradients) as f64 || worse == PATIENCE {
                break;
            }
            let batch = batch as u64;
            let found = match tried.get(&batch) {
                Some(found) => found.clone(),
                None => match at_batch(spec, masks, batch, (gradients / batch).max(1)) {
                    // Another batch than the plan's may make no plan: one too small for its microbatches, or one with too many steps.
                    Err(PlanError::Invalid { .. }) if batch != start => None,
                    found => found?,
                },
            };
            let noise = found.as_ref().map_or(f64::INFINITY, |advice| advice.noise);
            worse = if noise < least { 0 } else { worse + 1 };
            least = least.min(noise);
            tried.insert(batch, found);
        }
    }
    let by_batch: Vec<Advice> = tried.into_values().flatten().collect();
    let best = by_batch.iter().min_by(|one, other| one.noise.total_cmp(&other.noise)).cloned();
    best.map(|best| Advised { best, by_batch }).ok_or_else(|| {
        PlanError::invalid(
            "privacy.epsilon",
            "no batch reaches it for this work",
            "give a larger epsilon, or less work",
        )
    })
}

/// The bands with the least noise at a batch; `None` if no noise is enough for the budget.
fn at_batch(spec: &PlanSpec, masks: &[Mask], batch: u64, steps: u64) -> Result<Option<Advice>, PlanError> {
    let mut best: Option<Advice> = None;
    let mut worse = 0;
    for bands in BANDS {
        if worse == PATIENCE || (bands > 1 && !may_cancel(spec, bands * batch)) {
            break;
        }
        let mut spec = spec.clone();
        (spec.sampling.batch, spec.sampling.steps, spec.sampling.epochs) = (Some(batch), Some(steps), None);
        (spec.noise.bands, spec.privacy.noise_multiplier) = (Some(Bands::Count(bands)), None);
        // A limit of the batch belongs to the batch that was given, and so does a warm-up to its steps.
        (spec.sampling.max_batch, spec.optimiser.warmup) = (None, None);
        let plan = match calibrate(&spec, masks, Unknown::NoiseMultiplier, ROUGH) {
            Ok(found) => found.plan,
            Err(PlanError::Unreachable { .. }) => continue,
            Err(error) => return Err(error),
        };
        let advice = Advice {
            batch,
            steps,
            bands,
            noise_multiplier: plan.noise_multiplier(),
            noise: noise_in_what_is_learned(&plan),
        };
        match &best {
            Some(before) if before.noise <= advice.noise => worse += 1,
            _ => (best, worse) = (Some(advice), 0),
        }
    }
    Ok(best)
}

/// Whether a theorem covers noise across steps that draw so many records from a group.
fn may_cancel(spec: &PlanSpec, drawn: u64) -> bool {
    spec.sampling.scheme.unwrap_or(Scheme::Poisson) == Scheme::Poisson
        && spec.relation() != Relation::Masked
        && spec.privacy.clip_quantile.is_none()
        && spec.sampling.records.is_some_and(|records| drawn <= records)
}

/// The deviation of each value's noise in a plan's iterates, over what gradients that all agree would move them: in a sum of `T` steps, independent noise
/// of deviation `sigma C` grows to `sigma C T^1/2`, and `B T` gradients of one clip norm add up to `B T C`.
#[must_use]
pub fn noise_in_what_is_learned(plan: &Plan) -> f64 {
    let cancelled = plan.correlated_noise().map_or(1.0, |noise| noise.relative_error());
    plan.gradient_noise() * cancelled / (plan.batch() as f64 * (plan.steps() as f64).sqrt())
}
