//! From what a user wrote to what can be priced.

use dapple_accounting::{AccountingError, limits};
use dapple_geometry::Mask;

use crate::error::PlanError;
use crate::plan::Plan;
use crate::spec::{Delta, PlanSpec, Privacy, SamplingSpec};
use crate::{Averaged, PublicTokens, Relation, Sampling, Scheme, Spatial, number, price};

/// Checks every value by itself and beside the others. The hash is left empty.
pub(crate) fn check(spec: &PlanSpec, masks: &[Mask]) -> Result<Plan, PlanError> {
    let spatial = Spatial::check(spec, masks)?;
    let relation = relation(spec, &spatial)?;
    let (batch, records) = batch(&spec.sampling)?;
    let sampling = sampling(&spec.sampling)?;
    refuse_unpriced_parts(spec)?;
    let public_tokens = PublicTokens::check(&spec.masked, relation)?;
    price::theorem(relation, sampling)?;
    let averaged = Averaged::check(spec, relation, spatial.views(), batch)?;
    let steps = steps(&spec.sampling, batch, records)?;
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
    Ok(Plan {
        relation,
        sampling,
        batch,
        records,
        steps,
        noise_multiplier,
        max_grad_norm: positive("privacy.max_grad_norm", spec.privacy.max_grad_norm)?,
        delta,
        epsilon,
        accountant: spec.privacy.accountant.unwrap_or_default(),
        spatial,
        public_tokens,
        averaged,
        phases: Vec::new(),
        hash: String::new(),
    })
}

fn relation(spec: &PlanSpec, spatial: &Spatial) -> Result<Relation, PlanError> {
    let region = spatial.protected().is_some();
    let relation =
        spec.privacy.relation.unwrap_or(if region { Relation::Patch } else { Relation::AddRemove });
    if relation == Relation::Patch && !region {
        return Err(PlanError::Missing {
            key: "region.patch",
            why: "the patch relation protects a region of an image",
        });
    }
    Ok(relation)
}

fn batch(spec: &SamplingSpec) -> Result<(u64, u64), PlanError> {
    let missing = |key, why| PlanError::Missing { key, why };
    let records =
        spec.records.ok_or_else(|| missing("sampling.records", "the sample rate is batch / records"))?;
    let batch = spec.batch.ok_or_else(|| missing("sampling.batch", "the sample rate is batch / records"))?;
    for (key, value) in [("sampling.records", records), ("sampling.batch", batch)] {
        if value == 0 {
            return Err(PlanError::invalid(key, "0 records", "give at least 1"));
        }
    }
    if batch > records {
        let rate = batch as f64 / records as f64;
        return Err(PlanError::invalid(
            "sampling.batch",
            format!("batch {batch} of {records} records is a sample rate of {rate:.4}, above 1"),
            format!("give a batch of at most {records}, or check --records"),
        ));
    }
    limits::sample_rate(batch as f64 / records as f64).map_err(within("sampling.batch"))?;
    Ok((batch, records))
}

fn sampling(spec: &SamplingSpec) -> Result<Sampling, PlanError> {
    let scheme = spec.scheme.unwrap_or(Scheme::Poisson);
    match (scheme, spec.per_record) {
        (Scheme::Balanced, Some(0)) => {
            Err(PlanError::invalid("sampling.per_record", "each record joins 0 steps", "give at least 1"))
        }
        (Scheme::Balanced, per_record) => Ok(Sampling::Balanced { per_record: per_record.unwrap_or(1) }),
        (_, Some(_)) => Err(PlanError::invalid(
            "sampling.per_record",
            format!("has no meaning for {} sampling", scheme.name()),
            "leave it out, or use --sampling balanced",
        )),
        (Scheme::Poisson, None) => Ok(Sampling::Poisson),
        (Scheme::WithoutReplacement, None) => Ok(Sampling::WithoutReplacement),
    }
}

fn refuse_unpriced_parts(spec: &PlanSpec) -> Result<(), PlanError> {
    if spec.partition != Default::default() {
        return Err(PlanError::NoTheorem {
            combination: "models split into submodels".to_owned(),
            reason: "only updates of the whole model are priced",
            hint: "leave the [partition] section and its flags out",
        });
    }
    Ok(())
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
        why: "without noise there is no privacy; `dapple calibrate` finds it for a target epsilon",
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
