//! Solving for the unknown: how much noise, how many steps, how large a crop.

use crate::bracket::Bracket;
use crate::error::{AccountingError, Result};
use crate::limits;
use crate::pld::{Pld, Precision};

/// The guarantee to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// The largest epsilon allowed.
    pub epsilon: f64,
    /// At this delta.
    pub delta: f64,
}

impl Target {
    fn check(self) -> Result<Self> {
        limits::epsilon(self.epsilon)?;
        limits::delta(self.delta)?;
        if self.epsilon == 0.0 {
            return Err(AccountingError::OutOfRange { name: "epsilon", value: 0.0, range: "(0, 10000]" });
        }
        Ok(self)
    }
}

/// A solved unknown with the epsilon it reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Solved<T> {
    /// The value on the safe side.
    pub value: T,
    /// What it reaches: the upper end is at most the target.
    pub epsilon: Bracket,
}

/// Relative distance within which a real unknown is solved for.
const TOLERANCE: f64 = 1e-5;

/// The upper end of epsilon, infinite where the accountant finds no bound below its limit.
fn upper(pld: &Pld, delta: f64, precision: Precision) -> Result<f64> {
    match pld.epsilon_upper(delta, precision) {
        Err(AccountingError::EpsilonTooLarge { .. }) => Ok(f64::INFINITY),
        other => other,
    }
}

/// The smallest `x` in `range` whose mechanism reaches the target, for a family in which epsilon falls as `x` grows
/// (a noise multiplier).
///
/// # Guarantee
/// The epsilon of the returned value never exceeds the target: the safe end of the last interval is returned.
///
/// # Errors
/// A target out of range, an error of the family, or [`AccountingError::Unreachable`].
pub fn smallest(
    unknown: &'static str,
    range: (f64, f64),
    target: Target,
    precision: Precision,
    family: impl Fn(f64) -> Result<Pld>,
) -> Result<Solved<f64>> {
    let target = target.check()?;
    let excess = |x: f64| -> Result<f64> {
        // ln(epsilon / target) is nearly linear in ln x.
        Ok((upper(&family(x)?, target.delta, precision)? / target.epsilon).max(1e-12).ln())
    };
    // Grow an interval [low, high] with excess(low) > 0 >= excess(high) around 1.
    let mut high = 1.0_f64.clamp(range.0, range.1);
    let mut high_excess = excess(high)?;
    let (mut low, mut low_excess) = (high, high_excess);
    while high_excess > 0.0 {
        if high >= range.1 {
            let (low, high) = range;
            return Err(AccountingError::Unreachable { unknown, low, high, epsilon: target.epsilon });
        }
        (low, low_excess) = (high, high_excess);
        high = (2.0 * high).min(range.1);
        high_excess = excess(high)?;
    }
    while low_excess <= 0.0 {
        if low <= range.0 {
            return finish(low, target, precision, family(low)?);
        }
        (high, high_excess) = (low, low_excess);
        low = (0.5 * low).max(range.0);
        low_excess = excess(low)?;
    }
    // Regula falsi in logarithms with the Illinois weighting, which keeps both ends.
    let mut weights = (low_excess, high_excess);
    while high / low > 1.0 + TOLERANCE {
        let share = if weights.0.is_finite() { weights.0 / (weights.0 - weights.1) } else { 0.5 };
        let width = (high / low).ln();
        let margin = 0.3 * TOLERANCE;
        let step = (share * width).clamp(margin.min(0.5 * width), (width - margin).max(0.5 * width));
        let x = low * step.exp();
        let value = excess(x)?;
        if value > 0.0 {
            low = x;
            weights = (value, 0.5 * weights.1);
        } else {
            high = x;
            weights = (0.5 * weights.0, value);
        }
    }
    finish(high, target, precision, family(high)?)
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
    target: Target,
    precision: Precision,
    family: impl Fn(u64) -> Result<Pld>,
) -> Result<Solved<u64>> {
    let target = target.check()?;
    let reaches =
        |n: u64| -> Result<bool> { Ok(upper(&family(n)?, target.delta, precision)? <= target.epsilon) };
    let (mut low, last) = range;
    if !reaches(low)? {
        let (low, high) = (low as f64, last as f64);
        return Err(AccountingError::Unreachable { unknown, low, high, epsilon: target.epsilon });
    }
    // Doubling, then bisection: low always reaches the target, high never does.
    let mut high = low;
    loop {
        if high >= last {
            high = last + 1;
            break;
        }
        high = high.saturating_mul(2).max(1).min(last);
        if !reaches(high)? {
            break;
        }
        low = high;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if reaches(middle)? { low = middle } else { high = middle }
    }
    finish(low, target, precision, family(low)?)
}

fn finish<T>(value: T, target: Target, precision: Precision, pld: Pld) -> Result<Solved<T>> {
    Ok(Solved { value, epsilon: pld.epsilon(target.delta, precision)? })
}
