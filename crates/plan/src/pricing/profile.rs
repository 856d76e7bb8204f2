//! The privacy profile of a plan: delta as a function of epsilon.

use dapple_accounting::{Bracket, BracketPrecision};
use serde::Serialize;

use crate::spec::{Accountant, Delta};
use crate::{Plan, PlanError, PlanSpec};

/// Number of points of a profile if none are asked for.
const DEFAULT_POINTS: usize = 41;
/// The delta that sets the default range if the plan has none. The profile itself does not depend on it.
const DEFAULT_DELTA: f64 = 1e-5;

/// A point of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProfilePoint {
    /// Where the profile is evaluated.
    pub epsilon: f64,
    /// The guarantee: never below the exact delta.
    pub delta: f64,
    /// Never above the exact delta.
    pub delta_lower: f64,
}

impl PlanSpec {
    /// The same plan, with a delta if it has none. A profile is over all deltas, but a plan is checked with one.
    #[must_use]
    pub fn for_profile(mut self) -> Self {
        self.privacy.delta = self.privacy.delta.or(Some(Delta::Value(DEFAULT_DELTA)));
        self
    }
}

impl Plan {
    /// Delta at each of the epsilons, or at 41 epsilons up to twice the plan's own if none are given.
    ///
    /// # Guarantee
    /// The run is (`epsilon`, `delta`)-private at every point.
    ///
    /// # Errors
    /// A plan whose accountant has no distribution of losses, or an epsilon out of range.
    pub fn profile(
        &self,
        epsilons: Option<Vec<f64>>,
        precision: BracketPrecision,
    ) -> Result<Vec<ProfilePoint>, PlanError> {
        if self.accountant() != Accountant::Pld {
            return Err(PlanError::invalid(
                "privacy.accountant",
                "a profile needs privacy-loss distributions",
                "leave --accountant out, or use --accountant pld",
            ));
        }
        let epsilons = match epsilons {
            Some(epsilons) => epsilons,
            None => default_epsilons(self.epsilon(precision)?.upper),
        };
        let deltas = self.pld()?.profile(&epsilons, precision)?;
        let point = |(epsilon, delta): (f64, Bracket)| ProfilePoint {
            epsilon,
            delta: delta.upper,
            delta_lower: delta.least(),
        };
        Ok(epsilons.into_iter().zip(deltas).map(point).collect())
    }
}

fn default_epsilons(epsilon: f64) -> Vec<f64> {
    let top = 2.0 * epsilon.max(1e-6);
    (0..DEFAULT_POINTS).map(|i| top * i as f64 / (DEFAULT_POINTS - 1) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_meets_the_certificate_and_needs_no_delta() {
        let text = "privacy.noise_multiplier = 1.0\nsampling = { batch = 100, records = 3000, epochs = 10 }";
        let spec = PlanSpec::from_toml(text).unwrap().for_profile();
        let plan = Plan::check(&spec).unwrap();
        let points = plan.profile(None, BracketPrecision::default()).unwrap();
        assert_eq!(points.len(), DEFAULT_POINTS);
        assert_eq!(points[0].epsilon, 0.0);
        assert!(
            points.windows(2).all(|pair| pair[0].epsilon < pair[1].epsilon && pair[0].delta >= pair[1].delta)
        );
        // The middle of the range is the plan's own epsilon, at which the exact delta is at most the plan's.
        let middle = points[DEFAULT_POINTS / 2];
        let own = plan.epsilon(BracketPrecision::default()).unwrap().upper;
        assert!(
            (middle.epsilon / own - 1.0).abs() < 1e-15,
            "but for the rounding of a product and a quotient"
        );
        assert!(middle.delta_lower <= DEFAULT_DELTA);
    }

    #[test]
    fn renyi_bounds_have_no_profile() {
        let text = "privacy = { noise_multiplier = 1.0, accountant = 'rdp' }\nsampling = { batch = 1, records = 9, steps = 1 }";
        let plan = Plan::check(&PlanSpec::from_toml(text).unwrap().for_profile()).unwrap();
        assert!(matches!(plan.profile(None, BracketPrecision::default()), Err(PlanError::Invalid { .. })));
    }
}
