//! Functions of single values without branches or tables, so that loops over them run on all lanes at once.
//!
//! They are about as exact as single precision is, which the tests check in double precision. What is not a number stays none.

use super::kernel::MAGIC;

/// Not far above this, `e^x` overflows in single precision, and below its negative it is about zero.
const LARGEST: f32 = 88.0;
/// The natural logarithm of two in two parts. The first has few bits, so that whole multiples of it are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;

/// `e^x`, within four units of the last place for `x` from -87.3 to 87.3. Beyond -88 and 88 it does not change any more.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = x.clamp(-LARGEST, LARGEST);
    // The nearest whole number of doublings is now in the low bits of the sum.
    let shifted = x.mul_add(std::f32::consts::LOG2_E, MAGIC);
    let doublings = shifted - MAGIC;
    let rest = doublings.mul_add(-LN_2_LOW, doublings.mul_add(-LN_2_HIGH, x));
    // Taylor's series up to the sixth power. `rest` is at most half of ln 2, so the seventh term is below 2^-23.
    let series = rest.mul_add(1.0 / 720.0, 1.0 / 120.0);
    let series = rest.mul_add(series, 1.0 / 24.0);
    let series = rest.mul_add(series, 1.0 / 6.0);
    let series = rest.mul_add(series, 0.5);
    let series = rest.mul_add(series, 1.0);
    let series = rest.mul_add(series, 1.0);
    let power = shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23;
    series * f32::from_bits(power)
}

/// The density of the standard normal distribution.
#[inline(always)]
pub(crate) fn density(x: f32) -> f32 {
    const AT_ZERO: f32 = 0.398_942_3;
    AT_ZERO * exp(-0.5 * x * x)
}

/// The distribution function of the standard normal within 3e-7, by formula 7.1.26 of Abramowitz and Stegun.
#[inline(always)]
pub(crate) fn below(x: f32) -> f32 {
    let size = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / size.mul_add(0.327_591_1, 1.0);
    let series = t.mul_add(1.061_405_4, -1.453_152);
    let series = t.mul_add(series, 1.421_413_7);
    let series = t.mul_add(series, -0.284_496_74);
    let series = t.mul_add(series, 0.254_829_6);
    let beyond = 0.5 * t * series * exp(-size * size);
    if x < 0.0 { beyond } else { 1.0 - beyond }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> impl Iterator<Item = f32> {
        (-1_000_000..=1_000_000).map(|step| step as f32 * 9e-5)
    }

    #[test]
    fn exponentials_are_exact_to_a_few_places() {
        for x in places().filter(|x| x.abs() <= LARGEST - 0.7) {
            let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got / want - 1.0).abs() <= 4.0 * f64::from(f32::EPSILON), "{x}: {got}, not {want}");
        }
    }

    #[test]
    fn distributions_are_exact_to_seven_digits() {
        for x in places() {
            let normal = 0.5 * libm::erfc(-f64::from(x) * std::f64::consts::FRAC_1_SQRT_2);
            assert!((f64::from(below(x)) - normal).abs() <= 3e-7, "{x}");
            let logistic = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - logistic).abs() <= 3e-7, "{x}");
        }
    }

    #[test]
    fn what_is_no_number_stays_so() {
        assert!(
            [exp(f32::NAN), below(f32::NAN), density(f32::NAN), sigmoid(f32::NAN)].iter().all(|y| y.is_nan())
        );
        assert_eq!([below(f32::INFINITY), sigmoid(f32::INFINITY)], [1.0, 1.0]);
        assert!(below(f32::NEG_INFINITY) == 0.0 && sigmoid(f32::NEG_INFINITY) < 1e-37);
    }
}
