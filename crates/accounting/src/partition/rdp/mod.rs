//! The Rényi bounds of the partitioning paper (D), for comparison and as a second opinion.
//!
//! | statement of D | here |
//! |---|---|
//! | Theorem 3.1, eq. (2), forward term; Lemma 3.12 | [`Bound::Exact`], [`forward_exact`], [`forward_exact_several`] |
//! | Theorem 3.1, eq. (3), forward term; Lemma 3.13, Corollary 3.14 | [`Bound::Convexity`], [`forward_bound`] |
//! | Theorems 3.4 and 3.5 (split models, mixtures of partitions) | [`PartitionRdp::new`] with one of `d`, [`PartitionRdp::mixture`] |
//! | section 3.2.2 (partial splits), Corollary 3.7 (dropout, `d = 2`) | [`PartitionRdp::partial_split`] |
//! | Theorem 3.8 (balanced iteration subsampling) | [`PartitionRdp::new`] with `k` of `T` |
//! | Theorem 3.11 (Poisson sampling) | [`Rdp::poisson_gaussian`], and [`PartitionRdp::sampled`] for partitions |
//! | Lemma 3.15, Corollary 3.17 (the mean of all centres) | true, and not needed: see below |
//! | Lemma 3.18, Corollary 3.19 (the reverse divergence) | **false as printed**: [`printed_reverse`] shows them, nothing uses them |
//!
//! What D needs the last two for holds nevertheless, for every integer order: the forward divergence is the larger one. D
//! observes it numerically (Remark 3.2); the proof is in `docs/accounting.md` and summarised at [`PartitionRdp`].
//!
//! [`Rdp::poisson_gaussian`]: crate::rdp::Rdp::poisson_gaussian

mod columns;
mod forward;
mod printed;

use crate::error::{Result, adds_up_to_one, in_range};
use crate::limits;
use crate::rdp::{Conversion, RdpAnswer, log_sum, sampled_log_moment};
pub use columns::forward_exact_several;
pub use forward::{forward_bound, forward_exact};
pub use printed::printed_reverse;

/// Which form of D Theorem 3.1 is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Equation (2): the exact forward divergence; for several appearances only at the orders within reach.
    Exact,
    /// Equation (3): the exact one at order 2, carried to higher orders.
    Convexity,
}

/// Rényi divergences between a Gaussian whose mean hides in one of many places and one at 0, at the orders 2, 3, ...
///
/// # Guarantee
/// `D_a(P || Q)` by the bound that was asked for, which is also a bound on `D_a(Q || P)`: for centres that are `k` of `d` unit
/// vectors, with or without a shared Gaussian part and Poisson sampling, `D_a(Q || P) <= D_a(P || Q)` at every order `a >= 2`. In
/// short: both are exponential moments of how far the posterior over centres concentrates as the output is revealed bit by bit, once with the output
/// drawn towards the likely centres and once away from them, and the former concentrates more. The proof is in `docs/accounting.md`.
#[derive(Debug, Clone)]
pub struct PartitionRdp {
    /// `D_a(P || Q)` at orders 2, 3, ...
    forward: Vec<f64>,
}

/// The largest order; D's figures use 100.
const MOST_ORDERS: u32 = 256;

impl PartitionRdp {
    /// A mean that hides in `ones` of `places`, at deviation `noise_multiplier` (D Theorems 3.1, 3.4, 3.8).
    ///
    /// # Errors
    /// More ones than places, none, or a noise multiplier out of range.
    pub fn new(places: u64, ones: u64, noise_multiplier: f64, bound: Bound) -> Result<Self> {
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        in_range("places", places as f64, 1.0, 1e7, "[1, 10000000]")?;
        in_range("ones", ones as f64, 1.0, places as f64, "[1, places]")?;
        let forward = match bound {
            Bound::Exact if ones == 1 => forward_exact(places, sigma, MOST_ORDERS),
            Bound::Exact => forward_exact_several(places, ones, sigma, MOST_ORDERS),
            Bound::Convexity => forward::bounds(places, ones, sigma, MOST_ORDERS),
        };
        Ok(Self { forward })
    }

    /// One of `submodels`, clipped to `split_norm`, beside a part that all submodels share, clipped to `nonsplit_norm`
    /// (D section 3.2.2); either norm may be 0. Dropout at rate 1/2 is `submodels = 2` (D Corollary 3.7).
    ///
    /// # Guarantee
    /// As for [`Pld::partial_split`](crate::Pld::partial_split): the parts are composed here, so that sampling comes after.
    ///
    /// # Errors
    /// As for [`Pld::partial_split`](crate::Pld::partial_split).
    pub fn partial_split(
        submodels: u64,
        split_norm: f64,
        nonsplit_norm: f64,
        noise_multiplier: f64,
        bound: Bound,
    ) -> Result<Self> {
        let norms = super::split::SplitMultipliers::new(split_norm, nonsplit_norm, noise_multiplier)?;
        let mut split = match norms.split_multiplier {
            Some(sigma) => Self::new(submodels, 1, sigma, bound)?,
            None => Self { forward: vec![0.0; MOST_ORDERS as usize - 1] },
        };
        if let Some(sigma) = norms.nonsplit_multiplier {
            for (divergence, order) in split.forward.iter_mut().zip(2_u32..) {
                *divergence += 0.5 * f64::from(order) / (sigma * sigma);
            }
        }
        Ok(split)
    }

    /// One of several partitions, drawn with the given probabilities for each record (D Theorem 3.5).
    ///
    /// # Guarantee
    /// Divergences are jointly convex in their exponential form: `E R^a` of the mixture is at most the mean of those of its parts,
    /// in both directions.
    ///
    /// # Errors
    /// Probabilities that are negative or do not add up to 1.
    pub fn mixture(parts: &[(f64, Self)]) -> Result<Self> {
        for (probability, _) in parts {
            in_range("probability of a partition", *probability, 0.0, 1.0, "[0, 1]")?;
        }
        adds_up_to_one("of the partitions", parts.iter().map(|(probability, _)| *probability))?;
        let most = parts.iter().map(|(_, part)| part.largest_order()).min().unwrap_or(1);
        let forward = (2..=most)
            .map(|order| {
                let moments = parts.iter().map(|(p, part)| p.ln() + part.log_moment(order));
                log_sum(moments) / (f64::from(order) - 1.0)
            })
            .collect();
        Ok(Self { forward })
    }

    /// The same on a Poisson sample: a record takes part with probability `rate`.
    ///
    /// # Guarantee
    /// `E_Q (1 - q + q R)^a` expands into the moments of `R`, so that the forward divergence is as exact as those; the reverse
    /// one is smaller, as at [`PartitionRdp`].
    ///
    /// # Errors
    /// A rate out of range.
    pub fn sampled(&self, rate: f64) -> Result<Self> {
        let rate = limits::sample_rate(rate)?;
        if rate == 1.0 {
            return Ok(self.clone());
        }
        let forward = (2..=self.largest_order())
            .map(|order| sampled_log_moment(rate, order, |l| self.log_moment(l)) / (f64::from(order) - 1.0))
            .collect();
        Ok(Self { forward })
    }

    /// The larger divergence of both directions at an integer order from 2 to [`PartitionRdp::largest_order`].
    #[must_use]
    pub fn divergence(&self, order: u32) -> Option<f64> {
        let slot = usize::try_from(order).ok()?.checked_sub(2)?;
        self.forward.get(slot).copied()
    }

    /// The largest order whose divergence is known: 256, or less where equation (2) is out of reach.
    #[must_use]
    pub fn largest_order(&self) -> u32 {
        u32::try_from(self.forward.len()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Epsilon at `delta` after `count` compositions, over all orders.
    ///
    /// # Errors
    /// A delta out of range.
    pub fn epsilon(&self, count: u64, delta: f64, conversion: Conversion) -> Result<RdpAnswer> {
        limits::delta(delta)?;
        Ok(conversion.best(self.composed(count), delta))
    }

    /// Delta at `epsilon` after `count` compositions, over all orders.
    ///
    /// # Errors
    /// An epsilon out of range.
    pub fn delta(&self, count: u64, epsilon: f64, conversion: Conversion) -> Result<f64> {
        limits::epsilon(epsilon)?;
        let deltas = self.composed(count).map(|(order, d)| conversion.delta(order, d, epsilon));
        Ok(deltas.fold(1.0, f64::min))
    }

    /// Orders with the divergences of `count` compositions.
    fn composed(&self, count: u64) -> impl Iterator<Item = (f64, f64)> {
        self.forward.iter().zip(2_u32..).map(move |(d, order)| (f64::from(order), count as f64 * d))
    }

    /// `ln E_Q R^l`.
    fn log_moment(&self, l: u32) -> f64 {
        self.divergence(l).map_or(0.0, |divergence| (f64::from(l) - 1.0) * divergence)
    }

    /// A bound on the divergence of a real order: the chord of `ln E_Q R^a`, which is convex in `a` and 0 at 1.
    pub(crate) fn interpolated(&self, order: f64) -> f64 {
        if order > f64::from(self.largest_order()) {
            return f64::INFINITY;
        }
        let below = order.floor().max(1.0);
        let share = order - below;
        let [low, high] = [below, below + share.ceil()].map(|l| self.log_moment(l as u32));
        ((1.0 - share) * low + share * high) / (order - 1.0)
    }
}
