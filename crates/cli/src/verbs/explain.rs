//! Explains the price of a plan: every factor, and what it is worth.

use clap::Args;
use dapple_plan::masked::claimed_epsilon;
use dapple_plan::spec::MaskedContent;
use dapple_plan::{
    AllocationBound, BalancedBound, BracketPrecision, Certificate, MaskedTokens, Plan, PlanError,
    PublicTokens, RandomnessSource, Relation, Sampling, Scheme, Split, baseline, number,
};
use dapple_report::{Column, Table, TextStyle};
use serde::Serialize;

use crate::failure::Failure;

/// A factor of the guarantee.
#[derive(Debug, Serialize)]
pub(crate) struct Factor {
    name: &'static str,
    /// `None` if the value is too large to report.
    value: Option<f64>,
    meaning: String,
}

/// What others would do, to compare with.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Baselines {
    /// With --explain: compares with Gaussian noise of this deviation on the pixels (0 to 255, three channels), added once, or anew
    /// for every view
    #[arg(long, value_name = "SIGMA", requires = "explain")]
    pixel_noise: Option<f64>,
    /// With --explain: what the guarantee says about this many regions at once, by group privacy
    #[arg(long, value_name = "K", requires = "explain")]
    regions: Option<u32>,
}

/// Channels of a colour image.
const CHANNELS: u32 = 3;

pub(crate) fn explain(
    plan: &Plan,
    certificate: &Certificate,
    baselines: Baselines,
    precision: BracketPrecision,
) -> Result<Vec<Factor>, PlanError> {
    let factor = |name, value, meaning: String| Factor { name, value: Some(value), meaning };
    let mut factors = vec![factor("sample rate", plan.sample_rate(), drawing(plan))];
    if plan.relation() == Relation::Patch {
        factors.extend(spatial(plan));
    }
    if let Some(noise) = plan.correlated_noise() {
        let drawn = plan.groups() * plan.batch();
        factors.push(factor(
            "bands",
            noise.bands() as f64,
            format!(
                "steps over which noise cancels: a record may be drawn in every {} alone, with probability {drawn}/{}",
                ordinal(noise.bands()),
                plan.records()
            ),
        ));
        let meaning = "the coefficients' norm, by which the distances of each of these draws are multiplied";
        factors.push(factor("reach", noise.norm(), meaning.to_owned()));
    }
    if let Some(split) = plan.split() {
        factors.push(factor("submodels", split.submodels() as f64, splitting(plan, split)));
    }
    factors.push(factor(
        "effective rate",
        plan.effective_rate(),
        "a step sees what is protected with this probability".to_owned(),
    ));
    factors.push(factor(
        "sensitivity",
        certificate.sensitivity,
        "clip norms by which what is protected can move the sum of gradients".to_owned(),
    ));
    factors.push(factor(
        "noise multiplier",
        plan.noise_multiplier(),
        format!(
            "clip norms of Gaussian noise on that sum, {}",
            if plan.phases().is_empty() { "each step" } else { "the least of all phases" }
        ),
    ));
    factors.push(factor("steps", plan.steps() as f64, "steps that are released, composed".to_owned()));
    factors.push(factor(
        "epsilon",
        certificate.epsilon.upper,
        format!("this plan, at delta {}", number::exact(plan.delta())),
    ));
    factors.extend(masked(plan));
    factors.extend(revealed(plan, precision)?);
    factors.extend(worth(plan, certificate, precision)?);
    factors.extend(cancelled(plan, certificate, precision)?);
    factors.extend(elsewhere(plan, precision)?);
    factors.extend(others(plan, certificate, baselines, precision)?);
    Ok(factors)
}

/// Says which records a step sees.
fn drawing(plan: &Plan) -> String {
    let most = if plan.phases().is_empty() { "" } else { "at most " };
    let users = plan.relation() == Relation::User;
    match plan.sampling() {
        Sampling::Balanced { per_record, epoch_steps } => format!(
            "each {} joins {most}{per_record} of the {epoch_steps} steps of an epoch",
            if users { "user" } else { "record" }
        ),
        Sampling::Poisson | Sampling::WithoutReplacement => format!(
            "a step draws {most}{} of {} {}",
            plan.batch(),
            plan.records(),
            if users { "users" } else { "records" }
        ),
    }
}

/// Says which submodels a record updates.
fn splitting(plan: &Plan, split: &Split) -> String {
    let least = if split.partitions().len() > 1 { " at least" } else { "" };
    let counted = if plan.counts_submodels() { "" } else { "; not counted under this relation" };
    let made = if split.by_dropout() { ": a mask of dropout and its complement" } else { "" };
    format!("a record updates one of these{least}, hidden among the others{made}{counted}")
}

/// The names and the meanings of the prices of a split model whose draws are known: of epsilon, and of the noise.
fn known_draws(split: &Split) -> [(&'static str, &'static str); 2] {
    match split.by_dropout() {
        true => [
            ("epsilon, known masks", "the same run if it were known which nodes dropout keeps for a record"),
            ("noise, known masks", "the same if it were known which nodes dropout keeps for a record"),
        ],
        false => [
            ("epsilon, known submodels", "the same run if it were known which submodel a record updates"),
            ("noise, known submodels", "the same if it were known which submodel a record updates"),
        ],
    }
}

/// Prices the same run without the secrets that balanced sampling and submodels add.
fn revealed(plan: &Plan, precision: BracketPrecision) -> Result<Vec<Factor>, PlanError> {
    let mut factors = Vec::new();
    let compare = |name, other: Plan, meaning: &str| -> Result<Factor, PlanError> {
        let value = reported(other.price(precision))?.map(|certificate| certificate.epsilon.upper);
        Ok(Factor { name, value, meaning: meaning.to_owned() })
    };
    if plan.sampling().scheme() == Scheme::Balanced {
        let bounds = plan.balanced_bounds(precision)?;
        factors.extend(bounds.into_iter().map(|(bound, value)| {
            let name = match bound {
                BalancedBound::OneMove(bound) | BalancedBound::TwoMoves(bound) => match bound {
                    AllocationBound::Exact => "epsilon, exact",
                    AllocationBound::Composition => "epsilon, composition",
                    AllocationBound::RenyiExact => "epsilon, equation 2",
                    AllocationBound::RenyiBound => "epsilon, equation 3",
                },
                BalancedBound::KnownSteps => "epsilon, known steps",
            };
            Factor { name, value, meaning: format!("by one bound alone: {}", bound.words()) }
        }));
        let meaning = "the same run with a coin for each record and step, at the same rate";
        factors.push(compare("epsilon, poisson", plan.with_independent_steps(), meaning)?);
    }
    if let Some(split) = plan.split().filter(|_| plan.counts_submodels()) {
        let [(name, meaning), _] = known_draws(split);
        factors.push(compare(name, plan.with_known_submodels(), meaning)?);
        let rdp = reported(plan.price_rdp())?.map(|certificate| certificate.epsilon.upper);
        let meaning = "the same run by Rényi divergences, as in the paper on partitioning".to_owned();
        factors.push(Factor { name: "epsilon, rényi", value: rdp, meaning });
    }
    Ok(factors)
}

/// Says what each source of a split model's randomness is worth: the noise that the same epsilon would take without it.
fn worth(
    plan: &Plan,
    certificate: &Certificate,
    precision: BracketPrecision,
) -> Result<Vec<Factor>, PlanError> {
    let Some(split) = plan.split() else { return Ok(Vec::new()) };
    let [_, (known, known_meaning)] = known_draws(split);
    let mut factors = Vec::new();
    for (source, name, meaning) in [
        (
            RandomnessSource::Sampling,
            "noise, no sampling",
            "the noise multiplier that this epsilon would take if every step saw every record",
        ),
        (RandomnessSource::Submodels, known, known_meaning),
        (RandomnessSource::Crops, "noise, no crop", "the same if every view showed the region"),
    ] {
        let value = plan.noise_without(source, certificate.epsilon.upper, precision)?;
        factors.extend(value.map(|value| Factor { name, value: Some(value), meaning: meaning.to_owned() }));
    }
    Ok(factors)
}

/// Compares noise that cancels across steps with independent noise that costs as much.
fn cancelled(
    plan: &Plan,
    certificate: &Certificate,
    precision: BracketPrecision,
) -> Result<Vec<Factor>, PlanError> {
    let Some(noise) = plan.correlated_noise() else { return Ok(Vec::new()) };
    let independent = plan.independent_noise(certificate.epsilon.upper, precision)?;
    let share = independent.map(|independent| plan.noise_multiplier() * noise.relative_error() / independent);
    Ok(vec![
        Factor {
            name: "noise, one band",
            value: independent,
            meaning: "the noise multiplier that this epsilon would take if each step had noise of its own"
                .to_owned(),
        },
        Factor {
            name: "error, estimated",
            value: share,
            meaning: "the noise in the iterates over that of such a run, an estimate of utility".to_owned(),
        },
    ])
}

/// A number as in "every third".
fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (1, hundred) if hundred != 11 => "st",
        (2, hundred) if hundred != 12 => "nd",
        (3, hundred) if hundred != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending} step")
}

/// Prices the baselines that were asked for.
fn others(
    plan: &Plan,
    certificate: &Certificate,
    baselines: Baselines,
    precision: BracketPrecision,
) -> Result<Vec<Factor>, PlanError> {
    let mut factors = Vec::new();
    if let Some(sigma) = baselines.pixel_noise {
        let pixels = match plan.spatial().protected() {
            Some(protected) => protected.largest_region_pixels()?,
            None => {
                let why = "a comparison with noise on the pixels needs a private region";
                return Err(PlanError::Missing { key: "region.patch", why });
            }
        };
        let once = baseline::data_level_noise(pixels, CHANNELS, sigma, plan.delta(), precision);
        let anew = baseline::noise_augmentation(plan, pixels, CHANNELS, sigma, precision);
        for (name, bracket, meaning) in [
            ("epsilon, pixel noise", once, "noise on the pixels, once, and no noise in training"),
            (
                "epsilon, noisy views",
                anew,
                "fresh pixel noise in every view in place of the crop, by total variation",
            ),
        ] {
            factors.push(Factor {
                name,
                value: reported(bracket)?.map(|b| b.upper),
                meaning: meaning.to_owned(),
            });
        }
    }
    if let Some(count) = baselines.regions {
        let (epsilon, delta) = baseline::group(certificate.epsilon.upper, plan.delta(), count)?;
        let meaning = format!("{count} regions at once by group privacy, at delta {}", number::up(delta, 3));
        factors.push(Factor { name: "epsilon, group", value: Some(epsilon), meaning });
    }
    Ok(factors)
}

/// A price, or `None` if it is too large to report, which is all that the comparison needs to say.
fn reported<T>(result: Result<T, PlanError>) -> Result<Option<T>, PlanError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_too_large() => Ok(None),
        Err(error) => Err(error),
    }
}

fn spatial(plan: &Plan) -> Vec<Factor> {
    let spatial = plan.spatial();
    let noise = spatial.pixel_noise();
    let mut factors = match spatial.seen() {
        None => vec![Factor {
            name: "inclusion",
            value: Some(1.0),
            meaning: "there is no crop: every sampled image shows the region".to_owned(),
        }],
        Some(seen) => {
            let place = seen
                .worst_origin
                .map_or_else(String::new, |(x, y)| format!(", at its worst place ({x}, {y})"));
            let counts = seen.counts.map_or_else(
                || "expected over the sizes of random crops".to_owned(),
                |counts| format!("{} of {} crops see the region", counts.hits, counts.crop_origins),
            );
            let (value, meaning) = (Some(seen.probability()), format!("{counts}{place}"));
            vec![Factor { name: "inclusion, one view", value, meaning }]
        }
    };
    factors.extend(noise.map(|noise| Factor {
        name: "pixel noise",
        value: Some(noise.distance()),
        meaning: "a noisy view that shows the region tells two contents of it apart".to_owned(),
    }));
    if noise.is_some() || (spatial.views() > 1 && spatial.seen().is_some()) {
        let meaning = match (spatial.views(), noise) {
            (views, None) => format!("at least one of {views} views sees the region"),
            (views, Some(_)) => format!("at least one of {views} views tells two contents of it apart"),
        };
        factors.push(Factor { name: "inclusion", value: Some(spatial.inclusion_probability()), meaning });
    }
    factors
}

/// What the masked paper claims for this run, and whether the claim holds.
fn masked(plan: &Plan) -> Option<Factor> {
    let MaskedTokens { content, public } = plan.masked()?;
    let verdict = match (content, public) {
        _ if plan.sampling() != Sampling::Poisson => {
            "it is about Poisson sampling, and says nothing of this run"
        }
        (MaskedContent::Remove, PublicTokens::Decoupled) => {
            "it holds for private tokens that are there or not, with public batches of their own"
        }
        (MaskedContent::Substitute, PublicTokens::Decoupled) => {
            "it does not hold: substituted tokens move the sum by two clip norms, not by one"
        }
        (MaskedContent::Remove, PublicTokens::CoupledClipped { .. } | PublicTokens::Coupled) => {
            "it does not hold: the public gradient of the same records can reveal who was drawn"
        }
        (MaskedContent::Substitute, PublicTokens::CoupledClipped { .. } | PublicTokens::Coupled) => {
            "it does not hold: substituted tokens move the sum by two clip norms, not by one, and the public gradient of the same records can reveal who was drawn"
        }
    };
    Some(Factor {
        name: "epsilon, claimed",
        value: Some(claimed_epsilon(plan)),
        meaning: format!("claimed by the masked paper, Theorem 1; {verdict}"),
    })
}

/// Prices the same run under other relations.
fn elsewhere(plan: &Plan, precision: BracketPrecision) -> Result<Vec<Factor>, PlanError> {
    let mut factors = Vec::new();
    let (substituted, added) = match plan.relation() {
        // Public tokens get no noise, so there is no guarantee for whole records to compare with.
        Relation::Masked => return Ok(factors),
        Relation::User => ("the same run, for all records of a user substituted", None),
        Relation::AddRemove | Relation::Replace | Relation::Patch => (
            "the same run, for whole records substituted",
            Some("the same run, for whole records added or removed"),
        ),
    };
    for (relation, name, meaning) in [
        (Relation::Replace, "epsilon, replace", Some(substituted)),
        (Relation::AddRemove, "epsilon, add-remove", added),
    ] {
        let covered = match plan.sampling().scheme() {
            Scheme::Poisson => true,
            Scheme::WithoutReplacement => relation == Relation::Replace,
            Scheme::Balanced => true,
        };
        let Some(meaning) = meaning.filter(|_| covered && relation != plan.relation()) else { continue };
        let certificate = reported(plan.at_relation(relation).price(precision))?;
        let value = certificate.map(|certificate| certificate.epsilon.upper);
        factors.push(Factor { name, value, meaning: meaning.to_owned() });
    }
    Ok(factors)
}

/// The factors as a table.
pub(crate) fn text(factors: &[Factor]) -> Result<String, Failure> {
    let mut table = Table::new([Column::text("factor"), Column::number("value"), Column::text("meaning")]);
    for factor in factors {
        // Values are rounded up, because larger factors make epsilon larger. Only the noise makes it smaller, so it is written in full.
        let value = match (factor.name, factor.value) {
            (_, None) => "too large".to_owned(),
            ("noise multiplier" | "steps" | "submodels", Some(value)) => number::exact(value),
            ("sensitivity", Some(value)) => number::brief(value),
            (_, Some(value)) => number::up(value, 4),
        };
        table.push([factor.name.into(), value.into(), factor.meaning.clone().into()])?;
    }
    Ok(table.to_text(TextStyle::default()))
}
