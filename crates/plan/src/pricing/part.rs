//! A run or one of its phases, as the accountants see it.

use dapple_accounting::partition::rdp::{Bound, PartitionRdp};
use dapple_accounting::rdp::Rdp;
use dapple_accounting::{AllocationBound, Partition, Pld, RandomAllocation, Substitution};

use crate::Split;
use crate::error::PlanError;

/// Steps whose privacy loss is known together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PricedPart {
    /// Steps that draw their records independently of each other.
    Independent { step: PricedStep, steps: u64 },
    /// Epochs in which each record joins a fixed number of steps.
    Allocated(Allocated),
}

/// One step as both accountants see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PricedStep {
    /// Nothing of what is protected is ever seen.
    Nothing,
    /// A Poisson-sampled Gaussian under add/remove.
    PoissonGaussian { rate: f64, sigma: f64 },
    /// A Poisson-sampled update of a hidden submodel under add/remove.
    PoissonSplit { rate: f64, sigma: f64, split: Split },
    /// A record is absent, unaffected or affected, under substitution.
    Substitution(Substitution),
    /// With at most this probability a step that costs more, and everybody sees which it is.
    Either { usual: Box<PricedStep>, rare: Box<PricedStep>, probability: f64 },
}

/// A record joins `per_record` of the `epoch_steps` steps of each epoch, and updates one of `submodels` in each of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Allocated {
    pub(crate) per_record: u64,
    pub(crate) epoch_steps: u64,
    pub(crate) epochs: u64,
    pub(crate) submodels: u64,
    pub(crate) sigma: f64,
}

impl PricedPart {
    /// The privacy-loss distribution that all its steps have together, or one that dominates it.
    pub(crate) fn pld(&self) -> Result<Pld, PlanError> {
        match self {
            Self::Independent { step, steps } => Ok(step.pld()?.self_compose(*steps)),
            Self::Allocated(allocated) => allocated.pld(),
        }
    }

    /// The bound that [`PricedPart::pld`] stands for, under balanced sampling.
    pub(crate) fn composed_bound(&self) -> Option<AllocationBound> {
        match self {
            Self::Independent { .. } => None,
            Self::Allocated(allocated) if allocated.is_exact() => Some(AllocationBound::Exact),
            Self::Allocated(_) => Some(AllocationBound::Composition),
        }
    }
}

impl PricedStep {
    fn pld(&self) -> Result<Pld, PlanError> {
        Ok(match *self {
            Self::Nothing => Pld::identity(),
            Self::PoissonGaussian { rate, sigma } => Pld::poisson_gaussian(rate, sigma)?,
            // Both parts of the model share the record's coin, so they are composed first and then sampled.
            Self::PoissonSplit { rate, sigma, ref split } => split.pld(sigma)?.subsample_poisson(rate)?,
            Self::Substitution(step) => Pld::substitution(step),
            Self::Either { ref usual, ref rare, probability } => {
                usual.pld()?.or_rarely(&rare.pld()?, probability)?
            }
        })
    }

    pub(crate) fn rdp(&self) -> Result<Option<Rdp>, PlanError> {
        Ok(match *self {
            Self::Nothing => None,
            Self::PoissonGaussian { rate, sigma } => Some(Rdp::poisson_gaussian(rate, sigma)?),
            Self::PoissonSplit { rate, sigma, ref split } => {
                let (inside, beside) = (split.split_norm(), split.nonsplit_norm());
                let part = |partition: &Partition| {
                    let Partition { probability, submodels } = *partition;
                    PartitionRdp::partial_split(submodels, inside, beside, sigma, Bound::Exact)
                        .map(|rdp| (probability, rdp))
                };
                let parts = split.partitions().iter().map(part).collect::<Result<Vec<_>, _>>()?;
                Some(Rdp::partition(PartitionRdp::mixture(&parts)?.sampled(rate)?))
            }
            Self::Substitution(step) => Some(Rdp::substitution(step)),
            Self::Either { .. } => {
                return Err(PlanError::NoTheorem {
                    combination: "sampling.max_batch with Rényi divergences".to_owned(),
                    reason: "their bounds are for batches without a limit",
                    hint: "use --accountant pld",
                });
            }
        })
    }
}

impl Allocated {
    /// # Guarantee
    /// Without submodels, as [`RandomAllocation::pld`]. With them: a record that is in `k` of `T` steps is in one step of each of `k`
    /// random blocks of `floor(T / k)` steps or one more. Given the blocks, its appearances are independent, and a mixture over blocks
    /// costs no more than the worst of them (joint convexity). An appearance in one of `m` steps and one of `d` submodels is a Gaussian
    /// hidden in one of `m d` places.
    fn pld(self) -> Result<Pld, PlanError> {
        let Self { per_record, epoch_steps, epochs, submodels, sigma } = self;
        if submodels == 1 {
            return Ok(self.allocation()?.pld());
        }
        let (size, larger) = (epoch_steps / per_record, epoch_steps % per_record);
        let mut epoch = Pld::split(size * submodels, sigma)?.self_compose(per_record - larger);
        if larger > 0 {
            epoch = epoch.compose(&Pld::split((size + 1) * submodels, sigma)?.self_compose(larger));
        }
        Ok(epoch.self_compose(epochs))
    }

    /// Whether [`Allocated::pld`] is that of the run itself: a record joins one step of an epoch or all of them, or all but one if it is
    /// not also hidden among submodels.
    fn is_exact(self) -> bool {
        let missed = self.epoch_steps - self.per_record;
        self.per_record == 1 || missed == 0 || (missed == 1 && self.submodels == 1)
    }

    pub(crate) fn allocation(self) -> Result<RandomAllocation, PlanError> {
        Ok(RandomAllocation::new(self.epoch_steps, self.per_record, self.sigma)?.epochs(self.epochs)?)
    }

    /// All steps together by Rényi divergences, in one of three ways; `None` if that way does not apply.
    ///
    /// # Guarantee
    /// Holds by Theorem 3.1 of the partitioning paper with equation (2) or (3), or by the bound of [`Allocated::pld`] with equation (2)
    /// for each appearance.
    pub(crate) fn rdp(self, bound: AllocationBound) -> Result<Option<Rdp>, PlanError> {
        let Self { per_record, epoch_steps, epochs, submodels, sigma } = self;
        let (places, ones, count, form) = match bound {
            AllocationBound::Exact => return Ok(None),
            AllocationBound::Composition => {
                (epoch_steps / per_record * submodels, 1, per_record * epochs, Bound::Exact)
            }
            _ if submodels > 1 => return Ok(None),
            AllocationBound::RenyiExact => (epoch_steps, per_record, epochs, Bound::Exact),
            AllocationBound::RenyiBound => (epoch_steps, per_record, epochs, Bound::Convexity),
        };
        Ok(Some(Rdp::partition(PartitionRdp::new(places, ones, sigma, form)?).self_compose(count)))
    }
}
