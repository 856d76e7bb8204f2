//! Epsilon between two ends.

use dapple_accounting::Bracket;
use serde::{Deserialize, Serialize};

/// Epsilon as the accountant knows it. Only `upper` is a guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EpsilonBracket {
    /// Never above the exact epsilon of the mechanism's dominating pair; `None` where the accountant only bounds from above.
    pub lower: Option<f64>,
    /// Never below it.
    pub upper: f64,
}

impl EpsilonBracket {
    /// That of a run which releases nothing.
    pub const ZERO: Self = Self { lower: Some(0.0), upper: 0.0 };

    /// A bound from above alone.
    #[must_use]
    pub fn above(upper: f64) -> Self {
        Self { lower: None, upper }
    }
}

impl From<Bracket> for EpsilonBracket {
    fn from(Bracket { lower, upper }: Bracket) -> Self {
        Self { lower: Some(lower), upper }
    }
}
