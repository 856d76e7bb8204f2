//! Rounds many pairs of coordinates at once in `f64`, and marks those whose rounding is not certain.
//!
//! Every loop runs over plain arrays without a branch, so that the compiler can use the vectors of the processor at hand.

use dapple_data::rand_core::Rng;
use pulp::{Arch, Simd, WithSimd, bytemuck};

/// How many pairs a block has.
pub(super) const PAIRS: usize = 512;

/// The fast path is certain only of radii whose uniform number lies in `[EDGE, 1 - EDGE]`.
const EDGE: f64 = 1.0 / (1u64 << 16) as f64;

/// Half the width of the interval that 32 known digits leave for a uniform number, doubled for safety.
const RADIUS_DOUBT: f64 = 1.0 / (1u64 << 32) as f64;
/// The same for an angle, of which 30 digits within a quarter turn are known.
const ANGLE_DOUBT: f64 = std::f64::consts::FRAC_PI_2 / (1u64 << 30) as f64;
/// Sixteen times what the series and the rounding of `f64` may move a result by, which is below 2^-34 for a deviation of at most 2^11.
const ROUNDING_DOUBT: f64 = 1.0 / (1u64 << 30) as f64;

const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
const TWO_52: u64 = 0x4330_0000_0000_0000;

/// `(-1)^n / (2 n)!`
const COS: [f64; 9] = taylor(0);
/// `(-1)^n / (2 n + 1)!`
const SIN: [f64; 9] = taylor(1);

const fn taylor(first: usize) -> [f64; 9] {
    let mut coefficients = [1.0; 9];
    let mut n = 1;
    while n < 9 {
        let k = 2 * n + first;
        coefficients[n] = -coefficients[n - 1] / (k * (k - 1)) as f64;
        n += 1;
    }
    coefficients
}

/// A block of random words and what becomes of it.
pub(super) struct NoiseBlock {
    /// Words for the radii.
    pub(super) radius: [u32; PAIRS],
    /// Words for the angles.
    pub(super) angle: [u32; PAIRS],
    /// What the noise is added to, at most half a unit from zero.
    pub(super) offset: [[f64; PAIRS]; 2],
    /// The rounded sums.
    pub(super) rounded: [[f64; PAIRS]; 2],
    /// Positive where a pair cannot round to anything else, whatever its further digits are.
    certainty: [f64; PAIRS],
}

impl NoiseBlock {
    /// A block of zeros on the heap.
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            radius: [0; PAIRS],
            angle: [0; PAIRS],
            offset: [[0.0; PAIRS]; 2],
            rounded: [[0.0; PAIRS]; 2],
            certainty: [0.0; PAIRS],
        })
    }

    /// Draws fresh words, first for all radii and then for all angles.
    pub(super) fn draw(&mut self, random: &mut impl Rng) {
        for words in [&mut self.radius, &mut self.angle] {
            random.fill_bytes(bytemuck::cast_slice_mut(words));
            words.iter_mut().for_each(|word| *word = u32::from_le(*word));
        }
    }

    /// Rounds every pair, and notes whether the result is certain.
    ///
    /// # Guarantee
    /// Where the certainty is positive, both results are those of the ideal numbers, whatever their further digits. With `r` the
    /// radius, `|dr| = du / (u r)`, so the unknown digits move the radius by at most `2^-33 / (u r)`, and the direction by at most
    /// `2^-31` quarter turns. A half-integer that is farther away than these two and the rounding of `f64` together is not reached. Each
    /// bound is doubled, which also covers that `u` and `r` vary by a share of 2^-17 over the interval.
    pub(super) fn round(&mut self, deviation: f64) {
        Arch::new().dispatch(BlockRounding { block: self, deviation });
    }

    /// The pairs whose rounding is not certain.
    pub(super) fn doubtful(&self) -> impl Iterator<Item = usize> {
        let certain =
            |block: &[f64]| block.iter().fold(f64::INFINITY, |least, &value| least.min(value)) > 0.0;
        // Nearly every piece is certain as a whole.
        let pieces = self.certainty.chunks(64).enumerate().filter(move |(_, piece)| !certain(piece));
        pieces.flat_map(|(number, piece)| {
            let doubtful = piece.iter().enumerate().filter(|&(_, &certainty)| certainty <= 0.0);
            doubtful.map(move |(i, _)| 64 * number + i)
        })
    }
}

/// [`NoiseBlock::round`] with the vectors of the processor at hand.
struct BlockRounding<'a> {
    block: &'a mut NoiseBlock,
    deviation: f64,
}

impl WithSimd for BlockRounding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { block, deviation } = self;
        for i in 0..PAIRS {
            let uniform = unit(block.radius[i]);
            let radius = (-2.0 * ln::<S>(uniform)).sqrt();
            let (cos, sin) = direction::<S>(block.angle[i]);
            let first = block.offset[0][i] + deviation * radius * cos;
            let second = block.offset[1][i] + deviation * radius * sin;
            let (whole_first, whole_second) = (first.round_ties_even(), second.round_ties_even());
            block.rounded[0][i] = whole_first;
            block.rounded[1][i] = whole_second;
            let farthest = (first - whole_first).abs().max((second - whole_second).abs());
            // Certain if 0.5 - farthest > doubt. Both sides are multiplied by the positive u r, which spares a division.
            let room = 0.5 - farthest - (deviation * ANGLE_DOUBT * radius + ROUNDING_DOUBT);
            let certainty = room * (uniform * radius) - deviation * RADIUS_DOUBT;
            let inside = uniform.min(1.0 - uniform) - EDGE;
            block.certainty[i] = certainty.min(inside);
        }
    }
}

/// `a b + c`, rounded once where the processor can do so, which takes half the time. It may change the last bits, never a result that is
/// certain.
#[inline(always)]
fn multiply_add<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
}

/// The middle of the interval of width 2^-32 that the 32 digits of a word leave.
#[inline(always)]
fn unit(word: u32) -> f64 {
    // The digits stand right after the point of a number from 1 to 2, followed by half of the last digit's unit.
    f64::from_bits(ONE | u64::from(word) << 20 | 1 << 19) - 1.0
}

/// The natural logarithm of a number in `(0, 1)`.
#[inline(always)]
fn ln<S: Simd>(x: f64) -> f64 {
    // x = 2^twos m with m in [sqrt(1/2), sqrt(2))
    let shifted = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let twos = f64::from_bits(TWO_52 | shifted >> 52) - (f64::from_bits(TWO_52) + 1023.0);
    let m = f64::from_bits((shifted & MANTISSA) + SQRT_HALF);
    // ln m = 2 artanh s; s^2 <= 0.0295, so what is left out is below 2^-55 of the sum.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut series = 1.0 / 19.0;
    for odd in [17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = multiply_add::<S>(series, z, 1.0 / odd);
    }
    twos * std::f64::consts::LN_2 + 2.0 * s * series
}

/// Cosine and sine of the angle that a word stands for.
#[inline(always)]
fn direction<S: Simd>(word: u32) -> (f64, f64) {
    let quarter = u64::from(word) >> 30;
    // The 30 digits, followed by half of the last digit's unit.
    let place = f64::from_bits(ONE | (u64::from(word) & 0x3fff_ffff) << 22 | 1 << 21) - 1.5;
    let angle = place * std::f64::consts::FRAC_PI_2;
    let square = angle * angle;
    // |angle| <= pi / 4: what is left out is below 2^-54.
    let (mut cos, mut sin) = (COS[8], SIN[8]);
    for n in (0..8).rev() {
        cos = multiply_add::<S>(cos, square, COS[n]);
        sin = multiply_add::<S>(sin, square, SIN[n]);
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
    use super::super::exact::Bits;
    use super::*;
    use pulp::Scalar;

    #[test]
    fn functions_agree_with_the_standard_library() {
        for i in 1..100_000u32 {
            let word = i.wrapping_mul(0x9e37_79b9);
            let x = unit(word);
            assert!((x - (f64::from(word) + 0.5) / (1u64 << 32) as f64).abs() == 0.0);
            assert!((ln::<Scalar>(x) / x.ln() - 1.0).abs() < 1e-14, "{x}");
            // The first two digits choose the quarter; the others are a place about its middle.
            let place = (f64::from(word << 2 >> 2) + 0.5) / (1u64 << 30) as f64 - 0.5;
            let angle = (f64::from(word >> 30) + place) * std::f64::consts::FRAC_PI_2;
            let (cos, sin) = direction::<Scalar>(word);
            assert!((cos - angle.cos()).abs() < 1e-14 && (sin - angle.sin()).abs() < 1e-14, "{angle}");
        }
    }

    /// How near a half-integer may come before a pair is doubtful.
    fn doubt(deviation: f64, uniform: f64, radius: f64) -> f64 {
        deviation * (RADIUS_DOUBT / (uniform * radius) + ANGLE_DOUBT * radius) + ROUNDING_DOUBT
    }

    /// Sums placed as near to a half-integer as certainty allows, and with the worst further digits.
    #[test]
    fn certain_pairs_are_right_whatever_the_further_digits() {
        struct Constant(u64);
        impl dapple_data::rand_core::TryRng for Constant {
            type Error = std::convert::Infallible;
            fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
                Ok(self.0 as u32)
            }
            fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
                Ok(self.0)
            }
            fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
                bytes.fill(self.0 as u8);
                Ok(())
            }
        }
        let deviation = 2047.9;
        let mut block = NoiseBlock::new();
        let mut checked = 0;
        for round in 0..40u32 {
            for i in 0..PAIRS {
                let word = (round * PAIRS as u32 + i as u32 + 1).wrapping_mul(0x9e37_79b9);
                // Every size of uniform number, down to the edge.
                let radius_word = word >> (word % 16);
                (block.radius[i], block.angle[i]) = (radius_word, word.rotate_left(13));
                let uniform = unit(radius_word);
                let radius = (-2.0 * ln::<Scalar>(uniform)).sqrt();
                let (cos, sin) = direction::<Scalar>(block.angle[i]);
                let near = 0.5 - 1.001 * doubt(deviation, uniform, radius);
                let sign = if word & 1 == 0 { 1.0 } else { -1.0 };
                for (offset, part) in block.offset.iter_mut().zip([cos, sin]) {
                    let value = deviation * radius * part;
                    // This may be a little more than half a step, on which the bound does not depend.
                    offset[i] = sign * near - (value - value.round_ties_even());
                }
            }
            // Once with the processor's vectors, and once as a processor without them would do it.
            match round % 2 {
                0 => block.round(deviation),
                _ => Scalar.vectorize(BlockRounding { block: &mut block, deviation }),
            }
            let doubtful: Vec<usize> = block.doubtful().collect();
            for i in (0..PAIRS).filter(|i| !doubtful.contains(i)) {
                for more in [0, u64::MAX] {
                    let bits = Bits { radius: block.radius[i], angle: block.angle[i], more: Constant(more) };
                    let exact = bits.round([block.offset[0][i], block.offset[1][i]], deviation);
                    assert_eq!(exact, [block.rounded[0][i], block.rounded[1][i]]);
                    checked += 1;
                }
            }
        }
        assert!(checked > 20_000, "{checked}");
    }
}
