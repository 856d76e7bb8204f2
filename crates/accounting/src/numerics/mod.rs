//! Normal masses, Fourier convolution with an error bound, bracketing root finders.

pub(crate) mod fft;
pub(crate) mod normal;
pub(crate) mod root;

/// The unit roundoff of `f64`.
pub(crate) const UNIT_ROUNDOFF: f64 = f64::EPSILON / 2.0;
