//! The mechanisms of the partitioning paper (D), priced by its Rényi bounds and by the accountant.

use dapple_accounting::partition::rdp::{Bound, PartitionRdp};
use dapple_accounting::rdp::{Conversion, Rdp};
use dapple_accounting::{Bracket, BracketPrecision, Pld, RandomAllocation, Result, search};

/// How a record takes part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RecordSampling {
    /// It takes part in each step with probability `rate`, through one of the submodels.
    Poisson { rate: f64, model: ModelSplit },
    /// It takes part in a fixed share of all steps.
    Balanced { share: f64 },
    /// It takes part in `per_record` of each `length` steps.
    Epochs { length: u64, per_record: u64 },
}

/// How the model is split, in units of the clip norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ModelSplit {
    pub(super) submodels: u64,
    pub(super) split_norm: f64,
    pub(super) nonsplit_norm: f64,
}

impl ModelSplit {
    /// A model that is split throughout.
    pub(super) fn split(submodels: u64) -> Self {
        Self { submodels, split_norm: 1.0, nonsplit_norm: 0.0 }
    }
}

/// Whose bound prices a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartitionPricing {
    /// D's Rényi bound, by this form of its Theorem 3.1, or Theorem 3.11 where nothing is partitioned.
    Published(Bound),
    /// The accountant's.
    Certified,
}

impl PartitionPricing {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Published(Bound::Exact) => "paper, eq. (2)",
            Self::Published(Bound::Convexity) => "paper, eq. (3)",
            Self::Certified => "certified",
        }
    }
}

/// A run of the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PartitionRun {
    pub(super) sampling: RecordSampling,
    pub(super) steps: u64,
    pub(super) noise_multiplier: f64,
}

/// The orders of the paper's figures (D section 3.4); its conversion is the classic one.
pub(super) fn orders() -> Vec<f64> {
    (2_u32..=100).map(f64::from).collect()
}

impl PartitionRun {
    /// Steps a record takes part in, where the number is fixed.
    pub(super) fn per_record(&self) -> Option<u64> {
        match self.sampling {
            RecordSampling::Poisson { .. } => None,
            RecordSampling::Balanced { share } => Some((share * self.steps as f64).round().max(1.0) as u64),
            RecordSampling::Epochs { length, per_record } => Some(self.steps / length * per_record),
        }
    }

    /// D's Rényi divergences.
    pub(super) fn rdp(&self, bound: Bound) -> Result<Rdp> {
        let sigma = self.noise_multiplier;
        match self.sampling {
            RecordSampling::Poisson { rate, model } => {
                let ModelSplit { submodels, split_norm, nonsplit_norm } = model;
                let step = PartitionRdp::partial_split(submodels, split_norm, nonsplit_norm, sigma, bound)?;
                Ok(Rdp::partition(step.sampled(rate)?).self_compose(self.steps))
            }
            RecordSampling::Balanced { .. } => {
                let ones = self.per_record().unwrap_or(1);
                Ok(Rdp::partition(PartitionRdp::new(self.steps, ones, sigma, bound)?))
            }
            RecordSampling::Epochs { length, per_record } => {
                let epoch = PartitionRdp::new(length, per_record, sigma, bound)?;
                Ok(Rdp::partition(epoch).self_compose(self.steps / length))
            }
        }
    }

    fn pld(rate: f64, model: ModelSplit, sigma: f64, steps: u64) -> Result<Pld> {
        let ModelSplit { submodels, split_norm, nonsplit_norm } = model;
        let step = Pld::partial_split(submodels, split_norm, nonsplit_norm, sigma)?;
        Ok(step.subsample_poisson(rate)?.self_compose(steps))
    }

    fn allocation(&self) -> Result<RandomAllocation> {
        match self.sampling {
            RecordSampling::Epochs { length, per_record } => {
                RandomAllocation::new(length, per_record, self.noise_multiplier)?.epochs(self.steps / length)
            }
            _ => RandomAllocation::new(self.steps, self.per_record().unwrap_or(1), self.noise_multiplier),
        }
    }

    /// Epsilon; a published one has no lower end.
    pub(super) fn epsilon(&self, price: PartitionPricing, delta: f64) -> Result<Bracket> {
        match (price, self.sampling) {
            (PartitionPricing::Published(bound), _) => {
                let answer = self.rdp(bound)?.epsilon_over(&orders(), delta, Conversion::Classic)?;
                Ok(Bracket::above(answer.epsilon))
            }
            (PartitionPricing::Certified, RecordSampling::Poisson { rate, model }) => {
                Self::pld(rate, model, self.noise_multiplier, self.steps)?
                    .epsilon(delta, BracketPrecision::default())
            }
            (PartitionPricing::Certified, _) => {
                Ok(self.allocation()?.epsilon(delta, BracketPrecision::default())?.epsilon)
            }
        }
    }

    /// Delta; a published one has no lower end.
    pub(super) fn delta(&self, price: PartitionPricing, epsilon: f64) -> Result<Bracket> {
        match (price, self.sampling) {
            (PartitionPricing::Published(bound), _) => {
                let delta = self.rdp(bound)?.delta_over(&orders(), epsilon, Conversion::Classic)?;
                Ok(Bracket::above(delta))
            }
            (PartitionPricing::Certified, RecordSampling::Poisson { rate, model }) => {
                Self::pld(rate, model, self.noise_multiplier, self.steps)?
                    .delta(epsilon, BracketPrecision::default())
            }
            (PartitionPricing::Certified, _) => {
                Ok(self.allocation()?.delta(epsilon, BracketPrecision::default())?.0)
            }
        }
    }

    /// The least noise that reaches epsilon at delta; `None` where a bound reaches it with no noise, as one at few orders may.
    pub(super) fn noise(
        sampling: RecordSampling,
        steps: u64,
        price: PartitionPricing,
        epsilon: f64,
        delta: f64,
    ) -> Result<Option<f64>> {
        let reached = |noise_multiplier: f64| {
            let run = Self { sampling, steps, noise_multiplier };
            match (price, sampling) {
                // A search needs no lower ends.
                (PartitionPricing::Certified, RecordSampling::Poisson { rate, model }) => {
                    Self::pld(rate, model, noise_multiplier, steps)?
                        .epsilon_upper(delta, BracketPrecision::default())
                }
                _ => Ok(run.epsilon(price, delta)?.upper),
            }
        };
        let (mut low, mut high) = (0.3, 1e3);
        if price == PartitionPricing::Certified
            && let Some(published) =
                Self::noise(sampling, steps, PartitionPricing::Published(Bound::Convexity), epsilon, delta)?
        {
            // The paper's bound is close, and above.
            (low, high) = (0.5 * published, published);
        }
        search::smallest_real(low, high, epsilon, reached)
    }
}
