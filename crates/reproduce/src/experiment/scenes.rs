//! The embedded scenes at both levels, as the demonstration and Figure 13 of the patch-level paper train them.

use dapple_plan::PlanSpec;

use super::Level;
use crate::error::Result;

/// The plan of the embedded scenes.
const SCENES: &str = include_str!("../../../../examples/plans/fashion-scenes.toml");

/// Learning rates for the embedded scenes by epsilon, at record and at patch level. Each is the best power of two on a thousand
/// further scenes of the training garments; more noise wants smaller steps.
const LEARNING_RATES: [(f64, [f64; 2]); 4] =
    [(1.0, [0.5, 2.0]), (2.0, [1.0, 2.0]), (5.0, [2.0, 4.0]), (10.0, [2.0, 4.0])];

/// The levels that the embedded scenes are trained at.
pub const LEVELS: [Level; 2] = [Level::Record, Level::Patch];

/// Epsilons at which the embedded scenes have learning rates.
pub fn epsilons() -> impl Iterator<Item = f64> {
    LEARNING_RATES.iter().map(|(epsilon, _)| *epsilon)
}

/// The embedded scenes at a level, for an epsilon of [`epsilons`] or the plan's own.
pub fn plan(level: Level, epsilon: Option<f64>) -> Result<PlanSpec> {
    let mut spec = PlanSpec::from_toml(SCENES)?;
    spec.privacy.epsilon = epsilon.or(spec.privacy.epsilon);
    let known = LEARNING_RATES.iter().find(|(known, _)| spec.privacy.epsilon == Some(*known));
    if let Some((_, [record, patch])) = known {
        spec.optimiser.learning_rate = Some(match level {
            Level::Record => *record,
            Level::Patch | Level::Tokens => *patch,
        });
    }
    Ok(level.of(spec))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_plan::{Plan, Relation};

    #[test]
    fn both_levels_differ_only_in_what_they_protect() {
        let [record, patch] = LEVELS.map(|level| {
            let mut spec = plan(level, None).unwrap();
            spec.privacy.noise_multiplier = Some(1.0);
            Plan::check(&spec).unwrap()
        });
        assert_eq!(record.at_relation(Relation::Replace).sample_rate(), patch.sample_rate());
        assert_eq!((record.steps(), record.batch()), (patch.steps(), patch.batch()));
        assert_eq!(record.inclusion_probability(), 1.0);
        // 39 of 97 places along each side.
        assert!((patch.inclusion_probability() - (39.0_f64 / 97.0).powi(2)).abs() < 1e-9);
    }

    #[test]
    fn the_plan_of_the_scenes_has_the_learning_rate_that_was_chosen() {
        assert_eq!(plan(Level::Patch, None).unwrap(), PlanSpec::from_toml(SCENES).unwrap());
    }
}
