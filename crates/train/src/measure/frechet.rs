//! The distance of Fréchet between two sets of features, each taken as a Gaussian (Heusel et al. 2017).

use super::spectrum::{TriangularFactor, nuclear_norm};
use super::{FeatureSet, comparable};
use crate::error::TrainError;

/// How many rows are taken up at once, so that they stay in the processor's cache.
const ROWS: usize = 64;

/// `|m - m'|^2 + tr(S + S' - 2 (S S')^(1/2))` for the means and covariances of two sets of features; 0 if they are the same.
///
/// With `S = R^T R` the trace of the root is the sum of the singular values of `R R'^T`. The factors come from the features without
/// their covariances ever being written down, and no matrix is inverted or rooted. So covariances of any rank, of fewer pictures than
/// features too, lose no digits, and nothing has to be added to their diagonals.
///
/// # Errors
/// Fewer than two pictures in a set, or features of different lengths.
pub fn frechet_distance(one: &FeatureSet, other: &FeatureSet) -> Result<f64, TrainError> {
    comparable(one, other)?;
    let ((mean, factor), (other_mean, other_factor)) = rayon::join(|| moments(one), || moments(other));
    let apart: f64 = mean.iter().zip(&other_mean).map(|(a, b)| (a - b).powi(2)).sum();
    let traces = factor.squares() + other_factor.squares();
    let root = nuclear_norm(factor.times_transposed(&other_factor), one.length);
    // Rounding alone may leave less than nothing.
    Ok((apart + traces - 2.0 * root).max(0.0))
}

/// The mean of a set of features, and a factor of its unbiased covariance.
fn moments(set: &FeatureSet) -> (Vec<f64>, TriangularFactor) {
    let mut mean = vec![0.0; set.length];
    for row in set.rows() {
        mean.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
    }
    mean.iter_mut().for_each(|sum| *sum /= set.count() as f64);
    let scale = 1.0 / ((set.count() - 1) as f64).sqrt();
    let mut factor = TriangularFactor::zero(set.length);
    for rows in set.values.chunks(ROWS * set.length) {
        let centred = |(value, mean): (&f32, &f64)| (f64::from(*value) - mean) * scale;
        factor.absorb(rows.iter().zip(mean.iter().cycle()).map(centred).collect());
    }
    (mean, factor)
}
