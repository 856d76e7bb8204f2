//! Coefficients of noise that cancels across steps.
//!
//! With coefficients `c_0 = 1, c_1, .. c_{b-1}`, a run of steps with clipped sums `x_t` releases `u_t = sum_i c_i x_{t-i} + Z_t`, from which anybody can
//! compute `y_t = x_t + w_t` with noise `w = C^-1 Z` that partly cancels in sums over steps (Choquette-Choo et al. 2023, banded matrix
//! factorisation with Toeplitz matrices). Which coefficients are good is a question of utility: whatever they are, the price counts their norm.
//! Nothing here is a bound.

mod descent;
mod error;

pub use error::{Iterates, MeasuredAt};

use descent::minimise;
use error::CoefficientSeries;

/// The coefficients of the square root of the matrix of ones below the diagonal, as many as there are bands: `binomial(2 i, i) / 4^i`
/// (Fichtenberger, Henzinger and Upadhyay 2023).
#[must_use]
pub fn square_root(bands: usize) -> Vec<f64> {
    let next = |(i, c): &(usize, f64)| Some((i + 1, c * (2 * i + 1) as f64 / (2 * i + 2) as f64));
    std::iter::successors(Some((0, 1.0)), next).take(bands).map(|(_, c)| c).collect()
}

/// Coefficients that make the noise in a run's iterates about as small as so many bands can, for the same price of one participation. They are a
/// function of the arguments alone, to the last bit: nothing but sums, products, quotients and roots is computed, and in one order.
#[must_use]
pub fn optimised(bands: usize, iterates: &Iterates) -> Vec<f64> {
    let start = square_root(bands);
    let tail = minimise(&start[1..], |tail| CoefficientSeries::new(tail, iterates).slope());
    [1.0].into_iter().chain(tail).collect()
}

/// The norm of the noise in a run's iterates over that of independent noise of the same deviation on every release. An estimate of utility,
/// with nothing about privacy in it.
#[must_use]
pub fn relative_error(coefficients: &[f64], iterates: &Iterates) -> f64 {
    let of = |tail: &[f64]| CoefficientSeries::new(tail, iterates).error();
    of(&coefficients[1..]) / of(&[])
}

#[cfg(test)]
mod tests;
