//! Random allocation: each record takes part in exactly `k` of `T` steps (balanced iteration subsampling).

use super::rdp::{Bound, PartitionRdp};
use crate::bracket::Bracket;
use crate::error::{AccountingError, Result, in_range};
use crate::limits;
use crate::pld::{Pld, Precision};
use crate::rdp::Conversion;

impl Pld {
    /// `steps` Gaussian steps of which each record takes part in exactly `per_record`, drawn uniformly and independently of
    /// all other records, under add/remove.
    ///
    /// # Guarantee
    /// For one appearance the pair is that of [`Pld::split`] with `d = steps`, exact. For `k > 1` it is the `k`-fold
    /// composition of one appearance in `floor(T / k)` steps, which dominates (Feldman and Shenfeld 2025): an upper bound, whose
    /// bracket encloses the bound. `k = T` is plain composition.
    ///
    /// # Errors
    /// More appearances than steps, no appearance, or a noise multiplier out of range.
    pub fn random_allocation(steps: u64, per_record: u64, noise_multiplier: f64) -> Result<Self> {
        Ok(Allocation::new(steps, per_record, noise_multiplier)?.composed_pld)
    }
}

/// Random allocation with every bound that is known for it.
#[derive(Debug, Clone)]
pub struct Allocation {
    steps: u64,
    per_record: u64,
    noise_multiplier: f64,
    epochs: u64,
    composed_pld: Pld,
}

/// Which bound on a random allocation is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationBound {
    /// The privacy-loss distribution of one appearance, exact.
    Exact,
    /// One appearance in each of `k` parts of the steps, composed.
    Composition,
    /// D Theorem 3.1, equation (2), exact in Rényi divergences.
    RenyiExact,
    /// D Theorem 3.1, equation (3).
    RenyiBound,
}

impl AllocationBound {
    /// The bound in words, for a certificate.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact privacy-loss distribution of one appearance",
            Self::Composition => "composition of one appearance in each of k parts",
            Self::RenyiExact => "Rényi divergence of the mixture, exact (D Theorem 3.1, eq. 2)",
            Self::RenyiBound => "Rényi divergence of the mixture, bounded (D Theorem 3.1, eq. 3)",
        }
    }
}

/// The best epsilon and the bound that gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllocationAnswer {
    /// The upper end is the guarantee. The lower end tells how exactly the *bound* is known; it bounds the mechanism's own
    /// epsilon from below only for [`AllocationBound::Exact`].
    pub epsilon: Bracket,
    /// The bound that won.
    pub bound: AllocationBound,
}

impl Allocation {
    /// `per_record` of `steps`, once.
    ///
    /// # Errors
    /// As for [`Pld::random_allocation`].
    pub fn new(steps: u64, per_record: u64, noise_multiplier: f64) -> Result<Self> {
        limits::steps(steps)?;
        let range = "[1, steps]: a record takes part in at least one step and in each at most once";
        in_range("appearances per record", per_record as f64, 1.0, steps as f64, range)?;
        let composed_pld = Pld::split(steps / per_record, noise_multiplier)?.self_compose(per_record);
        Ok(Self { steps, per_record, noise_multiplier, epochs: 1, composed_pld })
    }

    /// The allocation drawn afresh in each of `epochs` epochs (D Remark 3.10).
    ///
    /// # Errors
    /// No epoch, or too many.
    pub fn epochs(mut self, epochs: u64) -> Result<Self> {
        self.epochs = in_range("epochs", epochs as f64, 1.0, 1e7, "[1, 10000000]").map(|_| epochs)?;
        Ok(self)
    }

    /// All epochs as a privacy-loss distribution, for composition with other mechanisms.
    #[must_use]
    pub fn pld(&self) -> Pld {
        self.composed_pld.self_compose(self.epochs)
    }

    /// Whether [`Allocation::pld`] is the mechanism's own and not a bound on it.
    fn is_exact(&self) -> bool {
        self.per_record == 1 || self.per_record == self.steps
    }

    /// The best of all bounds on epsilon at `delta`.
    ///
    /// # Guarantee
    /// Each bound holds by itself for both directions, so that the least of their upper ends holds.
    ///
    /// # Errors
    /// A delta out of range, or an epsilon beyond [`limits::MAX_EPSILON`].
    pub fn epsilon(&self, delta: f64, precision: Precision) -> Result<AllocationAnswer> {
        let composed = match self.pld().epsilon(delta, precision) {
            Ok(bracket) => Some(bracket),
            Err(AccountingError::EpsilonTooLarge { .. }) => None,
            Err(error) => return Err(error),
        };
        // An exact distribution is never above its own Rényi divergences.
        let mut best = composed.map(|epsilon| AllocationAnswer { epsilon, bound: self.composed_bound() });
        if best.is_none() || !self.is_exact() {
            for (bound, rdp) in self.renyi()? {
                let epsilon = rdp.epsilon(self.epochs, delta, Conversion::Tight)?.epsilon;
                if epsilon <= limits::MAX_EPSILON && best.is_none_or(|best| epsilon < best.epsilon.upper) {
                    best = Some(AllocationAnswer { epsilon: Bracket::exact(epsilon), bound });
                }
            }
        }
        best.ok_or(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta })
    }

    /// The best of all bounds on delta at `epsilon`, and which it was.
    ///
    /// # Guarantee
    /// As for [`Allocation::epsilon`].
    ///
    /// # Errors
    /// An epsilon out of range.
    pub fn delta(&self, epsilon: f64, precision: Precision) -> Result<(Bracket, AllocationBound)> {
        let mut best = (self.pld().delta(epsilon, precision)?, self.composed_bound());
        if !self.is_exact() {
            for (bound, rdp) in self.renyi()? {
                let delta = rdp.delta(self.epochs, epsilon, Conversion::Tight)?;
                if delta < best.0.upper {
                    best = (Bracket::exact(delta), bound);
                }
            }
        }
        Ok(best)
    }

    fn composed_bound(&self) -> AllocationBound {
        if self.is_exact() { AllocationBound::Exact } else { AllocationBound::Composition }
    }

    fn renyi(&self) -> Result<[(AllocationBound, PartitionRdp); 2]> {
        let of = |bound| PartitionRdp::new(self.steps, self.per_record, self.noise_multiplier, bound);
        Ok([
            (AllocationBound::RenyiExact, of(Bound::Exact)?),
            (AllocationBound::RenyiBound, of(Bound::Convexity)?),
        ])
    }
}
