//! What a test of a run can reach, as a table.

use dapple_accounting::BracketPrecision;
use serde::Serialize;

use crate::{Plan, PlanError, number};

/// The shares of false alarms that are told.
const FALSE_ALARMS: [f64; 5] = [0.001, 0.01, 0.05, 0.1, 0.5];

/// A point of the trade-off curve (f-DP).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TradeOffPoint {
    /// How often a test says that the data is the neighbour's although it is not.
    pub false_alarms: f64,
    /// How often, at the least, it fails to notice that it is.
    pub misses_at_least: f64,
}

impl Plan {
    /// What tests between neighbouring data sets can reach, at usual shares of false alarms; `None` where only epsilon is bounded, or too large to report.
    ///
    /// # Guarantee
    /// As [`Plan::pld`]: no test of everything that the run releases has fewer misses.
    ///
    /// # Errors
    /// As [`Plan::pld`].
    pub fn trade_off_points(
        &self,
        precision: BracketPrecision,
    ) -> Result<Option<Vec<TradeOffPoint>>, PlanError> {
        let curve = match self.trade_off_curve(precision) {
            Err(PlanError::NoTheorem { .. }) => return Ok(None),
            Err(error) if error.is_too_large() => return Ok(None),
            other => other?,
        };
        let point =
            |false_alarms| TradeOffPoint { false_alarms, misses_at_least: curve.type_two(false_alarms) };
        Ok(Some(FALSE_ALARMS.into_iter().map(point).collect()))
    }
}

impl TradeOffPoint {
    /// Points as a section of a statement.
    #[must_use]
    pub fn section(points: &[Self]) -> String {
        let row = |point: &Self| {
            let [alarms, misses] =
                [number::exact(100.0 * point.false_alarms), number::down(100.0 * point.misses_at_least, 4)];
            format!("| {alarms} % | {misses} % |\n")
        };
        format!(
            "\n## What a test can reach\n\
             Whoever knows all records but what differs, and sees everything that is released, tests which of two neighbouring data sets was used. \
             No test is better than the certified trade-off curve:\n\n\
             | false alarms | misses, at least |\n|---|---|\n{}",
            points.iter().map(row).collect::<String>()
        )
    }
}
