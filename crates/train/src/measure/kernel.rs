//! The kernel distance between two sets of features (Bińkowski et al. 2018).

use dapple_data::uniform::below;
use dapple_data::{MasterKey, Purpose};
use rayon::prelude::*;

use super::{FeatureSet, comparable};
use crate::error::TrainError;

/// The most pictures of a block whose size is not given.
const BLOCK: usize = 1000;
/// The least number of blocks whose size is not given, so that their spread says something.
const LEAST_BLOCKS: usize = 10;

/// A squared maximum mean discrepancy with the kernel `(x^T y / d + 1)^3`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KernelDistance {
    /// The mean of the blocks' unbiased estimates. It may be below 0 where the sets are alike.
    pub value: f64,
    /// The standard error of that mean, from the spread of the blocks; `None` for one block.
    pub standard_error: Option<f64>,
    /// The number of blocks.
    pub blocks: usize,
    /// The pictures of each set in a block.
    pub block: usize,
}

/// The kernel distance of two sets of features: both are shuffled by a fixed seed and cut into blocks that share no picture, and each
/// block gives an unbiased estimate. A `block` of `None` is a tenth of the smaller set, at most 1000.
///
/// # Errors
/// Fewer than two pictures in a set or in a block, more than there are, or features of different lengths.
pub fn kernel_distance(
    one: &FeatureSet,
    other: &FeatureSet,
    block: Option<usize>,
) -> Result<KernelDistance, TrainError> {
    comparable(one, other)?;
    let count = one.count().min(other.count());
    let block = block.unwrap_or_else(|| (count / LEAST_BLOCKS).clamp(2, BLOCK));
    if !(2..=count).contains(&block) {
        let problem = format!("a block of {block} pictures of {count}");
        return Err(TrainError::setting("block", problem, format!("give a number from 2 to {count}")));
    }
    let blocks = count / block;
    let [rows, other_rows] = [(one, 0), (other, 1)].map(|(set, stream)| shuffled(set, stream));
    let pairs: Vec<_> = rows.chunks_exact(block).zip(other_rows.chunks_exact(block)).collect();
    let estimates: Vec<f64> = pairs.into_par_iter().map(|(rows, others)| discrepancy(rows, others)).collect();
    let value = estimates.iter().sum::<f64>() / blocks as f64;
    let squares: f64 = estimates.iter().map(|estimate| (estimate - value).powi(2)).sum();
    let standard_error = (blocks > 1).then(|| (squares / ((blocks - 1) * blocks) as f64).sqrt());
    Ok(KernelDistance { value, standard_error, blocks, block })
}

/// The rows of a set in an order that follows from the number of the stream alone.
fn shuffled(set: &FeatureSet, stream: u64) -> Vec<&[f32]> {
    let mut random = MasterKey::from_seed(0).purpose(Purpose::Split).step(0).stream(stream);
    let mut rows: Vec<&[f32]> = set.rows().collect();
    for last in (1..rows.len()).rev() {
        rows.swap(last, below(&mut random, last as u64 + 1) as usize);
    }
    rows
}

/// The unbiased estimate of the squared maximum mean discrepancy (Gretton et al. 2012, Lemma 6), for as many rows on both sides.
fn discrepancy(rows: &[&[f32]], others: &[&[f32]]) -> f64 {
    let count = rows.len() as f64;
    let within = |rows: &[&[f32]]| {
        let pairs = (1..rows.len()).flat_map(|last| (0..last).map(move |first| (first, last)));
        2.0 * pairs.map(|(first, last)| kernel(rows[first], rows[last])).sum::<f64>()
            / (count * (count - 1.0))
    };
    let between: f64 = rows.iter().flat_map(|row| others.iter().map(|other| kernel(row, other))).sum();
    within(rows) + within(others) - 2.0 * between / (count * count)
}

fn kernel(one: &[f32], other: &[f32]) -> f64 {
    let ((ones, rest), (others, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (one, other) in ones.iter().zip(others) {
        for ((sum, &one), &other) in sums.iter_mut().zip(one).zip(other) {
            *sum += f64::from(one) * f64::from(other);
        }
    }
    let rest = rest.iter().zip(other_rest).map(|(&one, &other)| f64::from(one) * f64::from(other));
    ((sums.iter().sum::<f64>() + rest.sum::<f64>()) / one.len() as f64 + 1.0).powi(3)
}
