//! Searches for the edge of a monotone condition, from the safe side.

/// Relative distance at which two real candidates count as the same.
const TOLERANCE: f64 = 1e-5;
const MAX_EVALUATIONS: usize = 80;

/// How far a value lies above the target, in logarithms, where epsilon is close to a power of most unknowns.
fn excess(value: f64, target: f64) -> f64 {
    (value.max(f64::MIN_POSITIVE) / target).ln().clamp(-50.0, 50.0)
}

/// The largest whole number in `low..=high` where a rising positive function is at most `target`; `None` where it is above the
/// target even at `low`.
///
/// # Guarantee
/// The function was evaluated at the result and was at most `target` there, whether or not it rises everywhere.
///
/// # Errors
/// The first error of the function.
pub fn largest<E>(
    low: u64,
    high: u64,
    target: f64,
    value: impl FnMut(u64) -> Result<f64, E>,
) -> Result<Option<u64>, E> {
    // Growing steps first: the edge is often near the low end of a wide range.
    largest_from(low, Strides { first: 1, growth: 8 }, (low, high), target, value)
}

/// How a search walks away from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Strides {
    /// The length of the first step.
    pub first: u64,
    /// How many times as long each step is as the one before.
    pub growth: u64,
}

/// The same number as [`largest`] finds, first looked for around `start`.
///
/// # Guarantee
/// As for [`largest`].
///
/// # Errors
/// The first error of the function.
pub fn largest_from<E>(
    start: u64,
    strides: Strides,
    (low, high): (u64, u64),
    target: f64,
    mut value: impl FnMut(u64) -> Result<f64, E>,
) -> Result<Option<u64>, E> {
    let mut at = |n: u64| Ok((n, excess(value(n)?, target)));
    let mut last = at(start)?;
    if low > high {
        return Ok(None);
    }
    let upwards = last.1 <= 0.0;
    let mut stride = strides.first.max(1);
    while last.0 != if upwards { high } else { low } {
        let next = if upwards {
            at(last.0.saturating_add(stride).min(high))?
        } else {
            at(last.0.saturating_sub(stride).max(low))?
        };
        match (upwards, next.1 <= 0.0) {
            (true, false) => return edge(last, next, at).map(Some),
            (false, true) => return edge(next, last, at).map(Some),
            _ => last = next,
        }
        stride = stride.saturating_mul(strides.growth.max(2));
    }
    Ok(upwards.then_some(last.0))
}

/// The smallest whole number in `low..=high` where a falling positive function is at most `target`; `None` where it is above the
/// target even at `high`.
///
/// # Guarantee
/// The function was evaluated at the result and was at most `target` there, whether or not it falls everywhere.
///
/// # Errors
/// The first error of the function.
pub fn smallest<E>(
    low: u64,
    high: u64,
    target: f64,
    mut value: impl FnMut(u64) -> Result<f64, E>,
) -> Result<Option<u64>, E> {
    let mut at = |n: u64| Ok((n, excess(value(n)?, target)));
    let mut bad = at(low)?;
    if bad.1 <= 0.0 {
        return Ok((low <= high).then_some(low));
    }
    let mut step = 1u64;
    while bad.0 < high {
        let next = at(bad.0.saturating_add(step).min(high))?;
        if next.1 <= 0.0 {
            return edge(next, bad, at).map(Some);
        }
        bad = next;
        step = step.saturating_mul(8);
    }
    Ok(None)
}

/// The good neighbour of the edge between a good and a bad number, by secants that fall back to halving.
fn edge<E>(
    mut good: (u64, f64),
    mut bad: (u64, f64),
    mut at: impl FnMut(u64) -> Result<(u64, f64), E>,
) -> Result<u64, E> {
    let mut halve = false;
    while good.0.abs_diff(bad.0) > 1 {
        let (low, high) = (good.0.min(bad.0), good.0.max(bad.0));
        let middle = low + (high - low) / 2;
        let share = good.1 / (good.1 - bad.1);
        let (a, b) = ((good.0 as f64 + 1.0).ln(), (bad.0 as f64 + 1.0).ln());
        let secant = (a + (b - a) * share).exp() - 1.0;
        let next = if halve || !secant.is_finite() { middle } else { secant.round() as u64 };
        let next = at(next.clamp(low + 1, high - 1))?;
        if next.1 <= 0.0 {
            good = next;
        } else {
            bad = next;
        }
        halve = good.0.abs_diff(bad.0) > (high - low) / 2;
    }
    Ok(good.0)
}

/// The smallest number in `[low, high]` where a falling positive function is at most `target`, found to one part in
/// 100,000; `None` where it is above the target even at `high`.
///
/// # Guarantee
/// The function was evaluated at the result and was at most `target` there.
///
/// # Errors
/// The first error of the function.
pub fn smallest_real<E>(
    low: f64,
    high: f64,
    target: f64,
    value: impl FnMut(f64) -> Result<f64, E>,
) -> Result<Option<f64>, E> {
    smallest_real_from(1.0, 4.0, (low, high), target, value)
}

/// The same number as [`smallest_real`] finds, first looked for around `start` in steps of the given factor.
///
/// # Guarantee
/// As for [`smallest_real`].
///
/// # Errors
/// The first error of the function.
pub fn smallest_real_from<E>(
    start: f64,
    factor: f64,
    (low, high): (f64, f64),
    target: f64,
    mut value: impl FnMut(f64) -> Result<f64, E>,
) -> Result<Option<f64>, E> {
    let excess = |value: f64| excess(value, target);
    let start = start.clamp(low, high);
    // Where the edge is not near after all, steps grow.
    let mut stride = factor;
    let first = excess(value(start)?);
    let (mut above, mut below);
    if first <= 0.0 {
        below = (start, first);
        above = None;
        let mut x = start;
        while x > low {
            x = (x / stride).max(low);
            stride = (stride * stride).min(4.0).max(factor);
            let e = excess(value(x)?);
            if e > 0.0 {
                above = Some((x, e));
                break;
            }
            below = (x, e);
        }
    } else {
        above = Some((start, first));
        let mut found = None;
        let mut x = start;
        while x < high {
            x = (x * stride).min(high);
            stride = (stride * stride).min(4.0).max(factor);
            let e = excess(value(x)?);
            if e <= 0.0 {
                found = Some((x, e));
                break;
            }
            above = Some((x, e));
        }
        let Some(found) = found else { return Ok(None) };
        below = found;
    }
    let Some(mut above) = above else { return Ok(Some(below.0)) };
    let mut halve = false;
    for _ in 0..MAX_EVALUATIONS {
        let (a, b) = (above.0.ln(), below.0.ln());
        if b - a <= TOLERANCE {
            break;
        }
        let straight = a + (b - a) * above.1 / (above.1 - below.1);
        // A secant that gains little is followed by a halving; and the secant aims just below the target.
        let aim = if halve || !straight.is_finite() { 0.5 * (a + b) } else { straight + 0.25 * TOLERANCE };
        let x = aim.clamp(a + 0.2 * TOLERANCE, b - 0.2 * TOLERANCE).exp();
        let e = excess(value(x)?);
        if e <= 0.0 {
            below = (x, e);
        } else {
            above = (x, e);
        }
        halve = below.0.ln() - above.0.ln() > 0.5 * (b - a);
    }
    Ok(Some(below.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    proptest! {
        #[test]
        fn the_edge_is_found(low in 0u64..100, span in 0u64..1_000_000, edge in 0u64..1_000_200) {
            // A power that reaches the target between `edge` and the number after it.
            let rising = |n: u64| Ok::<_, Infallible>(((n as f64 + 1.0) / (edge as f64 + 1.5)).powf(0.7));
            let high = low + span;
            let expected = if edge < low { None } else { Some(edge.min(high)) };
            prop_assert_eq!(largest(low, high, 1.0, rising).unwrap(), expected);
            let expected = if edge >= high { None } else { Some((edge + 1).max(low)) };
            prop_assert_eq!(smallest(low, high, 1.0, |n| Ok::<_, Infallible>(1.0 / rising(n)?)).unwrap(), expected);
            let strides = Strides { first: 1 + span / 200, growth: 2 };
            let expected = if edge < low { None } else { Some(edge.min(high)) };
            for start in [low, high, low + span / 3] {
                prop_assert_eq!(largest_from(start, strides, (low, high), 1.0, rising).unwrap(), expected);
            }
            let jump = |n: u64| Ok::<_, Infallible>(if n <= edge { 0.0 } else { f64::INFINITY });
            prop_assert_eq!(largest(0, 2_000_000, 1.0, jump).unwrap(), Some(edge));
        }

        #[test]
        fn the_root_is_found_from_the_safe_side(root in 0.06f64..9e3, power in 0.3f64..4.0, kink in 0.0f64..20.0) {
            let f = |x: f64| (root / x).powf(power) * (1.0 + if x < root { kink } else { 0.0 });
            let mut count = 0;
            let found = smallest_real(0.05, 1e4, 1.0, |x| {
                count += 1;
                Ok::<_, Infallible>(f(x))
            });
            let found = found.unwrap().unwrap();
            prop_assert!(f(found) <= 1.0 && found <= root * (1.0 + 2.0 * TOLERANCE), "{} {}", found, root);
            prop_assert!(count < 60, "{count}");
        }
    }

    #[test]
    fn ends_of_the_range() {
        let constant = |value: f64| move |_: f64| Ok::<_, Infallible>(value);
        assert_eq!(smallest_real(0.05, 1e4, 1.0, constant(2.0)).unwrap(), None);
        assert_eq!(smallest_real(0.05, 1e4, 1.0, constant(0.5)).unwrap(), Some(0.05));
        assert_eq!(smallest_real(0.05, 1e4, 1.0, constant(0.0)).unwrap(), Some(0.05));
        let jump = |x: f64| Ok::<_, Infallible>(if x < 3.0 { f64::INFINITY } else { 0.5 });
        let found = smallest_real(0.05, 1e4, 1.0, jump).unwrap().unwrap();
        assert!((3.0..3.0001).contains(&found));
    }
}
