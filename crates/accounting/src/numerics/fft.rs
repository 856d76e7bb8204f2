//! Circular convolution powers by the real Fourier transform, with a bound on their rounding error.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

use super::UNIT_ROUNDOFF;

/// Plans transforms and keeps them for the next call of the same length.
pub(crate) struct Convolver {
    planner: RealFftPlanner<f64>,
}

/// A circular convolution and the rounding error of all its entries together.
pub(crate) struct CircularConvolution {
    pub(crate) values: Vec<f64>,
    /// A bound on the l2 norm of the rounding error.
    pub(crate) error: f64,
}

impl Convolver {
    pub(crate) fn new() -> Self {
        Self { planner: RealFftPlanner::new() }
    }

    /// The least length of the form `2^a` or `3 * 2^a` that is at least `length`.
    pub(crate) fn good_length(length: usize) -> usize {
        let power = length.next_power_of_two().max(16);
        if power / 4 * 3 >= length { power / 4 * 3 } else { power }
    }

    /// The circular convolution of `factor_i` taken `count_i` times, all of the one length `length`.
    ///
    /// Each factor is a non-negative vector with a sum of about 1; the entry at index 0 may be an atom, whose transform
    /// is a constant and is added exactly.
    ///
    /// # Guarantee
    /// The transform of a vector `w` has an error of at most `c u log2(N) |w|_2` in (unitary) norm with a constant `c`
    /// below 8 for the radices used (Higham 2002, Theorem 24.2, whose constant for radix 2 is below 6); since
    /// `|w^| <= 1` the power multiplies it by at most the count, and by Parseval the result has it in the l2 norm.
    pub(crate) fn convolve(&mut self, factors: Vec<(Vec<f64>, u64)>, length: usize) -> CircularConvolution {
        const FAILED: CircularConvolution = CircularConvolution { values: vec![], error: f64::INFINITY };
        let forward: Arc<dyn RealToComplex<f64>> = self.planner.plan_fft_forward(length);
        let inverse: Arc<dyn ComplexToReal<f64>> = self.planner.plan_fft_inverse(length);
        let norm = |values: &[f64]| values.iter().map(|w| w * w).sum::<f64>().sqrt();
        let mut product: Vec<Complex<f64>> = vec![];
        let mut transforms = 0.0;
        let mut roundings = 0.0;
        for (mut values, count) in factors {
            let atom = std::mem::take(&mut values[0]);
            transforms += count as f64 * norm(&values);
            // For each power one rounded addition of the atom and one complex product (a relative error of sqrt(5) u).
            roundings += 3.3 * count as f64;
            let mut spectrum = forward.make_output_vec();
            // Lengths agree by construction, which is the only way these calls can fail.
            if forward.process(&mut values, &mut spectrum).is_err() {
                return FAILED;
            }
            for z in &mut spectrum {
                *z = power(*z + atom, count);
            }
            if product.is_empty() {
                product = spectrum;
            } else {
                for (z, w) in product.iter_mut().zip(&spectrum) {
                    *z *= w;
                }
            }
        }
        // The transform of a real vector is real at the ends, whatever the rounding.
        if let Some(z) = product.first_mut() {
            z.im = 0.0;
        }
        if length.is_multiple_of(2)
            && let Some(z) = product.last_mut()
        {
            z.im = 0.0;
        }
        let mut values = inverse.make_output_vec();
        if inverse.process(&mut product, &mut values).is_err() {
            return FAILED;
        }
        let scale = 1.0 / length as f64;
        for value in &mut values {
            *value *= scale;
        }
        let logarithm = 8.0 * (length as f64).log2();
        let error = UNIT_ROUNDOFF * (logarithm * transforms + (logarithm + roundings) * norm(&values));
        CircularConvolution { values, error }
    }
}

/// `z^n` by repeated squaring: a relative error of at most `sqrt(5) n u`.
fn power(z: Complex<f64>, mut n: u64) -> Complex<f64> {
    let mut result = Complex::new(1.0, 0.0);
    let mut square = z;
    while n > 0 {
        if n & 1 == 1 {
            result *= square;
        }
        n >>= 1;
        if n > 0 {
            square *= square;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circular convolution by definition.
    fn direct(a: &[f64], b: &[f64]) -> Vec<f64> {
        let n = a.len();
        (0..n).map(|k| (0..n).map(|i| a[i] * b[(n + k - i) % n]).sum()).collect()
    }

    #[test]
    fn powers_match_repeated_direct_convolution_within_the_stated_error() {
        for length in [16, 48, 64] {
            let raw: Vec<f64> =
                (0..length).map(|i| ((i * 7 + 3) % 11) as f64 * (-0.2 * i as f64).exp()).collect();
            let total: f64 = raw.iter().sum();
            let one: Vec<f64> = raw.iter().map(|x| x / total).collect();
            let mut power = one.clone();
            for count in 2..=9 {
                power = direct(&power, &one);
                let circular = Convolver::new().convolve(vec![(one.clone(), count)], length);
                let l2 =
                    circular.values.iter().zip(&power).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
                assert!(l2 <= circular.error, "{length} {count}: {l2} above {}", circular.error);
                assert!(circular.error < 1e-12, "the bound is not vacuous");
            }
        }
    }

    #[test]
    fn good_lengths_are_even_and_long_enough() {
        for length in 1..5000 {
            let good = Convolver::good_length(length);
            assert!(good >= length && good.is_multiple_of(2) && good <= 2 * length.max(16));
        }
    }
}
