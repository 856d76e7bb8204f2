//! Checks one phase, or a run that has none.

use dapple_accounting::{AccountingError, limits};
use dapple_geometry::Mask;

use super::balanced::Balanced;
use crate::Plan;
use crate::error::PlanError;
use crate::spec::{Delta, PlanSpec, Privacy, SamplingSpec};
use crate::{
    Averaged, BatchLimit, ClipQuantile, CorrelatedNoise, MaskedTokens, Relation, Sampling, Scheme, Spatial,
    Split, number,
};

/// Checks every value by itself and together with the others. The hash is left empty.
pub(crate) fn check(spec: &PlanSpec, masks: &[Mask]) -> Result<Plan, PlanError> {
    let spatial = Spatial::check(spec, masks)?;
    let relation = relation(spec, &spatial)?;
    let Drawing { sampling, batch, records, steps } = drawing(&spec.sampling)?;
    let masked = MaskedTokens::check(&spec.masked, relation, sampling)?;
    crate::pricing::theorem::theorem(relation, masked, sampling)?;
    let averaged = Averaged::check(spec, relation, spatial.views(), batch)?;
    let split = Split::check(&spec.partition, averaged, sampling)?;
    let clip_quantile = ClipQuantile::check(&spec.privacy, relation, averaged, split.as_ref())?;
    let correlated =
        CorrelatedNoise::check(spec, (sampling, masked, clip_quantile), (batch, records, steps))?;
    let batch_limit = BatchLimit::check(
        &spec.sampling,
        (relation, sampling, averaged, split.is_some() || correlated.is_some()),
        batch,
    )?;
    let noise_multiplier = noise_multiplier(&spec.privacy)?;
    let delta = delta(&spec.privacy, records)?;
    let positive = |key, value: Option<f64>| match value {
        Some(value) if !(value > 0.0 && value.is_finite()) => Err(PlanError::invalid(
            key,
            format!("{value} is not a positive number"),
            "give a positive number",
        )),
        value => Ok(value),
    };
    let epsilon = positive("privacy.epsilon", spec.privacy.epsilon)?;
    if let Some(epsilon) = epsilon {
        limits::epsilon(epsilon).map_err(within("privacy.epsilon"))?;
    }
    let plan = Plan {
        relation,
        sampling,
        batch,
        records,
        steps,
        noise_multiplier,
        max_grad_norm: positive("privacy.max_grad_norm", spec.privacy.max_grad_norm)?,
        clip_quantile,
        delta,
        epsilon,
        accountant: spec.privacy.accountant.unwrap_or_default(),
        spatial,
        masked,
        averaged,
        split,
        correlated,
        batch_limit,
        phases: Vec::new(),
        hash: String::new(),
    };
    plan.check_count_noise()?;
    Ok(plan)
}

fn relation(spec: &PlanSpec, spatial: &Spatial) -> Result<Relation, PlanError> {
    let region = spatial.protected().is_some();
    let relation = spec.relation();
    if relation == Relation::Patch && !region {
        return Err(PlanError::Missing {
            key: "region.patch",
            why: "the patch relation protects a region of an image",
        });
    }
    Ok(relation)
}

/// Which records the steps see, and how many steps there are.
struct Drawing {
    sampling: Sampling,
    batch: u64,
    records: u64,
    steps: u64,
}

fn drawing(spec: &SamplingSpec) -> Result<Drawing, PlanError> {
    let key = "sampling.records";
    let records =
        spec.records.ok_or(PlanError::Missing { key, why: "the sample rate is batch / records" })?;
    if records == 0 {
        return Err(PlanError::invalid(key, "0 records", "give at least 1"));
    }
    let sampling = match (spec.scheme.unwrap_or(Scheme::Poisson), spec.per_record) {
        (Scheme::Balanced, _) => {
            let Balanced { per_record, epoch_steps, epochs, batch } = Balanced::check(spec, records)?;
            let sampling = Sampling::Balanced { per_record, epoch_steps };
            return Ok(Drawing { sampling, batch, records, steps: epochs * epoch_steps });
        }
        (scheme, Some(_)) => {
            return Err(PlanError::invalid(
                "sampling.per_record",
                format!("has no meaning for {} sampling", scheme.name()),
                "leave it out, or use --sampling balanced",
            ));
        }
        (Scheme::Poisson, None) => Sampling::Poisson,
        (Scheme::WithoutReplacement, None) => Sampling::WithoutReplacement,
    };
    let why = "the sample rate is batch / records";
    let batch = spec.batch.ok_or(PlanError::Missing { key: "sampling.batch", why })?;
    batch_of(batch, records)?;
    Ok(Drawing { sampling, batch, records, steps: steps(spec, batch, records)? })
}

/// Checks a batch against the number of records it is drawn from.
pub(crate) fn batch_of(batch: u64, records: u64) -> Result<(), PlanError> {
    let key = "sampling.batch";
    if batch == 0 {
        return Err(PlanError::invalid(key, "0 records", "give at least 1"));
    }
    let rate = batch as f64 / records as f64;
    if batch > records {
        return Err(PlanError::invalid(
            key,
            format!("batch {batch} of {records} records is a sample rate of {rate:.4}, above 1"),
            format!("give a batch of at most {records}, or check --records"),
        ));
    }
    let small = |_| {
        PlanError::invalid(
            key,
            format!("batch {batch} of {records} records is a sample rate of {rate:e}, below 1e-8"),
            format!("give a batch of at least {}, or check --records", records.div_ceil(100_000_000)),
        )
    };
    limits::sample_rate(rate).map_err(small).map(|_| ())
}

fn steps(spec: &SamplingSpec, batch: u64, records: u64) -> Result<u64, PlanError> {
    let (key, steps) = match (spec.epochs, spec.steps) {
        (Some(_), Some(_)) => {
            return Err(PlanError::invalid(
                "sampling.steps",
                "epochs and steps are both given",
                "give one of them; steps = epochs * ceil(records / batch)",
            ));
        }
        (None, None) => {
            return Err(PlanError::Missing {
                key: "sampling.epochs",
                why: "neither epochs nor steps are given",
            });
        }
        (Some(epochs), None) => ("sampling.epochs", epochs.saturating_mul(records.div_ceil(batch))),
        (None, Some(steps)) => ("sampling.steps", steps),
    };
    limits::steps(steps).map_err(|_| {
        PlanError::invalid(
            key,
            format!("{steps} steps are outside [1, 10000000]"),
            "steps = epochs * ceil(records / batch)",
        )
    })
}

fn noise_multiplier(spec: &Privacy) -> Result<f64, PlanError> {
    let key = "privacy.noise_multiplier";
    let value = spec.noise_multiplier.ok_or(PlanError::Missing {
        key,
        why: "without noise there is no privacy; with privacy.epsilon (--epsilon) the noise is solved for",
    })?;
    limits::noise_multiplier(value).map_err(within(key))
}

fn delta(spec: &Privacy, records: u64) -> Result<f64, PlanError> {
    let key = "privacy.delta";
    let delta = match spec.delta {
        None => {
            return Err(PlanError::Missing {
                key,
                why: "epsilon depends on the failure probability one accepts",
            });
        }
        Some(Delta::Value(value)) => value,
        Some(Delta::OneOverRecords) => 1.0 / records as f64,
    };
    if !(delta > 0.0 && delta < 1.0) {
        return Err(PlanError::invalid(
            key,
            format!("{} is not a probability between 0 and 1", number::exact(delta)),
            "delta is commonly 1e-5 or 1/n, one over the number of records",
        ));
    }
    limits::delta(delta).map_err(within(key))
}

fn within(key: &'static str) -> impl Fn(AccountingError) -> PlanError {
    move |source| match source {
        AccountingError::OutOfRange { value, range, .. } => {
            PlanError::invalid(key, format!("{} is outside {range}", number::exact(value)), source.hint())
        }
        source => PlanError::Accounting { key: Some(key), source },
    }
}
