//! What is known about the privacy loss of a run, and epsilon from it.

use dapple_accounting::rdp::Rdp;
use dapple_accounting::{AccountingError, Allocation, AllocationBound, Pld, Precision, limits};

use crate::certificate::EpsilonBracket;
use crate::error::PlanError;
use crate::part::Part;

/// Epsilon, and for balanced sampling the bound that gave it.
pub(crate) type Answer = (EpsilonBracket, Option<AllocationBound>);

/// The privacy loss of a run as an accountant knows it.
#[derive(Debug)]
pub(crate) enum Loss {
    /// A distribution; for balanced sampling with the bound it stands for.
    Distribution { pld: Pld, bound: Option<AllocationBound> },
    /// Epochs of balanced sampling, about which more is known than a distribution.
    Allocation(Allocation),
    /// Rényi divergences, for balanced sampling bounded in several ways; `None` where nothing is ever seen.
    Renyi(Vec<(Option<Rdp>, Option<AllocationBound>)>),
}

/// The ways to bound an allocation by Rényi divergences.
const WAYS: [AllocationBound; 3] =
    [AllocationBound::RenyiExact, AllocationBound::RenyiBound, AllocationBound::Composition];

impl Loss {
    /// All parts as one distribution.
    pub(crate) fn distribution(parts: &[Part]) -> Result<Self, PlanError> {
        let bounds = parts.iter().filter_map(Part::composed_bound);
        // One part that is only bounded makes the whole a bound.
        let bound = bounds.reduce(|a, b| if a == b { a } else { AllocationBound::Composition });
        let mut pld = Pld::identity();
        for part in parts {
            pld = pld.compose(&part.pld()?);
        }
        Ok(Self::Distribution { pld, bound })
    }

    /// All parts by Rényi divergences.
    pub(crate) fn renyi(parts: &[Part]) -> Result<Self, PlanError> {
        if !parts.iter().any(|part| matches!(part, Part::Allocated(_))) {
            return Ok(Self::Renyi(vec![(rdp(parts, AllocationBound::Exact)?.flatten(), None)]));
        }
        let mut ways = Vec::new();
        for bound in WAYS {
            ways.extend(rdp(parts, bound)?.map(|rdp| (rdp, Some(bound))));
        }
        Ok(Self::Renyi(ways))
    }

    /// D Theorem 3.1 for all steps of an epoch, by equation (2) and by equation (3), where they apply.
    pub(crate) fn by_theorem(parts: &[Part]) -> Result<Vec<Self>, PlanError> {
        let mut losses = Vec::new();
        for bound in [AllocationBound::RenyiExact, AllocationBound::RenyiBound] {
            losses.extend(rdp(parts, bound)?.map(|rdp| Self::Renyi(vec![(rdp, Some(bound))])));
        }
        Ok(losses)
    }

    /// The only bound it stands for, where there is one.
    pub(crate) fn bound(&self) -> Option<AllocationBound> {
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
    pub(crate) fn epsilon(&self, delta: f64, precision: Precision) -> Result<Answer, PlanError> {
        match self {
            Self::Distribution { pld, bound } => {
                let bracket = pld.epsilon(delta, precision)?;
                Ok((EpsilonBracket { lower: Some(bracket.lower), upper: bracket.upper }, *bound))
            }
            Self::Allocation(allocation) => {
                let answer = allocation.epsilon(delta, precision)?;
                let lower = match answer.bound {
                    AllocationBound::Exact | AllocationBound::Composition => Some(answer.epsilon.lower),
                    AllocationBound::RenyiExact | AllocationBound::RenyiBound => None,
                };
                Ok((EpsilonBracket { lower, upper: answer.epsilon.upper }, Some(answer.bound)))
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
                    return Err(too_large(delta));
                }
                Ok((EpsilonBracket { lower: None, upper: best.0 }, best.1))
            }
        }
    }

    /// The upper end alone, for searches.
    pub(crate) fn epsilon_upper(&self, delta: f64, precision: Precision) -> Result<f64, PlanError> {
        match self {
            Self::Distribution { pld, .. } => Ok(pld.epsilon_upper(delta, precision)?),
            Self::Allocation(_) | Self::Renyi(_) => Ok(self.epsilon(delta, precision)?.0.upper),
        }
    }

    /// Epsilon for a record that is substituted, where the loss is that of one added or removed.
    ///
    /// # Guarantee
    /// Let `M` be the run's output without the record, `P` and `Q` those with the one and with the other content. For every event
    /// `P - e^(e1+e2) Q = (P - e^e1 M) + e^e1 (M - e^e2 Q) <= delta1 + e^e1 delta2`, so that `(e1, delta1)` for removal and
    /// `(e2, delta2)` for addition with `delta1 + e^e1 delta2 = delta` give `(e1 + e2, delta)`. The best of a few ways to share
    /// out delta counts.
    pub(crate) fn substituted(&self, delta: f64, precision: Precision) -> Result<Answer, PlanError> {
        let mut best: Option<Answer> = None;
        for share in [0.25, 0.5, 0.75, 0.9] {
            let (removed, bound) = match self.epsilon(share * delta, precision) {
                Ok(answer) => answer,
                Err(PlanError::Accounting { source: AccountingError::EpsilonTooLarge { .. }, .. }) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let rest = (1.0 - share) * delta * (-removed.upper).exp();
            if limits::delta(rest).is_err() {
                continue;
            }
            let upper = removed.upper + self.epsilon(rest, precision)?.0.upper;
            if best.is_none_or(|(least, _)| upper < least.upper) {
                best = Some((EpsilonBracket { lower: None, upper }, bound));
            }
        }
        best.filter(|(epsilon, _)| epsilon.upper <= limits::MAX_EPSILON).ok_or_else(|| too_large(delta))
    }
}

/// All parts composed, allocations bounded in the given way. The outer `None`: one of them cannot be; the inner: nothing is seen.
fn rdp(parts: &[Part], bound: AllocationBound) -> Result<Option<Option<Rdp>>, PlanError> {
    let mut whole: Option<Rdp> = None;
    for part in parts {
        let rdp = match part {
            Part::Independent { step, steps } => step.rdp()?.map(|step| step.self_compose(*steps)),
            Part::Allocated(allocated) => match allocated.rdp(bound)? {
                None => return Ok(None),
                rdp => rdp,
            },
        };
        let Some(rdp) = rdp else { continue };
        whole = Some(whole.map_or_else(|| rdp.clone(), |whole| whole.compose(&rdp)));
    }
    Ok(Some(whole))
}

fn too_large(delta: f64) -> PlanError {
    AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta }.into()
}
