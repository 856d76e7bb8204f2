//! Many pairs of coordinates at once in `f64`, with a mark on those whose rounding is not certain.
//!
//! Every loop runs over plain arrays without a branch, so that the compiler makes vectors of it for the processor at hand.

/// Pairs of a block.
pub(super) const PAIRS: usize = 512;

/// The fast path takes radii from uniform numbers in `[EDGE, 1 - EDGE]`.
const EDGE: f64 = 1.0 / (1u64 << 16) as f64;

/// How near to a half-integer a rounding is not certain.
///
/// The error of `deviation * radius * direction` is below 2^-28 for a deviation of at most 2^11: the digits of `U1` beyond 53 change
/// `ln U1` by at most 2^-53 / EDGE = 2^-37 and the radius, which is 4.7 there, by 2^-39; near `U1 = 1`, where the radius is at least
/// 2^-7.5, by 2^-45; series and rounding add at most 2^-48 relatively. This is sixteen times that.
const DOUBT: f64 = 1.0 / (1u64 << 24) as f64;

const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
const TWO_52: u64 = 0x4330_0000_0000_0000;

/// A block of random words and what becomes of it.
pub(super) struct Block {
    /// Words for the radii.
    pub(super) radius: [u64; PAIRS],
    /// Words for the angles.
    pub(super) angle: [u64; PAIRS],
    /// What the noise is added to, within half a unit of zero.
    pub(super) offset: [[f64; PAIRS]; 2],
    /// The rounded sums.
    pub(super) rounded: [[f64; PAIRS]; 2],
    /// Whether a pair is not certain.
    pub(super) doubtful: [bool; PAIRS],
}

impl Block {
    /// A block of zeros on the heap.
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            radius: [0; PAIRS],
            angle: [0; PAIRS],
            offset: [[0.0; PAIRS]; 2],
            rounded: [[0.0; PAIRS]; 2],
            doubtful: [false; PAIRS],
        })
    }

    /// Rounds every pair, and says whether any is doubtful.
    #[inline(always)]
    pub(super) fn round(&mut self, deviation: f64) -> bool {
        let mut any = false;
        for i in 0..PAIRS {
            let uniform = unit(self.radius[i]);
            let radius = deviation * (-2.0 * ln(uniform)).sqrt();
            let (cos, sin) = direction(self.angle[i]);
            let first = self.offset[0][i] + radius * cos;
            let second = self.offset[1][i] + radius * sin;
            let (whole_first, whole_second) = (first.round_ties_even(), second.round_ties_even());
            self.rounded[0][i] = whole_first;
            self.rounded[1][i] = whole_second;
            let farthest = (first - whole_first).abs().max((second - whole_second).abs());
            let doubtful = (uniform.min(1.0 - uniform) < EDGE) | (farthest >= 0.5 - DOUBT);
            self.doubtful[i] = doubtful;
            any |= doubtful;
        }
        any
    }
}

/// The middle of the interval of width 2^-52 that the first 52 digits leave.
#[inline(always)]
fn unit(word: u64) -> f64 {
    f64::from_bits(ONE | word >> 12) - (1.0 - f64::EPSILON / 2.0)
}

/// The natural logarithm of a number in `(0, 1)`.
#[inline(always)]
fn ln(x: f64) -> f64 {
    // x = 2^twos m with m in [sqrt(1/2), sqrt(2))
    let shifted = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let twos = f64::from_bits(TWO_52 | shifted >> 52) - (f64::from_bits(TWO_52) + 1023.0);
    let m = f64::from_bits((shifted & MANTISSA) + SQRT_HALF);
    // ln m = 2 artanh s; s^2 <= 0.0295, so what is left out is below 2^-55 of the sum.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut series = 1.0 / 19.0;
    for odd in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * z + 1.0 / odd;
    }
    twos * std::f64::consts::LN_2 + 2.0 * s * series
}

/// Cosine and sine of the angle of a word.
#[inline(always)]
fn direction(word: u64) -> (f64, f64) {
    let quarter = word >> 62;
    let angle = (unit(word << 2) - 0.5) * std::f64::consts::FRAC_PI_2;
    let square = angle * angle;
    // |angle| <= pi / 4: what is left out is below 2^-54.
    let (mut cos, mut sin) = (1.0, 1.0);
    for n in [16.0, 14.0, 12.0, 10.0, 8.0, 6.0, 4.0, 2.0] {
        cos = 1.0 - cos * square * (1.0 / (n * (n - 1.0)));
        sin = 1.0 - sin * square * (1.0 / (n * (n + 1.0)));
    }
    sin *= angle;
    // Turned by quarters: (cos, sin), (-sin, cos), (-cos, -sin), (sin, -cos).
    let odd = 0u64.wrapping_sub(quarter & 1);
    let (c, s) = (cos.to_bits(), sin.to_bits());
    let x = (c & !odd | s & odd) ^ ((quarter ^ quarter >> 1) << 63);
    let y = (s & !odd | c & odd) ^ (quarter >> 1 << 63);
    (f64::from_bits(x), f64::from_bits(y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_agree_with_the_standard_library() {
        for i in 1..100_000u64 {
            let word = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let x = unit(word);
            assert!((ln(x) / x.ln() - 1.0).abs() < 1e-14, "{x}");
            // The quarter of the first two digits, about its middle.
            let angle = ((word >> 62) as f64 + (unit(word << 2) - 0.5)) * std::f64::consts::FRAC_PI_2;
            let (cos, sin) = direction(word);
            assert!((cos - angle.cos()).abs() < 1e-14 && (sin - angle.sin()).abs() < 1e-14, "{angle}");
        }
    }
}
