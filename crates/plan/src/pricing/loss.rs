//! What is known about the privacy loss of a run, and the epsilon that follows.

use dapple_accounting::rdp::Rdp;
use dapple_accounting::{AllocationBound, Bracket, Effort, Pld, RandomAllocation, limits};

use super::part::PricedPart;
use crate::error::PlanError;

/// Epsilon, and for balanced sampling the bound that gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct EpsilonAnswer {
    pub(crate) epsilon: Bracket,
    pub(crate) bound: Option<BalancedBound>,
}

/// A bound on the price of balanced sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BalancedBound {
    /// A record is added or removed.
    OneMove(AllocationBound),
    /// A substitution as a removal and an addition, each bounded in this way.
    TwoMoves(AllocationBound),
    /// A substitution in steps that are taken as known.
    KnownSteps,
}

impl BalancedBound {
    /// The bound in words, for a certificate.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::OneMove(bound) => bound.name().to_owned(),
            Self::TwoMoves(bound) => format!("a removal and an addition, each by: {}", bound.name()),
            Self::KnownSteps => "the steps that a record joins taken as known".to_owned(),
        }
    }

    pub(crate) fn in_two_moves(self) -> Self {
        match self {
            Self::OneMove(bound) => Self::TwoMoves(bound),
            other => other,
        }
    }
}

/// The privacy loss of a run as an accountant knows it.
#[derive(Debug)]
pub(crate) enum RunLoss {
    /// A distribution, for balanced sampling with the bound that it stands for.
    Distribution { pld: Pld, bound: Option<BalancedBound> },
    /// Epochs of balanced sampling, about which more is known than a distribution.
    Allocation(RandomAllocation),
    /// Rényi divergences, which are bounded in several ways for balanced sampling; `None` if nothing is ever seen.
    Renyi(Vec<(Option<Rdp>, Option<BalancedBound>)>),
}

/// The ways to bound an allocation by Rényi divergences.
const WAYS: [AllocationBound; 3] =
    [AllocationBound::RenyiExact, AllocationBound::RenyiBound, AllocationBound::Composition];

impl RunLoss {
    /// Composes all parts to one distribution.
    pub(crate) fn distribution(parts: &[PricedPart]) -> Result<Self, PlanError> {
        let bounds = parts.iter().filter_map(PricedPart::composed_bound);
        // If one part is only bounded, so is the whole.
        let bound = bounds.reduce(|a, b| if a == b { a } else { AllocationBound::Composition });
        let mut pld = Pld::identity();
        for part in parts {
            pld = pld.compose(&part.pld()?);
        }
        Ok(Self::Distribution { pld, bound: bound.map(BalancedBound::OneMove) })
    }

    /// Composes all parts by Rényi divergences.
    pub(crate) fn renyi(parts: &[PricedPart]) -> Result<Self, PlanError> {
        if !parts.iter().any(|part| matches!(part, PricedPart::Allocated(_))) {
            return Ok(Self::Renyi(vec![(rdp(parts, AllocationBound::Exact)?.flatten(), None)]));
        }
        let mut ways = Vec::new();
        for bound in WAYS {
            ways.extend(rdp(parts, bound)?.map(|rdp| (rdp, Some(BalancedBound::OneMove(bound)))));
        }
        Ok(Self::Renyi(ways))
    }

    /// Theorem 3.1 of the partitioning paper for all steps of an epoch, by equation (2) and by equation (3), where they apply.
    pub(crate) fn by_theorem(parts: &[PricedPart]) -> Result<Vec<Self>, PlanError> {
        let mut losses = Vec::new();
        for bound in [AllocationBound::RenyiExact, AllocationBound::RenyiBound] {
            let named = Some(BalancedBound::OneMove(bound));
            losses.extend(rdp(parts, bound)?.map(|rdp| Self::Renyi(vec![(rdp, named)])));
        }
        Ok(losses)
    }

    /// The same loss under the name of this bound.
    pub(crate) fn with_bound(mut self, named: BalancedBound) -> Self {
        match &mut self {
            Self::Distribution { bound, .. } => *bound = Some(named),
            Self::Renyi(ways) => ways.iter_mut().for_each(|(_, bound)| *bound = Some(named)),
            Self::Allocation(_) => {}
        }
        self
    }

    /// The bound that it stands for, if there is one.
    pub(crate) fn bound(&self) -> Option<BalancedBound> {
        match self {
            Self::Distribution { bound, .. } => *bound,
            Self::Renyi(ways) => ways.first().and_then(|(_, bound)| *bound),
            Self::Allocation(_) => None,
        }
    }

    /// Epsilon at `delta`.
    ///
    /// # Guarantee
    /// The run is (upper end, delta)-private. The best of several bounds counts.
    pub(crate) fn epsilon<'a>(
        &self,
        delta: f64,
        effort: impl Into<Effort<'a>>,
    ) -> Result<EpsilonAnswer, PlanError> {
        match self {
            Self::Distribution { pld, bound } => {
                let bracket = pld.epsilon(delta, effort)?;
                Ok(EpsilonAnswer { epsilon: bracket, bound: *bound })
            }
            Self::Allocation(allocation) => {
                let answer = allocation.epsilon(delta, effort)?;
                let bound = Some(BalancedBound::OneMove(answer.bound));
                Ok(EpsilonAnswer { epsilon: answer.epsilon, bound })
            }
            Self::Renyi(ways) => {
                let mut best = (f64::INFINITY, None);
                for (rdp, bound) in ways {
                    let epsilon = match rdp {
                        Some(rdp) => rdp.epsilon(delta)?.epsilon,
                        None => 0.0,
                    };
                    if epsilon < best.0 {
                        best = (epsilon, *bound);
                    }
                }
                if best.0 > limits::MAX_EPSILON {
                    return Err(PlanError::too_large(delta));
                }
                Ok(EpsilonAnswer { epsilon: Bracket::above(best.0), bound: best.1 })
            }
        }
    }

    /// The upper end alone, for searches.
    pub(crate) fn epsilon_upper(&self, delta: f64, effort: Effort<'_>) -> Result<f64, PlanError> {
        match self {
            Self::Distribution { pld, .. } => Ok(pld.epsilon_upper(delta, effort)?),
            Self::Allocation(allocation) => Ok(allocation.epsilon_upper(delta, effort)?),
            Self::Renyi(_) => Ok(self.epsilon(delta, effort)?.epsilon.upper),
        }
    }
}

/// Composes all parts, with allocations bounded in the given way. The outer `None` means that one of them cannot be bounded so, the inner
/// one that nothing is ever seen.
fn rdp(parts: &[PricedPart], bound: AllocationBound) -> Result<Option<Option<Rdp>>, PlanError> {
    let mut whole: Option<Rdp> = None;
    for part in parts {
        let rdp = match part {
            PricedPart::Independent { step, steps } => step.rdp()?.map(|step| step.self_compose(*steps)),
            PricedPart::Allocated(allocated) => match allocated.rdp(bound)? {
                None => return Ok(None),
                rdp => rdp,
            },
        };
        let Some(rdp) = rdp else { continue };
        whole = Some(whole.map_or_else(|| rdp.clone(), |whole| whole.compose(&rdp)));
    }
    Ok(Some(whole))
}
