//! The drawn streets at both levels, as the demonstration trains them.

use dapple_plan::PlanSpec;

use super::Level;
use crate::error::Result;

/// The plan of the drawn streets.
pub(crate) const STREETS: &str = include_str!("../../../../examples/plans/street-scenes.toml");

/// The budget of the demonstration, at which the two levels differ so much that a person sees it.
const EPSILON: f64 = 2.0;
/// The learning rate of both levels. For both it is the best of 1/32, 1/16, 1/8, 1/4 and 1/2 over two seeds, trained and judged on streets of other
/// seeds than those of the demonstration (`docs/benchmarks.md`).
const LEARNING_RATE: f64 = 0.0625;
/// Steps between two evaluations.
const EVALUATE_EVERY: u64 = 50;

/// The drawn streets at a level.
///
/// # Errors
/// None in practice, because the plan is part of the program.
pub fn plan(level: Level) -> Result<PlanSpec> {
    let mut spec = PlanSpec::from_toml(STREETS)?;
    spec.privacy.epsilon = Some(EPSILON);
    spec.optimiser.learning_rate = Some(LEARNING_RATE);
    spec.train.evaluate_every = Some(EVALUATE_EVERY);
    Ok(level.of(spec))
}
