//! Random allocation: each record takes part in exactly `k` of `T` steps (balanced iteration subsampling).

use std::sync::OnceLock;

use super::rdp::{Bound, PartitionRdp};
use crate::bracket::Bracket;
use crate::error::{AccountingError, Result, in_range};
use crate::limits;
use crate::pld::{BracketPrecision, Pld};
use crate::rdp::Conversion;
use crate::work::Effort;

impl Pld {
    /// `steps` Gaussian steps of which each record takes part in exactly `per_record`, drawn uniformly and independently of
    /// all other records, under add/remove.
    ///
    /// # Guarantee
    /// For one appearance the pair is that of [`Pld::split`] with `d = steps`, exact. For `k > 1` it is the composition of one
    /// appearance in each of `k` blocks of `floor(T / k)` or one more steps, `T` in all, which dominates: an upper bound, whose bracket
    /// encloses the bound. A uniform subset arises by first dividing the steps into such blocks at random and then drawing one
    /// step of each; telling the division only adds information, and given it appearances are independent (Feldman and
    /// Shenfeld 2025, for equal blocks).
    ///
    /// For `k > T / 2` the missed steps are divided: along the mean of all subsets the pair is Gaussian at distance `k / (sigma sqrt(T))`, and
    /// across it a subset and its complement are mirror images, which noise does not tell apart. So `k` of `T` is `T - k` of `T`
    /// beside a Gaussian at distance `sqrt(2 k - T) / sigma`. `k = T` is plain composition, `k = T - 1` is exact too.
    ///
    /// # Errors
    /// More appearances than steps, no appearance, or a noise multiplier out of range.
    pub fn random_allocation(steps: u64, per_record: u64, noise_multiplier: f64) -> Result<Self> {
        Ok(RandomAllocation::new(steps, per_record, noise_multiplier)?.composed_pld)
    }
}

/// Random allocation with every bound that is known for it.
#[derive(Debug, Clone)]
pub struct RandomAllocation {
    steps: u64,
    per_record: u64,
    noise_multiplier: f64,
    epochs: u64,
    composed_pld: Pld,
    /// Made when they are first asked for.
    renyi: OnceLock<[(AllocationBound, PartitionRdp); 2]>,
}

/// Which bound on a random allocation is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationBound {
    /// The privacy-loss distribution itself: one appearance, all but one, or all.
    Exact,
    /// One appearance in each of `k` blocks of the steps, composed.
    Composition,
    /// Theorem 3.1 of the partitioning paper (D), equation (2), exact in Rényi divergences.
    RenyiExact,
    /// D Theorem 3.1, equation (3).
    RenyiBound,
}

impl AllocationBound {
    /// The bound in words, for a certificate.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact privacy-loss distribution",
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

impl RandomAllocation {
    /// A record takes part in `per_record` of `steps`, for one epoch.
    ///
    /// # Errors
    /// As for [`Pld::random_allocation`].
    pub fn new(steps: u64, per_record: u64, noise_multiplier: f64) -> Result<Self> {
        limits::steps(steps)?;
        let range = "[1, steps]: a record takes part in at least one step and in each at most once";
        in_range("appearances per record", per_record as f64, 1.0, steps as f64, range)?;
        let rare = per_record.min(steps - per_record);
        let mut composed_pld = match per_record - rare {
            0 => Pld::identity(),
            more => Pld::gaussian((more as f64).sqrt(), noise_multiplier)?,
        };
        if let Some(size) = steps.checked_div(rare) {
            let larger = steps - size * rare;
            let even = Pld::split(size, noise_multiplier)?.self_compose(rare - larger);
            composed_pld = composed_pld.compose(&even);
            if larger > 0 {
                let rest = Pld::split(size + 1, noise_multiplier)?.self_compose(larger);
                composed_pld = composed_pld.compose(&rest);
            }
        }
        Ok(Self { steps, per_record, noise_multiplier, epochs: 1, composed_pld, renyi: OnceLock::new() })
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

    /// Whether [`RandomAllocation::pld`] is the mechanism's own and not a bound on it.
    fn is_exact(&self) -> bool {
        self.per_record.min(self.steps - self.per_record) <= 1
    }

    /// The best of all bounds on epsilon at `delta`.
    ///
    /// # Guarantee
    /// Each bound holds by itself for both directions, so that the least of their upper ends holds.
    ///
    /// # Errors
    /// A delta out of range, or an epsilon beyond [`limits::MAX_EPSILON`].
    pub fn epsilon<'a>(&self, delta: f64, effort: impl Into<Effort<'a>>) -> Result<AllocationAnswer> {
        let composed = match self.pld().epsilon(delta, effort) {
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
                    best = Some(AllocationAnswer { epsilon: Bracket::above(epsilon), bound: *bound });
                }
            }
        }
        best.ok_or(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta })
    }

    /// The upper end alone, from a first grid, which is what searches need.
    ///
    /// # Errors
    /// As for [`RandomAllocation::epsilon`].
    pub fn epsilon_upper<'a>(&self, delta: f64, effort: impl Into<Effort<'a>>) -> Result<f64> {
        let mut best = match self.pld().epsilon_upper(delta, effort) {
            Err(AccountingError::EpsilonTooLarge { .. }) => f64::INFINITY,
            other => other?,
        };
        if best.is_infinite() || !self.is_exact() {
            for (_, rdp) in self.renyi()? {
                best = best.min(rdp.epsilon(self.epochs, delta, Conversion::Tight)?.epsilon);
            }
        }
        if best > limits::MAX_EPSILON {
            return Err(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta });
        }
        Ok(best)
    }

    /// The best of all bounds on delta at `epsilon`, and which it was.
    ///
    /// # Guarantee
    /// As for [`RandomAllocation::epsilon`].
    ///
    /// # Errors
    /// An epsilon out of range.
    pub fn delta(&self, epsilon: f64, precision: BracketPrecision) -> Result<(Bracket, AllocationBound)> {
        let mut best = (self.pld().delta(epsilon, precision)?, self.composed_bound());
        if !self.is_exact() {
            for (bound, rdp) in self.renyi()? {
                let delta = rdp.delta(self.epochs, epsilon, Conversion::Tight)?;
                if delta < best.0.upper {
                    best = (Bracket::above(delta), *bound);
                }
            }
        }
        Ok(best)
    }

    fn composed_bound(&self) -> AllocationBound {
        if self.is_exact() { AllocationBound::Exact } else { AllocationBound::Composition }
    }

    fn renyi(&self) -> Result<&[(AllocationBound, PartitionRdp); 2]> {
        if let Some(known) = self.renyi.get() {
            return Ok(known);
        }
        let of = |bound| PartitionRdp::new(self.steps, self.per_record, self.noise_multiplier, bound);
        let made = [
            (AllocationBound::RenyiExact, of(Bound::Exact)?),
            (AllocationBound::RenyiBound, of(Bound::Convexity)?),
        ];
        Ok(self.renyi.get_or_init(|| made))
    }
}
