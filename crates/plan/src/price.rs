//! From a plan to its privacy-loss distribution: one arm, one theorem.

use dapple_accounting::rdp::Rdp;
use dapple_accounting::{
    AccountingError, AllocationBound, Bracket, Distances, Participation, Pld, Precision, Substitution, limits,
};

use crate::certificate::{Certificate, EpsilonBracket};
use crate::error::PlanError;
use crate::part::{Allocated, Part, Step};
use crate::plan::Plan;
use crate::spec::Accountant;
use crate::theorem::{self, Theorem};
use crate::{PublicTokens, Relation, Sampling, Scheme, Split};

/// Epsilon, and for balanced sampling the bound that gave it.
pub(crate) type Answer = (EpsilonBracket, Option<AllocationBound>);

impl Plan {
    pub(crate) fn theorem(&self) -> Result<Theorem, PlanError> {
        if self.public_tokens.is_some() && self.relation != Relation::Masked {
            return Err(PlanError::NoTheorem {
                combination: format!("public tokens under the {} relation", self.relation),
                reason: "the gradient of public tokens gets no noise of its own",
                hint: "use --relation masked, which protects the private tokens alone",
            });
        }
        theorem::theorem(self.relation, self.sampling)
    }

    /// The plan, where it is no schedule, as the accountants know it, with inclusion probability `c`.
    pub(crate) fn part(&self, c: f64) -> Result<Part, PlanError> {
        // g: sample rate; q: the probability that a step sees what is protected.
        let (g, steps) = (self.sample_rate(), self.steps);
        // Noise and public gradients in units of the largest contribution.
        let norm = self.split().map_or(1.0, Split::norm);
        let sigma = self.noise_multiplier / norm;
        let public = self.public_tokens.map_or(0.0, PublicTokens::reach) / norm;
        let substitution = |d0: f64| -> Result<Part, PlanError> {
            let q = g * c;
            // An operation may drop every private pixel: then no step sees anything of the region.
            if q == 0.0 {
                return Ok(Part::Independent { step: Step::Nothing, steps });
            }
            let participation = Participation { absent: 1.0 - g, unaffected: g * (1.0 - c), affected: q };
            let distances = Distances { absent: d0, unaffected: 2.0, affected: 2.0 };
            let step = Step::Substitution(Substitution::new(participation, distances, sigma)?);
            Ok(Part::Independent { step, steps })
        };
        // A microbatch turned around moves the sum by two clip norms: half the noise in units of the movement (X section 2).
        let moved = if self.averaged.shares_clip() { 2.0 } else { 1.0 };
        match self.theorem()? {
            Theorem::PoissonAddRemove | Theorem::PoissonUser => {
                let step = match self.split.clone() {
                    None => Step::PoissonGaussian { rate: g, sigma: sigma / moved },
                    Some(split) => Step::PoissonSplit { rate: g, sigma: self.noise_multiplier, split },
                };
                Ok(Part::Independent { step, steps })
            }
            Theorem::BalancedAddRemove { per_record, epoch_steps }
            | Theorem::BalancedUser { per_record, epoch_steps } => Ok(Part::Allocated(Allocated {
                per_record,
                epoch_steps,
                epochs: steps / epoch_steps,
                submodels: self.split().map_or(1, Split::submodels),
                sigma: sigma / moved,
            })),
            // The amplification theorem with w = (1-g, g(1-c), gc): an absent record is one clip norm away, but in a
            // microbatch even an absent record leaves behind another clipped mean.
            Theorem::PoissonReplace | Theorem::PoissonPatch => substitution(moved),
            // P Theorem 2: another record takes the place of an absent one, two clip norms away.
            Theorem::WithoutReplacementReplace | Theorem::WithoutReplacementPatch => substitution(2.0),
            // The public gradient is the same in both data sets, but an absent record lacks it.
            Theorem::PoissonMasked => substitution(1.0 + public),
            Theorem::WithoutReplacementMasked => substitution(2.0 + 2.0 * public),
        }
    }

    /// The run's only part, where it is one of balanced sampling: more is known about it than its distribution.
    fn allocated(&self) -> Result<Option<Allocated>, PlanError> {
        match self.parts() {
            [only] => Ok(match only.part(only.inclusion_probability())? {
                Part::Allocated(allocated) => Some(allocated),
                Part::Independent { .. } => None,
            }),
            _ => Ok(None),
        }
    }

    /// The privacy-loss distribution of the whole run.
    ///
    /// # Guarantee
    /// Each step's dominates that step's output under the plan's relation, for every data set and every state of the model,
    /// provided the assumptions that the certificate lists; their product dominates all released noisy gradients together, hence
    /// everything computed from them. Phases compose like steps.
    ///
    /// # Errors
    /// A combination that no theorem covers, or a number beyond the accountant's limits.
    pub fn pld(&self) -> Result<Pld, PlanError> {
        self.compose_parts(Plan::inclusion_probability)
    }

    /// All parts of the run with the inclusion probability of each.
    pub(crate) fn compose_parts(&self, c: impl Fn(&Plan) -> f64) -> Result<Pld, PlanError> {
        self.parts()
            .iter()
            .try_fold(Pld::identity(), |whole, part| Ok(whole.compose(&part.part(c(part))?.pld()?)))
    }

    /// Epsilon at the plan's delta by privacy-loss distributions, in a certified bracket. Under balanced sampling other bounds may be
    /// better where a record is seen more than once, and the best counts; the lower end then tells how exactly the bound is known.
    ///
    /// # Guarantee
    /// The run is (upper end, delta)-private under the plan's relation and the certificate's assumptions.
    ///
    /// # Errors
    /// As [`Plan::pld`], or an epsilon too large to report.
    pub fn epsilon(&self, precision: Precision) -> Result<Bracket, PlanError> {
        Ok(match self.allocated()? {
            Some(allocated) => allocated.epsilon(self.delta, precision)?.0,
            None => self.pld()?.epsilon(self.delta, precision)?,
        })
    }

    /// The upper end alone, for searches.
    pub(crate) fn epsilon_upper(&self, precision: Precision) -> Result<f64, PlanError> {
        Ok(match self.allocated()? {
            Some(allocated) => allocated.epsilon(self.delta, precision)?.0.upper,
            None => self.pld()?.epsilon_upper(self.delta, precision)?,
        })
    }

    /// An upper bound on epsilon at the plan's delta by Rényi divergences: a second opinion, without a lower end.
    ///
    /// # Guarantee
    /// The run is (epsilon, delta)-private under the plan's relation and the certificate's assumptions.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn epsilon_rdp(&self) -> Result<f64, PlanError> {
        self.renyi().map(|(epsilon, _)| epsilon)
    }

    /// The least of the Rényi bounds, and for balanced sampling which one it is.
    fn renyi(&self) -> Result<(f64, Option<AllocationBound>), PlanError> {
        use AllocationBound::{Composition, RenyiBound, RenyiExact};
        let balanced = self.sampling.scheme() == Scheme::Balanced;
        // Only allocations are bounded in more than one way.
        let ways = if balanced { &[RenyiExact, RenyiBound, Composition][..] } else { &[RenyiExact] };
        let (mut epsilon, mut best) = (f64::INFINITY, RenyiExact);
        for &way in ways {
            let found = self.renyi_by(way)?;
            if found < epsilon {
                (epsilon, best) = (found, way);
            }
        }
        if epsilon.is_nan() || epsilon > limits::MAX_EPSILON {
            let source = AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta: self.delta };
            return Err(source.into());
        }
        Ok((epsilon, balanced.then_some(best)))
    }

    /// Epsilon with every allocation bounded in the given way; infinite where one cannot be.
    fn renyi_by(&self, bound: AllocationBound) -> Result<f64, PlanError> {
        let mut whole: Option<Rdp> = None;
        for part in self.parts() {
            let rdp = match part.part(part.inclusion_probability())? {
                Part::Independent { step, steps } => step.rdp()?.map(|step| step.self_compose(steps)),
                Part::Allocated(allocated) => match allocated.rdp(bound)? {
                    None => return Ok(f64::INFINITY),
                    rdp => rdp,
                },
            };
            let Some(rdp) = rdp else { continue };
            whole = Some(whole.map_or_else(|| rdp.clone(), |whole| whole.compose(&rdp)));
        }
        Ok(whole.map_or(Ok(0.0), |whole| whole.epsilon(self.delta).map(|answer| answer.epsilon))?)
    }

    /// Epsilon by an accountant, and for balanced sampling the bound that gave it.
    fn answer(&self, accountant: Accountant, precision: Precision) -> Result<Answer, PlanError> {
        if accountant == Accountant::Rdp {
            let (upper, bound) = self.renyi()?;
            return Ok((EpsilonBracket { lower: None, upper }, bound));
        }
        let (Bracket { lower, upper }, bound) = match self.allocated()? {
            Some(allocated) => {
                let (bracket, bound) = allocated.epsilon(self.delta, precision)?;
                (bracket, Some(bound))
            }
            None => (self.pld()?.epsilon(self.delta, precision)?, self.composed_bound()),
        };
        let lower = match bound {
            Some(AllocationBound::RenyiExact | AllocationBound::RenyiBound) => None,
            Some(AllocationBound::Exact | AllocationBound::Composition) | None => Some(lower),
        };
        Ok((EpsilonBracket { lower, upper }, bound))
    }

    /// The bound behind [`Plan::pld`] for a schedule of balanced phases.
    fn composed_bound(&self) -> Option<AllocationBound> {
        let seen = |part: &Plan| match part.sampling {
            Sampling::Balanced { per_record, .. } => Some(per_record),
            Sampling::Poisson | Sampling::WithoutReplacement => None,
        };
        let most = self.parts().iter().filter_map(seen).max()?;
        Some(if most == 1 { AllocationBound::Exact } else { AllocationBound::Composition })
    }

    /// Epsilon by the accountant the plan names.
    pub(crate) fn epsilon_bracket(&self, precision: Precision) -> Result<EpsilonBracket, PlanError> {
        Ok(self.answer(self.accountant, precision)?.0)
    }

    /// Prices the plan with the accountant it names.
    ///
    /// # Guarantee
    /// The run is (`epsilon.upper`, `delta`)-private under the certificate's relation, provided its assumptions.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn price(&self, precision: Precision) -> Result<Certificate, PlanError> {
        Certificate::new(self, self.answer(self.accountant, precision)?, self.accountant)
    }

    /// Prices the plan with the Rényi accountant, whichever it names.
    ///
    /// # Guarantee
    /// As [`Plan::price`]; the bracket has no lower end.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn price_rdp(&self) -> Result<Certificate, PlanError> {
        Certificate::new(self, self.answer(Accountant::Rdp, Precision::default())?, Accountant::Rdp)
    }
}
