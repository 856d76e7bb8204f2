//! Model splitting: one of `d` disjoint submodels sees the record.

use std::sync::Arc;

use super::lognormal::Mean;
use crate::error::{Result, in_range};
use crate::limits;
use crate::pair::Pair;
use crate::pld::Pld;

/// The most places a gradient can be hidden in.
const MOST_PARTS: f64 = 1e7;

impl Pld {
    /// One step in which each record trains one of `submodels` disjoint submodels, drawn uniformly and independently of all
    /// other records, under add/remove (D Theorem 3.4; mixtures of such partitions too, D Theorem 3.5).
    ///
    /// # Guarantee
    /// The record's contribution is a vector of norm at most 1 in the coordinates of one submodel, so after a rotation
    /// inside each submodel the pair is `P = (1/d) sum_j N(a_j e_j / sigma)`, `Q = N(0)` with `a_j <= 1`; `a_j = 1` is the worst case,
    /// since adding noise to coordinate `j` and scaling it back shrinks `a_j` (data processing). Its likelihood ratio is
    /// the mean of `d` independent log-normals, whose law is enclosed in convex order: both directions, both ends.
    /// A mixture of partitions is covered by joint convexity.
    ///
    /// The law is computed once, so that brackets stay a few ten-thousandths of epsilon wide whatever precision is asked for.
    ///
    /// # Errors
    /// No submodel, too many, or a noise multiplier out of range.
    pub fn split(submodels: u64, noise_multiplier: f64) -> Result<Self> {
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        in_range("submodels", submodels as f64, 1.0, MOST_PARTS, "[1, 10000000]")?;
        if submodels == 1 {
            return Self::gaussian(1.0, sigma);
        }
        let ratio = Mean::new(1.0 / sigma, submodels).ratio();
        Ok(Self::asymmetric(Pair::Ratio(Arc::new(ratio))))
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
        const RANGE: &str = "0 or [1e-9, 1e6]";
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        let norm = |name, value| if value == 0.0 { Ok(0.0) } else { in_range(name, value, 1e-9, 1e6, RANGE) };
        let split_norm = norm("split norm", split_norm)?;
        let nonsplit_norm = norm("nonsplit norm", nonsplit_norm)?;
        in_range("sum of the norms", split_norm + nonsplit_norm, 1e-9, 2e6, "[1e-9, 2e6]")?;
        if split_norm == 0.0 {
            in_range("submodels", submodels as f64, 1.0, MOST_PARTS, "[1, 10000000]")?;
            return Self::gaussian(nonsplit_norm, sigma);
        }
        if nonsplit_norm == 0.0 {
            return Self::split(submodels, sigma / split_norm);
        }
        // The whole gradient's norm, which keeps likelihood ratios far from overflow.
        limits::noise_multiplier(sigma / split_norm.hypot(nonsplit_norm))?;
        let split = limits::noise_multiplier(sigma / split_norm)?;
        let shared = limits::noise_multiplier(sigma / nonsplit_norm)?;
        if submodels == 1 {
            return Ok(Self::gaussian(1.0, split)?.compose(&Self::gaussian(1.0, shared)?));
        }
        in_range("submodels", submodels as f64, 1.0, MOST_PARTS, "[1, 10000000]")?;
        let ratio = Mean::new(1.0 / split, submodels).ratio_beside(1.0 / shared);
        Ok(Self::asymmetric(Pair::Ratio(Arc::new(ratio))))
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
