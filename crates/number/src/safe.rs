//! Numbers rounded to the safe side.

use crate::{exact, scientific};

/// A number with so many significant digits that is never below `value`: for upper bounds.
#[must_use]
pub fn up(value: f64, digits: usize) -> String {
    directed(value, digits, |shown| shown >= value, 1)
}

/// A number with so many significant digits that is never above `value`: for lower bounds.
#[must_use]
pub fn down(value: f64, digits: usize) -> String {
    directed(value, digits, |shown| shown <= value, -1)
}

/// A number in full where that is short, and otherwise rounded up to four digits.
#[must_use]
pub fn brief(value: f64) -> String {
    let full = exact(value);
    if full.len() <= 6 { full } else { up(value, 4) }
}

/// Rounds to `digits`, and moves the last digit by `step` where the nearest number lies on the wrong side.
fn directed(value: f64, digits: usize, safe: impl Fn(f64) -> bool, step: i64) -> String {
    let digits = digits.clamp(1, 15);
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let (factor, exponent) = scientific(value, digits);
    let Ok(whole) = factor.replace('.', "").parse::<i64>() else { return format!("{value:e}") };
    // value is about whole * 10^scale
    let scale = exponent - (digits as i32 - 1);
    let nearest = write(whole, scale, digits);
    if nearest.parse::<f64>().is_ok_and(safe) {
        return nearest;
    }
    let first = 10i64.pow(digits as u32 - 1);
    let moved = whole + step;
    if moved.abs() < first {
        // Below a power of ten the digits are finer: 1.000 goes down to 0.9999.
        write(whole * 10 + step, scale - 1, digits)
    } else if moved.abs() >= 10 * first {
        write(moved / 10, scale + 1, digits)
    } else {
        write(moved, scale, digits)
    }
}

/// `whole * 10^scale`, without a power of ten where that reads well.
fn write(whole: i64, scale: i32, digits: usize) -> String {
    let size = scale + digits as i32;
    let sign = if whole < 0 { "-" } else { "" };
    let figures = whole.unsigned_abs().to_string();
    if !(-3..=9).contains(&size) {
        let exponent = scale + figures.len() as i32 - 1;
        let (first, rest) = figures.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}e{exponent}");
    }
    if scale >= 0 {
        return format!("{sign}{figures}{}", "0".repeat(scale.unsigned_abs() as usize));
    }
    let decimals = scale.unsigned_abs() as usize;
    let padded = format!("{figures:0>width$}", width = decimals + 1);
    let (integer, fraction) = padded.split_at(padded.len() - decimals);
    format!("{sign}{integer}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_rounded_to_their_side() {
        for (value, above, below) in [
            (0.19196, "0.1920", "0.1919"),
            (2.73740001, "2.738", "2.737"),
            (9.9999, "10.00", "9.999"),
            (97.71, "97.71", "97.71"),
            (1e-5, "1.000e-5", "1.000e-5"),
            (0.000450595, "0.0004506", "0.0004505"),
            (12345.6, "12350", "12340"),
            (1.0, "1.000", "1.000"),
            (9.99999e-7, "1.000e-6", "9.999e-7"),
        ] {
            assert_eq!(up(value, 4), above);
            assert_eq!(down(value, 4), below);
        }
        assert_eq!(up(0.0, 4), "0");
        assert_eq!([brief(2.0), brief(0.125), brief(0.5f64.sqrt())], ["2", "0.125", "0.7072"]);
    }

    proptest! {
        #[test]
        fn never_on_the_wrong_side(mantissa in 1.0f64..10.0, exponent in -20i32..20, digits in 1usize..9) {
            let value = mantissa * 10f64.powi(exponent);
            let (above, below) = (up(value, digits).parse::<f64>().unwrap(), down(value, digits).parse::<f64>().unwrap());
            prop_assert!(below <= value && value <= above);
            // One unit of the last digit apart at most, and a little for reading decimals back.
            prop_assert!(above - below <= value * 10f64.powi(1 - digits as i32) * 1.000_001);
        }
    }
}
