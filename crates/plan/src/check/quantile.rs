//! A clip norm that follows a quantile of the gradients' norms.

use crate::error::PlanError;
use crate::spec::Privacy;
use crate::{Averaged, Plan, Relation, Split};

/// How fast the clip norm follows unless told otherwise, as Andrew et al. have it.
const RATE: f64 = 0.2;
/// Faster than this, one count moves the clip norm by orders of magnitude.
const MOST_RATE: f64 = 10.0;
/// Records of an expected batch for one standard deviation of noise on the count unless told otherwise, likewise.
const RECORDS_PER_DEVIATION: f64 = 20.0;
/// Noise on the count that tells nothing any more, whatever the batch.
const MOST_COUNT_NOISE: f64 = 1e9;
/// The count may take so much of what the noise multiplier allows that the gradients have ten times its noise.
const MOST_SHARE: f64 = 0.99;
/// More than double precision rounds off the noise of the gradients: the two shares add up to no more than one.
const SLACK: f64 = 1e-12;

/// How the clip norm follows the norms of gradients (Andrew et al. 2021).
///
/// With `b = 1` for each record drawn whose gradient is not longer than the clip norm `C`, and else `b = 0`, a step also releases
/// `sum (b - 1/2) + N(0, s^2)`. This over the expected batch, plus one half, estimates the share of gradients within `C`, and the next step has
/// `C exp(-rate (share - quantile))`.
///
/// # Guarantee
/// A record adds `g` with `|g| <= C` to the sum and `b - 1/2`, of size 1/2, to the count. In standard deviations of the noise, `z_g C`
/// and `s`, that is one vector of norm at most `sqrt(1 / z_g^2 + 1 / (2 s)^2)`, which is `1 / z` for the plan's noise multiplier `z`
/// (Theorem 1 of Andrew et al.). So a step is the Gaussian mechanism of noise multiplier `z` on one vector for each record, and is priced
/// as such, whatever `C` is; and `C` follows from what was released before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClipQuantile {
    quantile: f64,
    rate: f64,
    /// `s`, where given.
    count_noise: Option<f64>,
}

impl ClipQuantile {
    pub(crate) fn check(
        spec: &Privacy,
        relation: Relation,
        averaged: Averaged,
        split: Option<&Split>,
    ) -> Result<Option<Self>, PlanError> {
        let Some(quantile) = spec.clip_quantile else {
            let given = [
                ("privacy.clip_rate", spec.clip_rate.is_some()),
                ("privacy.count_noise", spec.count_noise.is_some()),
            ];
            return match given.into_iter().find(|(_, given)| *given) {
                None => Ok(None),
                Some((key, _)) => Err(PlanError::invalid(
                    key,
                    "has no meaning for a fixed clip norm",
                    "leave it out, or give privacy.clip_quantile",
                )),
            };
        };
        let within = |key, value: f64, inside: bool, range: &str| match inside {
            true => Ok(value),
            false => Err(PlanError::invalid(
                key,
                format!("{value} is not in {range}"),
                format!("give a number in {range}"),
            )),
        };
        let quantile = within("privacy.clip_quantile", quantile, quantile > 0.0 && quantile < 1.0, "(0, 1)")?;
        let rate = spec.clip_rate.unwrap_or(RATE);
        let rate = within("privacy.clip_rate", rate, rate > 0.0 && rate <= MOST_RATE, "(0, 10]")?;
        if let Some(noise) = spec.count_noise {
            within("privacy.count_noise", noise, noise > 0.0 && noise <= MOST_COUNT_NOISE, "(0, 1e9]")?;
        }
        let refused = [
            (
                relation == Relation::Masked,
                "privacy.clip_quantile under the masked relation",
                "private and public tokens of a record are bounded apart, and the count is priced for one bound",
            ),
            (
                averaged.shares_clip(),
                "privacy.clip_quantile with microbatches",
                "records are clipped together there, and the count is priced for records that are clipped one by one",
            ),
            (
                split.is_some(),
                "privacy.clip_quantile with submodels",
                "the parts of a split model are clipped apart, and the count is priced for one bound",
            ),
        ];
        match refused.into_iter().find(|(refused, ..)| *refused) {
            None => Ok(Some(Self { quantile, rate, count_noise: spec.count_noise })),
            Some((_, combination, reason)) => Err(PlanError::NoTheorem {
                combination: combination.to_owned(),
                reason,
                hint: "leave privacy.clip_quantile out, which fixes the clip norm",
            }),
        }
    }

    /// The share of gradients that the clip norm is to leave as they are.
    #[must_use]
    pub fn quantile(self) -> f64 {
        self.quantile
    }

    /// How fast the clip norm follows.
    #[must_use]
    pub fn rate(self) -> f64 {
        self.rate
    }
}

impl Plan {
    /// How the clip norm follows the gradients; none where it is fixed.
    #[must_use]
    pub fn clip_quantile(&self) -> Option<ClipQuantile> {
        self.clip_quantile
    }

    /// `s`: standard deviation of the noise on the number of records within the clip norm; none where none is released. Unless given it
    /// is a twentieth of the batch, and at least the noise multiplier, which leaves the gradients less than 1.16 times its noise.
    #[must_use]
    pub fn count_noise(&self) -> Option<f64> {
        let most = (self.batch as f64 / RECORDS_PER_DEVIATION).max(self.noise_multiplier);
        self.clip_quantile.map(|clip| clip.count_noise.unwrap_or(most))
    }

    /// `z_g`: standard deviation of the noise on the sum of clipped gradients, in clip norms. It is the noise multiplier, and more where a count is
    /// released beside the sum.
    ///
    /// # Guarantee
    /// `1 / z_g^2 + 1 / (2 s)^2 <= 1 / z^2`, exactly: rounding is to the safe side.
    #[must_use]
    pub fn gradient_noise(&self) -> f64 {
        let z = self.noise_multiplier;
        self.count_noise().map_or(z, |s| {
            // (z^-2 - (2 s)^-2)^(-1/2), without taking one small number from another.
            let ratio = z / (2.0 * s);
            z / ((1.0 - ratio) * (1.0 + ratio)).sqrt() * (1.0 + SLACK)
        })
    }

    /// Refuses a count with so little noise that too little of the noise multiplier is left for the gradients.
    pub(crate) fn check_count_noise(&self) -> Result<(), PlanError> {
        let z = self.noise_multiplier;
        match self.count_noise() {
            Some(s) if (z / (2.0 * s)).powi(2) > MOST_SHARE => Err(PlanError::invalid(
                "privacy.count_noise",
                format!(
                    "noise of {s} on the count leaves too little of the noise multiplier {z} for the gradients"
                ),
                format!("give {z} or more, or leave it out"),
            )),
            _ => Ok(()),
        }
    }
}
