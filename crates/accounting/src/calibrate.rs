//! Solving for the unknown: how much noise, how many steps, how large a crop.

use crate::bracket::Bracket;
use crate::error::{AccountingError, Result};
use crate::limits;
use crate::pld::{BracketPrecision, Pld};
use crate::search;

/// The guarantee to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrivacyTarget {
    /// The largest epsilon allowed.
    pub epsilon: f64,
    /// The delta at which it is asked for.
    pub delta: f64,
}

impl PrivacyTarget {
    fn check(self) -> Result<Self> {
        limits::epsilon(self.epsilon)?;
        limits::delta(self.delta)?;
        if self.epsilon == 0.0 {
            return Err(AccountingError::OutOfRange { name: "epsilon", value: 0.0, range: "(0, 10000]" });
        }
        Ok(self)
    }
}

/// A value that was solved for, with the epsilon that it reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibratedValue<T> {
    /// The value on the safe side.
    pub value: T,
    /// The epsilon that it reaches; the upper end is at most the target.
    pub epsilon: Bracket,
}

/// The upper end of epsilon, infinite where the accountant finds no bound below its limit.
fn upper(pld: &Pld, delta: f64, precision: BracketPrecision) -> Result<f64> {
    match pld.epsilon_upper(delta, precision) {
        Err(AccountingError::EpsilonTooLarge { .. }) => Ok(f64::INFINITY),
        other => other,
    }
}

/// The smallest `x` in `range` whose mechanism reaches the target, for a family in which epsilon falls as `x` grows
/// (a noise multiplier).
///
/// # Guarantee
/// The epsilon of the returned value never exceeds the target: it was evaluated there.
///
/// # Errors
/// A target out of range, an error of the family, or [`AccountingError::Unreachable`].
pub fn smallest(
    unknown: &'static str,
    range: (f64, f64),
    target: PrivacyTarget,
    precision: BracketPrecision,
    family: impl Fn(f64) -> Result<Pld>,
) -> Result<CalibratedValue<f64>> {
    let PrivacyTarget { epsilon, delta } = target.check()?;
    let (low, high) = range;
    let value = search::smallest_real(low, high, epsilon, |x| upper(&family(x)?, delta, precision))?
        .ok_or(AccountingError::Unreachable { unknown, low, high, epsilon })?;
    Ok(CalibratedValue { value, epsilon: family(value)?.epsilon(delta, precision)? })
}

/// The largest integer in `range` whose mechanism reaches the target, for a family in which epsilon grows with it
/// (steps, batch, crop or patch sizes).
///
/// # Guarantee
/// As for [`smallest`].
///
/// # Errors
/// As for [`smallest`]; `Unreachable` where even the smallest value exceeds the target.
pub fn largest_integer(
    unknown: &'static str,
    range: (u64, u64),
    target: PrivacyTarget,
    precision: BracketPrecision,
    family: impl Fn(u64) -> Result<Pld>,
) -> Result<CalibratedValue<u64>> {
    let PrivacyTarget { epsilon, delta } = target.check()?;
    let (low, high) = range;
    let value = search::largest(low, high, epsilon, |n| upper(&family(n)?, delta, precision))?
        .ok_or(AccountingError::Unreachable { unknown, low: low as f64, high: high as f64, epsilon })?;
    Ok(CalibratedValue { value, epsilon: family(value)?.epsilon(delta, precision)? })
}
