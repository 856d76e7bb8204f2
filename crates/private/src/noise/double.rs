//! Numbers of twice the precision: pairs of `f64` whose sum is the value (Dekker 1971), with about 104 significant bits.
//!
//! They settle the coordinates of the noise that plain `f64` cannot round with certainty. Those are few, so this is written to be short
//! and easy to check rather than fast.

use std::ops::{Add, Mul, Neg, Sub};

/// `high + low`, with `low` at most half a unit in the last place of `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Double {
    high: f64,
    low: f64,
}

const LN_2: Double = Double { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };
const HALF_PI: Double = Double { high: std::f64::consts::FRAC_PI_2, low: 6.123_233_995_736_766e-17 };

impl Double {
    /// Adds two numbers of any size without error (Knuth's two-sum).
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let part = high - a;
        Self { high, low: (a - (high - part)) + (b - part) }
    }

    /// The fraction `0.words` in base 2^64 plus half a unit of the last word. The only error is that of rounding to 106 bits.
    pub(super) fn fraction(words: [u64; 3]) -> Self {
        let halves = words.into_iter().flat_map(|word| [word >> 32, word & 0xffff_ffff]);
        let mut unit = 1.0;
        let mut value = Self::from(0.0);
        for half in halves {
            unit /= (1u64 << 32) as f64;
            value = value + Self::from(half as f64 * unit);
        }
        value + Self::from(unit / 2.0)
    }

    /// The nearest whole number. An exact half-integer may go to either side.
    pub(super) fn round(self) -> f64 {
        let whole = self.high.round_ties_even();
        // `low` matters only if `high` is a half-integer; otherwise the nearest half-integer is farther away than `low` reaches.
        match self.high - whole {
            0.5 if self.low > 0.0 => whole + 1.0,
            -0.5 if self.low < 0.0 => whole - 1.0,
            _ => whole,
        }
    }

    fn over(self, divisor: f64) -> Self {
        let quotient = self.high / divisor;
        let rest = (-quotient).mul_add(divisor, self.high) + self.low;
        Self::sum(quotient, rest / divisor)
    }

    pub(super) fn sqrt(self) -> Self {
        if self.high <= 0.0 {
            return Self::from(0.0);
        }
        let root = self.high.sqrt();
        let rest = self - Self::from(root) * Self::from(root);
        Self::sum(root, rest.high / (2.0 * root))
    }

    /// `e^self`, for values between -700 and 700.
    fn exp(self) -> Self {
        let twos = (self.high / LN_2.high).round_ties_even();
        let small = self - LN_2 * Self::from(twos);
        // |small| <= 0.35, and 0.35^29 / 29! < 2^-143.
        let series = (1..=28)
            .rev()
            .fold(Self::from(1.0), |rest, n| (rest * small).over(f64::from(n)) + Self::from(1.0));
        series * Self::from(f64::from_bits(((1023 + twos as i64) as u64) << 52))
    }

    /// The natural logarithm of a positive value, to 2^-98 of itself or of one, whichever is larger.
    pub(super) fn ln(self) -> Self {
        let guess = Self::from(self.high.ln());
        // self = e^guess (1 + w) with |w| below 2^-40, so ln(1 + w) needs three terms.
        let w = self * (-guess).exp() - Self::from(1.0);
        guess + w - (w * w).over(2.0) + (w * w * w).over(3.0)
    }

    /// Cosine and sine of an angle of `self` quarter turns, which must be at most half a quarter turn either way.
    pub(super) fn cos_sin_quarter_turns(self) -> (Self, Self) {
        let angle = self * HALF_PI;
        let square = -(angle * angle);
        // |angle| <= pi / 4, and (pi / 4)^30 / 30! < 2^-118.
        let series = |first: i32| {
            (1..=14).rev().fold(Self::from(1.0), |rest, n| {
                let n = 2 * n + first;
                (rest * square).over(f64::from(n * (n - 1))) + Self::from(1.0)
            })
        };
        (series(0), angle * series(1))
    }
}

impl From<f64> for Double {
    fn from(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }
}

impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Add for Double {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (high, low) = (Self::sum(self.high, other.high), Self::sum(self.low, other.low));
        let middle = Self::sum(high.high, high.low + low.high);
        Self::sum(middle.high, middle.low + low.low)
    }
}

impl Sub for Double {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Double {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let product = self.high * other.high;
        let rest = self.high.mul_add(other.high, -product);
        Self::sum(product, rest + self.high.mul_add(other.low, self.low * other.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance from a value given as a sum of two `f64`, in units of `scale`.
    fn off(value: Double, high: f64, low: f64, scale: f64) -> f64 {
        let difference = value - Double::sum(high, low);
        (difference.high / scale).abs()
    }

    /// Values by mpmath with 60 digits, each split into the nearest f64 and the nearest f64 to the rest; the script is
    /// `tests/goldens/double.py`.
    #[test]
    fn functions_agree_with_mpmath() {
        // A few dozen operations with an error of 2^-104 each stay below 2^-98.
        let tolerance = (-98f64).exp2();
        for line in include_str!("../../tests/goldens/double.txt").lines() {
            let mut fields = line.split_whitespace();
            let name = fields.next().unwrap();
            let numbers: Vec<f64> = fields.map(|field| field.parse().unwrap()).collect();
            let [x, x_low, high, low] = numbers[..] else { panic!("{line}") };
            let x = Double::sum(x, x_low);
            let value = match name {
                "ln" => x.ln(),
                "exp" => x.exp(),
                "sqrt" => x.sqrt(),
                "cos" => x.cos_sin_quarter_turns().0,
                "sin" => x.cos_sin_quarter_turns().1,
                _ => panic!("{line}"),
            };
            let scale = if name == "ln" { high.abs().max(1.0) } else { high };
            let off = off(value, high, low, scale);
            assert!(off < tolerance, "{line}: {off:e}");
        }
    }

    #[test]
    fn fractions_and_rounding_are_exact() {
        assert_eq!(Double::fraction([1 << 63, 0, 0]).high, 0.5);
        let tiny = Double::fraction([0, 0, 1]);
        assert_eq!((tiny.high, tiny.low), (1.5 * (-192f64).exp2(), 0.0));
        let almost = Double::fraction([u64::MAX, u64::MAX, u64::MAX]);
        assert_eq!(almost.high, 1.0);
        for (value, low, whole) in [
            (0.5, -1e-20, 0.0),
            (0.5, 1e-20, 1.0),
            (-1.5, 1e-17, -1.0),
            (-1.5, -1e-17, -2.0),
            (7.2, 0.0, 7.0),
        ] {
            assert_eq!((Double::from(value) + Double::from(low)).round(), whole, "{value} {low}");
        }
    }
}
