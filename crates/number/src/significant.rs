//! Numbers as people read them.

use crate::scientific;

/// Below this size, and from [`LARGE`] on, a number is written with a power of ten.
const SMALL: f64 = 1e-3;
const LARGE: f64 = 1e6;

/// An integer in superscript digits: `-5` gives `⁻⁵`.
#[must_use]
pub fn superscript(value: i32) -> String {
    value
        .to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            '0' => '⁰',
            '4' => '⁴',
            '5' => '⁵',
            '6' => '⁶',
            '7' => '⁷',
            '8' => '⁸',
            _ => '⁹',
        })
        .collect()
}

/// A number with a fixed count of significant digits, as pretty text: `2.737`, `1.2×10⁻⁵`, `10⁻⁵`, `∞`.
///
/// A power of ten alone drops its factor. At least one digit is always written.
#[must_use]
pub fn pretty(value: f64, digits: usize) -> String {
    match parts(value, digits) {
        Parts::Special(Special::Infinite) => if value > 0.0 { "∞" } else { "−∞" }.to_owned(),
        Parts::Special(Special::NotANumber) => "–".to_owned(),
        Parts::Plain(text) => text.replace('-', "−"),
        Parts::Scientific(factor, exponent) => join_power(&factor, exponent),
    }
}

/// A number as a factor of so many significant digits and a power of ten, whatever its size.
#[must_use]
pub fn power_of_ten(value: f64, digits: usize) -> String {
    let (factor, exponent) = scientific(value, digits.clamp(1, 17));
    join_power(&factor, exponent)
}

fn join_power(factor: &str, exponent: i32) -> String {
    let factor = match factor.split_once('.') {
        Some(_) => factor.trim_end_matches('0').trim_end_matches('.'),
        None => factor,
    };
    match factor {
        "1" => format!("10{}", superscript(exponent)),
        "-1" => format!("−10{}", superscript(exponent)),
        _ => format!("{}×10{}", factor.replace('-', "−"), superscript(exponent)),
    }
}

/// A number with a fixed count of significant digits, in characters that every terminal and parser knows:
/// `2.737`, `1.20e-5`, `inf`, `nan`.
#[must_use]
pub fn plain(value: f64, digits: usize) -> String {
    match parts(value, digits) {
        Parts::Special(Special::Infinite) => if value > 0.0 { "inf" } else { "-inf" }.to_owned(),
        Parts::Special(Special::NotANumber) => "nan".to_owned(),
        Parts::Plain(text) => text,
        Parts::Scientific(factor, exponent) => format!("{factor}e{exponent}"),
    }
}

/// A whole number with commas between groups of three digits from five digits on.
#[must_use]
pub fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", group_digits(&digits))
}

/// Commas between groups of three of a string of digits, when there are at least five.
#[must_use]
pub fn group_digits(digits: &str) -> String {
    if digits.len() < 5 {
        return digits.to_owned();
    }
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

enum Special {
    Infinite,
    NotANumber,
}

enum Parts {
    Special(Special),
    Plain(String),
    Scientific(String, i32),
}

fn parts(value: f64, digits: usize) -> Parts {
    // Seventeen digits tell every f64 apart; more would be noise.
    let digits = digits.clamp(1, 17);
    if value.is_nan() {
        return Parts::Special(Special::NotANumber);
    }
    if value.is_infinite() {
        return Parts::Special(Special::Infinite);
    }
    if value == 0.0 {
        return Parts::Plain("0".to_owned());
    }
    // Rounding to the digits first settles the exponent: 9.999 with two digits is 10.
    let (factor, exponent) = scientific(value, digits);
    let size = 10f64.powi(exponent);
    if !(SMALL..LARGE).contains(&size) {
        return Parts::Scientific(factor, exponent);
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    Parts::Plain(format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn significant_digits_are_kept() {
        for (value, digits, text) in [
            (2.7374, 4, "2.737"),
            (0.192, 4, "0.1920"),
            (9.999, 2, "10"),
            (1e-5, 3, "1.00e-5"),
            (-1234.5, 3, "-1234"),
            (123_456_789.0, 3, "1.23e8"),
            (0.0, 4, "0"),
            (-0.0, 4, "0"),
            (f64::NAN, 4, "nan"),
            (f64::NEG_INFINITY, 4, "-inf"),
            (0.05, 0, "0.05"),
        ] {
            assert_eq!(plain(value, digits), text);
        }
    }

    #[test]
    fn powers_of_ten_are_pretty() {
        assert_eq!(pretty(1e-5, 3), "10⁻⁵");
        assert_eq!(pretty(-1e-5, 3), "−10⁻⁵");
        assert_eq!(pretty(1.25e-15, 3), "1.25×10⁻¹⁵");
        assert_eq!(pretty(5e7, 2), "5×10⁷");
        assert_eq!(pretty(-2.5, 2), "−2.5");
        assert_eq!(pretty(f64::INFINITY, 2), "∞");
        assert_eq!(superscript(-1_234_567_890), "⁻¹²³⁴⁵⁶⁷⁸⁹⁰");
    }

    #[test]
    fn groups_start_at_five_digits() {
        assert_eq!(grouped(9999), "9999");
        assert_eq!(grouped(10_000), "10,000");
        assert_eq!(grouped(-1_234_567), "-1,234,567");
        assert_eq!(grouped(i64::MIN), "-9,223,372,036,854,775,808");
    }
}
