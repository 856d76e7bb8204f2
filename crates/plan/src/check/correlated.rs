//! Noise that cancels across steps.

use dapple_accounting::banded::{self, Iterates, MeasuredAt};

use crate::error::PlanError;
use crate::spec::{Bands, CoefficientKind, NoiseMeasure, PlanSpec};
use crate::training::{LearningRate, OptimiserPlan};
use crate::{ClipQuantile, MaskedTokens, Plan, Sampling};

const KEY: &str = "noise.bands";
/// The most bands: a run keeps two numbers of every value and band.
const MOST_BANDS: u64 = 256;
/// Coefficients are whole multiples of `2^-FRACTION`, so that sums of whole numbers stay whole.
const FRACTION: u32 = 8;

/// Coefficients `c_0 = 1, c_1, .. c_{b-1}` by which the sums of successive steps are released together.
///
/// Step `t` releases `u_t = sum_{i < b} c_i x_{t-i} + Z_t`, where `x_t` is the sum of clipped contributions and `Z_t` independent noise of the plan's
/// noise multiplier. A record belongs to one of `b` groups by a coin of its own, once for the whole run, and may be drawn in every `b`-th step
/// alone, with `b` times the rate batch / records.
///
/// # Guarantee
/// Each participation of a record moves `b` releases that no other participation of it moves, by one vector `v` times the coefficients, and `v` is
/// fixed when the first of them is made. So it costs what one step costs whose distances are multiplied by the coefficients' norm `|c|`, and
/// a run costs as many of these as a record has chances to take part: the steps over `b`, rounded up (docs/correlated-noise.md).
#[derive(Debug, Clone, PartialEq)]
pub struct CorrelatedNoise {
    kind: CoefficientKind,
    /// In multiples of `2^-FRACTION`.
    coefficients: Vec<i32>,
    relative_error: f64,
}

/// Successive chances of a record to take part that cost the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Chances {
    /// How far one of them reaches: the norm of what it adds, in those of a contribution, rounded up.
    pub(crate) reach: f64,
    /// How many there are.
    pub(crate) count: u64,
}

impl CorrelatedNoise {
    /// The coefficients of a plan with these steps; `None` if each step has noise of its own.
    pub(crate) fn check(
        spec: &PlanSpec,
        (sampling, masked, clip): (Sampling, Option<MaskedTokens>, Option<ClipQuantile>),
        (batch, records, steps): (u64, u64, u64),
    ) -> Result<Option<Self>, PlanError> {
        let bands = match spec.noise.bands {
            None => return without_bands(spec).map(|()| None),
            Some(Bands::Count(1)) => return Ok(None),
            Some(Bands::Count(bands)) => bands,
            Some(Bands::Auto) => {
                return Err(PlanError::invalid(
                    KEY,
                    "auto chooses among noise multipliers, and one is given",
                    "give privacy.epsilon in place of the noise multiplier, or a number of bands",
                ));
            }
        };
        let most = MOST_BANDS.min(records / batch);
        if !(1..=most).contains(&bands) {
            return Err(PlanError::invalid(
                KEY,
                format!(
                    "{bands} bands: records are dealt out to as many groups, and a step draws {batch} of {records} records from one of them"
                ),
                format!("give from 1 to {most}, or a smaller batch"),
            ));
        }
        let refused = [
            (
                sampling != Sampling::Poisson,
                "sampling other than poisson",
                "a record must be drawn by independent coins in the steps of its group",
            ),
            (
                masked.is_some(),
                "the masked relation",
                "public parts would have to be released with the same coefficients",
            ),
            (
                clip.is_some(),
                "privacy.clip_quantile",
                "the sums of several steps are released together, and the clip norm would change between them",
            ),
        ];
        if let Some((_, with, reason)) = refused.into_iter().find(|(refused, ..)| *refused) {
            return Err(no_theorem(with, reason));
        }
        let iterates = iterates(spec, steps)?;
        let kind = spec.noise.coefficients.unwrap_or_default();
        let bands = bands as usize;
        let exact = match kind {
            CoefficientKind::SquareRoot => banded::square_root(bands),
            CoefficientKind::Optimised => banded::optimised(bands, &iterates),
        };
        let one = f64::from(1u32 << FRACTION);
        let coefficients: Vec<i32> = exact.iter().map(|c| (c * one).round_ties_even() as i32).collect();
        let mut noise = Self { kind, coefficients, relative_error: 1.0 };
        noise.relative_error = banded::relative_error(&noise.coefficients().collect::<Vec<_>>(), &iterates);
        Ok(Some(noise))
    }

    /// The number of bands, at least 2.
    #[must_use]
    pub fn bands(&self) -> usize {
        self.coefficients.len()
    }

    /// How the coefficients were chosen.
    #[must_use]
    pub fn kind(&self) -> CoefficientKind {
        self.kind
    }

    /// The coefficients, exactly.
    pub fn coefficients(&self) -> impl ExactSizeIterator<Item = f64> + '_ {
        let one = f64::from(1u32 << FRACTION);
        self.coefficients.iter().map(move |&c| f64::from(c) / one)
    }

    /// The coefficients as whole numbers, and what these are multiples of.
    #[must_use]
    pub fn whole(&self) -> (&[i32], f64) {
        (&self.coefficients, 1.0 / f64::from(1u32 << FRACTION))
    }

    /// `|c|`, rounded up.
    #[must_use]
    pub fn norm(&self) -> f64 {
        self.reach(self.bands())
    }

    /// The norm of the noise in the iterates over that of independent noise of the same noise multiplier, an estimate.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.relative_error
    }

    /// The norm of the first coefficients, rounded up.
    fn reach(&self, rows: usize) -> f64 {
        let squares: i64 = self.coefficients[..rows].iter().map(|&c| i64::from(c) * i64::from(c)).sum();
        // Whole numbers below 2^53 are exact, and a root is rounded to the nearest.
        let root = (squares as f64).sqrt();
        let root = if root * root == squares as f64 && root.fract() == 0.0 { root } else { root.next_up() };
        root / f64::from(1u32 << FRACTION)
    }

    /// What a record of the first group, which has most chances and is least cut off by the end, may take part in.
    fn chances(&self, steps: u64) -> Vec<Chances> {
        let bands = self.bands() as u64;
        let whole = Chances { reach: self.norm(), count: steps / bands };
        let rest = steps % bands;
        let cut = Chances { reach: self.reach(rest as usize), count: u64::from(rest > 0) };
        [whole, cut].into_iter().filter(|chances| chances.count > 0).collect()
    }
}

/// Refuses what says how noise cancels where none does.
fn without_bands(spec: &PlanSpec) -> Result<(), PlanError> {
    let given = [
        ("noise.coefficients", spec.noise.coefficients.is_some()),
        ("noise.iterates", spec.noise.iterates.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((key, _)) => {
            let problem = "has no meaning where each step has noise of its own";
            Err(PlanError::invalid(key, problem, "leave it out, or give noise.bands"))
        }
    }
}

/// Refuses noise that cancels across the steps of a schedule.
pub(super) fn refuse_phases(spec: &PlanSpec) -> Result<(), PlanError> {
    let reason =
        "the sums of several steps are released together, and noise or rates would change between them";
    match spec.noise.bands {
        None | Some(Bands::Count(1)) => Ok(()),
        Some(_) => Err(no_theorem("phases", reason)),
    }
}

fn no_theorem(with: &str, reason: &'static str) -> PlanError {
    PlanError::NoTheorem {
        combination: format!("{KEY} with {with}"),
        reason,
        hint: "leave noise.bands out, which gives each step noise of its own",
    }
}

/// What the plan's optimiser makes of gradients. Plans that say nothing of learning rates are priced alone, and take sums.
fn iterates(spec: &PlanSpec, steps: u64) -> Result<Iterates, PlanError> {
    let measured = match spec.noise.iterates.unwrap_or_default() {
        NoiseMeasure::Mean => MeasuredAt::AllIterates,
        NoiseMeasure::Last => MeasuredAt::LastIterate,
    };
    let momentum = OptimiserPlan::check(&spec.optimiser)?.rule.momentum();
    let rate =
        spec.optimiser.learning_rate.map(|_| LearningRate::check(&spec.optimiser, steps)).transpose()?;
    // Only ratios of learning rates matter, and the largest may be any number. Cosines differ in their last bits from machine to machine, and
    // coefficients must not.
    let largest = spec.optimiser.learning_rate.unwrap_or(1.0);
    let rate = |step| rate.map_or(1.0, |rate| f64::from((rate.at(step) / largest) as f32));
    Ok(Iterates::new(steps, momentum, measured, rate))
}

impl Plan {
    /// How the noise of different steps cancels; `None` if each step has noise of its own.
    #[must_use]
    pub fn correlated_noise(&self) -> Option<&CorrelatedNoise> {
        self.correlated.as_ref()
    }

    /// Into how many groups records are dealt out, of which each step draws from the next one; 1 if all steps draw from all records.
    #[must_use]
    pub fn groups(&self) -> u64 {
        self.correlated.as_ref().map_or(1, |noise| noise.bands() as u64)
    }

    /// The probability that a step which may draw a given record does.
    #[must_use]
    pub fn rate_in_group(&self) -> f64 {
        match self.groups() {
            1 => self.sample_rate(),
            groups => ((groups * self.batch) as f64 / self.records as f64).min(1.0),
        }
    }

    /// What a record may take part in.
    pub(crate) fn chances(&self) -> Vec<Chances> {
        match &self.correlated {
            None => vec![Chances { reach: 1.0, count: self.steps }],
            Some(noise) => noise.chances(self.steps),
        }
    }
}
