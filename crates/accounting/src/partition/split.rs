//! Model splitting: one of `d` disjoint submodels sees the record.

use std::sync::Arc;

use super::lognormal::Mean;
use super::ratio::{Ratio, RatioPart};
use crate::error::{Result, adds_up_to_one, in_range};
use crate::limits;
use crate::pair::DominatingPair;
use crate::pld::Pld;

/// A way to split a model into disjoint submodels, and how often it is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Partition {
    /// The probability that a record draws this partition.
    pub probability: f64,
    /// How many disjoint submodels it has.
    pub submodels: u64,
}

/// Checks partitions, and joins those with equally many submodels.
fn merged(partitions: &[Partition]) -> Result<Vec<Partition>> {
    let mut merged: Vec<Partition> = vec![];
    for &Partition { probability, submodels } in partitions {
        in_range("submodels", submodels as f64, 1.0, 1e7, "[1, 10000000]")?;
        in_range("probability of a partition", probability, 0.0, 1.0, "[0, 1]")?;
        if let Some(same) = merged.iter_mut().find(|other| other.submodels == submodels) {
            same.probability += probability;
        } else if probability > 0.0 {
            merged.push(Partition { probability, submodels });
        }
    }
    adds_up_to_one("of the partitions", merged.iter().map(|partition| partition.probability))?;
    Ok(merged)
}

/// The noise multipliers of the two parts of a partial split; `None` for a part that has no parameters.
pub(super) struct SplitMultipliers {
    pub(super) split_multiplier: Option<f64>,
    pub(super) nonsplit_multiplier: Option<f64>,
}

impl SplitMultipliers {
    pub(super) fn new(split_norm: f64, nonsplit_norm: f64, noise_multiplier: f64) -> Result<Self> {
        const RANGE: &str = "0 or [1e-9, 1e6]";
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        let norm = |name, value| if value == 0.0 { Ok(0.0) } else { in_range(name, value, 1e-9, 1e6, RANGE) };
        let split_norm = norm("split norm", split_norm)?;
        let nonsplit_norm = norm("nonsplit norm", nonsplit_norm)?;
        in_range("sum of the norms", split_norm + nonsplit_norm, 1e-9, 2e6, "[1e-9, 2e6]")?;
        // The whole gradient's norm, which keeps likelihood ratios far from overflow.
        limits::noise_multiplier(sigma / split_norm.hypot(nonsplit_norm))?;
        let multiplier = |norm: f64| (norm > 0.0).then(|| limits::noise_multiplier(sigma / norm)).transpose();
        Ok(Self {
            split_multiplier: multiplier(split_norm)?,
            nonsplit_multiplier: multiplier(nonsplit_norm)?,
        })
    }
}

impl Pld {
    /// One step in which each record trains one of `submodels` disjoint submodels, drawn uniformly and independently of all
    /// other records, under add/remove (partitioning paper, D, Theorem 3.4).
    ///
    /// # Guarantee
    /// The record's contribution is a vector of norm at most 1 in the coordinates of one submodel, so after a rotation
    /// inside each submodel the pair is `P = (1/d) sum_j N(a_j e_j / sigma)`, `Q = N(0)` with `a_j <= 1`; `a_j = 1` is the worst case,
    /// since adding noise to coordinate `j` and scaling it back shrinks `a_j` (data processing). Its likelihood ratio is
    /// the mean of `d` independent log-normals, whose law is enclosed in convex order: both directions, both ends.
    ///
    /// The law is computed once, so that brackets stay a few ten-thousandths of epsilon wide whatever precision is asked for.
    ///
    /// # Errors
    /// No submodel, too many, or a noise multiplier out of range.
    pub fn split(submodels: u64, noise_multiplier: f64) -> Result<Self> {
        Self::partial_split(submodels, 1.0, 0.0, noise_multiplier)
    }

    /// One step in which part of the parameters is split into submodels, clipped to `split_norm`, and the rest is shared by
    /// all, clipped to `nonsplit_norm`; the noise has deviation `noise_multiplier` on every coordinate.
    ///
    /// # Guarantee
    /// The product of the split pair and a Gaussian pair dominates: given the split part's output, the shared part is a mixture
    /// over the hidden submodel of Gaussians whose centres lie within the clip norm, which one Gaussian pair dominates
    /// (joint convexity). Sampling applies to the product, as [`Pld::subsample_poisson`] does: both parts share the coin.
    ///
    /// # Errors
    /// A norm that is negative or not finite, both norms zero, or what [`Pld::split`] refuses.
    pub fn partial_split(
        submodels: u64,
        split_norm: f64,
        nonsplit_norm: f64,
        noise_multiplier: f64,
    ) -> Result<Self> {
        let only = Partition { probability: 1.0, submodels };
        Self::split_mixture(&[only], split_norm, nonsplit_norm, noise_multiplier)
    }

    /// [`Pld::partial_split`] where each record draws one of several partitions, then one of its submodels uniformly
    /// (D Theorem 3.5). A partition with one submodel is the whole model. Steps with other partitions compose.
    ///
    /// # Guarantee
    /// Telling which partition was drawn only adds information (joint convexity of `H_a`), so the law of the likelihood ratio is the mixture of
    /// those of the partitions: never worse than the partition with the fewest submodels, and better than it where others
    /// are drawn. Partitions with equally many submodels count as one.
    ///
    /// # Errors
    /// No partition, probabilities that are negative or do not add up to 1, or what [`Pld::partial_split`] refuses.
    pub fn split_mixture(
        partitions: &[Partition],
        split_norm: f64,
        nonsplit_norm: f64,
        noise_multiplier: f64,
    ) -> Result<Self> {
        let partitions = merged(partitions)?;
        let norms = SplitMultipliers::new(split_norm, nonsplit_norm, noise_multiplier)?;
        let gaussian = |multiplier: f64| Self::gaussian(1.0, multiplier);
        let ratio = |sigma: f64, beside: Option<f64>| {
            let part = |&Partition { probability, submodels }: &Partition| RatioPart {
                probability,
                mean: Mean::new(1.0 / sigma, submodels),
                beside,
            };
            Ratio::mixture(partitions.iter().map(part).collect())
        };
        let whole = partitions.iter().all(|partition| partition.submodels == 1);
        let ratio = match (norms.split_multiplier, norms.nonsplit_multiplier) {
            (Some(split), Some(shared)) if whole => return Ok(gaussian(split)?.compose(&gaussian(shared)?)),
            (Some(multiplier), None) if whole => return gaussian(multiplier),
            (None, Some(multiplier)) => return gaussian(multiplier),
            (None, None) => return Ok(Self::identity()),
            (Some(split), Some(shared)) => ratio(split, Some(1.0 / shared)),
            (Some(split), None) => ratio(split, None),
        };
        Ok(Self::asymmetric(DominatingPair::Ratio(Arc::new(ratio))))
    }

    /// One step of a model with dropout, in which weights that touch a dropped node receive no gradient.
    ///
    /// # Guarantee
    /// At a rate of 1/2 a draw of dropped nodes and its complement are equally likely, so that the weights are split into
    /// two disjoint submodels (D Corollary 3.7). `nonsplit_norm` clips all other parameters: biases of the next layer, norms,
    /// layers away from any dropout. No such symmetry holds at other rates.
    ///
    /// # Errors
    /// A dropout rate other than 1/2, or what [`Pld::partial_split`] refuses.
    pub fn dropout(rate: f64, split_norm: f64, nonsplit_norm: f64, noise_multiplier: f64) -> Result<Self> {
        in_range("dropout rate", rate, 0.5, 0.5, "{0.5}: only a rate of one half splits evenly")?;
        Self::partial_split(2, split_norm, nonsplit_norm, noise_multiplier)
    }
}
