//! Turns a plan into its privacy-loss distribution. Each match arm applies one theorem.

use dapple_accounting::{
    Bracket, BracketPrecision, Distances, Effort, Participation, Pld, Substitution, TradeOffCurve,
};

use super::loss::{BalancedBound, EpsilonAnswer, RunLoss};
use super::part::{Allocated, PricedPart, PricedStep};
use super::substituted;
use super::theorem::{self, Theorem};
use crate::Plan;
use crate::certificate::Certificate;
use crate::check::Chances;
use crate::error::PlanError;
use crate::spec::Accountant;
use crate::{Relation, Scheme, Split};

impl Plan {
    pub(crate) fn theorem(&self) -> Result<Theorem, PlanError> {
        if self.masked.is_some() && self.relation != Relation::Masked {
            return Err(PlanError::NoTheorem {
                combination: format!("public tokens under the {} relation", self.relation),
                reason: "the gradient of public tokens gets no noise of its own",
                hint: "use --relation masked, which protects the private tokens alone",
            });
        }
        theorem::theorem(self.relation, self.masked, self.sampling)
    }

    /// Noise in units of the largest contribution.
    fn sigma(&self) -> f64 {
        self.noise_multiplier / self.norm()
    }

    /// The largest contribution in clip norms.
    fn norm(&self) -> f64 {
        self.split().map_or(1.0, Split::norm)
    }

    /// A step by the amplification theorem with `w = (1-g, g(1-c), gc)`, in which an absent record lies `d0` away and two contents of a
    /// record lie `apart`.
    ///
    /// # Guarantee
    /// As [`Substitution`]: contributions are at most one norm long, so any two of them are at most two norms apart, and one of them and
    /// none at most one.
    pub(crate) fn substitution(&self, g: f64, c: f64, d0: f64, apart: f64) -> Result<PricedStep, PlanError> {
        // q: the probability that a step sees what is protected.
        let q = g * c;
        // An operation may drop every private pixel. Then no step sees anything of the region.
        if q == 0.0 {
            return Ok(PricedStep::Nothing);
        }
        let participation = Participation { absent: 1.0 - g, unaffected: g * (1.0 - c), affected: q };
        let distances = Distances { absent: d0, unaffected: apart, affected: apart };
        Ok(PricedStep::Substitution(Substitution::new(participation, distances, self.sigma())?))
    }

    /// A plan that is not a schedule, as the accountants see it, with inclusion probability `c`.
    pub(crate) fn priced_parts(&self, c: f64) -> Result<Vec<PricedPart>, PlanError> {
        let reaching = |Chances { reach, count }: Chances| match &self.correlated {
            None => self.part(c, count),
            // All distances are multiplied by the reach, so in units of what a chance moves there is less noise.
            Some(_) => {
                let noise_multiplier = (self.noise_multiplier / reach).next_down();
                Self { noise_multiplier, ..self.clone() }.part(c, count)
            }
        };
        self.chances().into_iter().map(reaching).collect()
    }

    /// So many steps, or chances of a record to take part in some.
    fn part(&self, c: f64, steps: u64) -> Result<PricedPart, PlanError> {
        let usual = self.unlimited(c, steps)?;
        let (PricedPart::Independent { step, steps }, Some(limit)) = (&usual, self.batch_limit) else {
            return Ok(usual);
        };
        // A record that is kept takes the place of another, two clip norms away.
        let rare = match *step {
            PricedStep::Nothing => return Ok(usual),
            PricedStep::PoissonGaussian { rate, sigma } => {
                PricedStep::PoissonGaussian { rate, sigma: sigma / 2.0 }
            }
            _ => self.substitution(self.sample_rate(), c, 2.0, 2.0)?,
        };
        let (usual, rare) = (Box::new(step.clone()), Box::new(rare));
        let step =
            PricedStep::Either { usual, rare, probability: limit.probability(self.batch, self.records) };
        Ok(PricedPart::Independent { step, steps: *steps })
    }

    /// The same for batches of any size.
    fn unlimited(&self, c: f64, steps: u64) -> Result<PricedPart, PlanError> {
        // g: sample rate.
        let (g, sigma) = (self.rate_in_group(), self.sigma());
        let public = self.masked.map_or(0.0, |tokens| tokens.public.reach()) / self.norm();
        let independent =
            |d0, apart| Ok(PricedPart::Independent { step: self.substitution(g, c, d0, apart)?, steps });
        let substitution = |d0: f64| independent(d0, 2.0);
        // A microbatch that is turned around moves the sum by two clip norms, which halves the noise in units of the movement (DP-Mix,
        // section 2).
        let moved = if self.averaged.shares_clip() { 2.0 } else { 1.0 };
        match self.theorem()? {
            // The public gradient is there with the private one and without it, but an absent record adds neither.
            Theorem::PoissonTokens if public > 0.0 => independent(1.0 + public, 1.0),
            Theorem::WithoutReplacementTokens => independent(2.0 + 2.0 * public, 1.0),
            Theorem::PoissonAddRemove | Theorem::PoissonUser | Theorem::PoissonTokens => {
                let step = match self.split.clone() {
                    None => PricedStep::PoissonGaussian { rate: g, sigma: sigma / moved },
                    Some(split) => PricedStep::PoissonSplit { rate: g, sigma: self.noise_multiplier, split },
                };
                Ok(PricedPart::Independent { step, steps })
            }
            Theorem::BalancedAddRemove { per_record, epoch_steps }
            | Theorem::BalancedTokens { per_record, epoch_steps }
            | Theorem::BalancedUser { per_record, epoch_steps } => Ok(PricedPart::Allocated(Allocated {
                per_record,
                epoch_steps,
                epochs: steps / epoch_steps,
                submodels: self.split().map_or(1, Split::submodels),
                sigma: sigma / moved,
            })),
            Theorem::BalancedSubstitution => Err(PlanError::NoTheorem {
                combination: format!(
                    "the distribution of losses under the {} relation with balanced sampling",
                    self.relation
                ),
                reason: "only epsilon at a given delta is bounded there",
                hint: "use `dapple account`, --relation add-remove, or --sampling poisson",
            }),
            // The amplification theorem with w = (1-g, g(1-c), gc): an absent record is one clip norm away, but in a microbatch even an
            // absent record leaves another clipped mean behind.
            Theorem::PoissonReplace | Theorem::PoissonPatch => substitution(moved),
            // Theorem 2 of the patch-level paper: another record takes the place of an absent one, two clip norms away.
            Theorem::WithoutReplacementReplace | Theorem::WithoutReplacementPatch => substitution(2.0),
            // The public gradient is the same in both data sets, but an absent record does not add it.
            Theorem::PoissonMasked => substitution(1.0 + public),
            Theorem::WithoutReplacementMasked => substitution(2.0 + 2.0 * public),
        }
    }

    /// The privacy-loss distribution of the whole run.
    ///
    /// # Guarantee
    /// The distribution of each step dominates that step's output under the plan's relation, for every data set and every state of the
    /// model, provided that the assumptions of the certificate hold. Their product dominates all released noisy gradients together, and
    /// so everything computed from them. Phases compose like steps.
    /// # Errors
    /// A combination that no theorem covers, or a number beyond the accountant's limits.
    pub fn pld(&self) -> Result<Pld, PlanError> {
        self.compose_parts(Plan::inclusion_probability)
    }

    /// The trade-off curve of the whole run (f-DP): what tests between neighbouring data sets can reach at the most.
    ///
    /// # Guarantee
    /// As [`Plan::pld`].
    ///
    /// # Errors
    /// As [`Plan::pld`].
    pub fn trade_off_curve(&self, precision: BracketPrecision) -> Result<TradeOffCurve, PlanError> {
        Ok(self.pld()?.trade_off_curve(precision)?)
    }

    /// Composes all parts of the run, with the inclusion probability that `c` gives for each.
    pub(crate) fn compose_parts(&self, c: impl Fn(&Plan) -> f64) -> Result<Pld, PlanError> {
        self.parts().iter().try_fold(Pld::identity(), |whole, part| {
            part.priced_parts(c(part))?.iter().try_fold(whole, |whole, part| Ok(whole.compose(&part.pld()?)))
        })
    }

    /// The parts of the run as the accountants see them.
    fn known_parts(&self) -> Result<Vec<PricedPart>, PlanError> {
        let known = |part: &Plan| part.priced_parts(part.inclusion_probability());
        Ok(self.parts().iter().map(known).collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The run's loss as an accountant sees it.
    pub(crate) fn loss(&self, accountant: Accountant) -> Result<RunLoss, PlanError> {
        let parts = self.known_parts()?;
        match (accountant, parts.as_slice()) {
            (Accountant::Rdp, parts) => RunLoss::renyi(parts),
            (Accountant::Pld, [PricedPart::Allocated(only)]) if only.submodels == 1 => {
                Ok(RunLoss::Allocation(only.allocation()?))
            }
            (Accountant::Pld, parts) => RunLoss::distribution(parts),
        }
    }

    /// Whether a substitution is priced as a removal and an addition.
    fn is_two_moves(&self) -> Result<bool, PlanError> {
        Ok(matches!(self.theorem()?, Theorem::BalancedSubstitution))
    }

    /// Epsilon by an accountant, and for balanced sampling the bound that gave it.
    pub(crate) fn answer<'a>(
        &self,
        accountant: Accountant,
        effort: impl Into<Effort<'a>>,
    ) -> Result<EpsilonAnswer, PlanError> {
        if self.is_two_moves()? {
            return self.substituted(accountant, effort.into());
        }
        self.loss(accountant)?.epsilon(self.delta, effort)
    }

    /// Epsilon at the plan's delta by privacy-loss distributions, in a certified bracket. Under balanced sampling other bounds may be
    /// better if a record is seen more than once, and the best one counts. The lower end then tells how exactly that bound is known, if
    /// that is known at all.
    ///
    /// # Guarantee
    /// The run is (upper end, delta)-private under the plan's relation and the certificate's assumptions.
    ///
    /// # Errors
    /// A combination that no theorem covers, or an epsilon too large to report.
    pub fn epsilon(&self, precision: BracketPrecision) -> Result<Bracket, PlanError> {
        Ok(self.answer(Accountant::Pld, precision)?.epsilon)
    }

    /// The upper end alone, for searches.
    pub(crate) fn epsilon_upper(&self, effort: Effort<'_>) -> Result<f64, PlanError> {
        if self.is_two_moves()? {
            return self.substituted_upper(effort);
        }
        self.loss(Accountant::Pld)?.epsilon_upper(self.delta, effort)
    }

    /// An upper bound on epsilon at the plan's delta by Rényi divergences. It is a second opinion without a lower end.
    ///
    /// # Guarantee
    /// The run is (epsilon, delta)-private under the plan's relation and the certificate's assumptions.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn epsilon_rdp(&self) -> Result<f64, PlanError> {
        Ok(self.answer(Accountant::Rdp, BracketPrecision::default())?.epsilon.upper)
    }

    /// Epsilon by the accountant that the plan names.
    pub(crate) fn epsilon_bracket(&self, precision: BracketPrecision) -> Result<Bracket, PlanError> {
        Ok(self.answer(self.accountant, precision)?.epsilon)
    }

    /// Prices the plan with the accountant it names.
    ///
    /// # Guarantee
    /// The run is (`epsilon.upper`, `delta`)-private under the certificate's relation, provided that its assumptions hold.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn price(&self, precision: BracketPrecision) -> Result<Certificate, PlanError> {
        Certificate::new(self, self.answer(self.accountant, precision)?, self.accountant)
    }

    /// Prices the plan with the Rényi accountant, whichever accountant it names.
    ///
    /// # Guarantee
    /// As [`Plan::price`]; the bracket has no lower end.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn price_rdp(&self) -> Result<Certificate, PlanError> {
        Certificate::new(self, self.answer(Accountant::Rdp, BracketPrecision::default())?, Accountant::Rdp)
    }

    /// Epsilon under balanced sampling by each of the known bounds, beginning with that of privacy-loss distributions; `None` if it is
    /// too large to report. The list is empty under other schemes.
    ///
    /// # Guarantee
    /// The run is (epsilon, delta)-private with each of these epsilons.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn balanced_bounds(
        &self,
        precision: BracketPrecision,
    ) -> Result<Vec<(BalancedBound, Option<f64>)>, PlanError> {
        if self.sampling.scheme() != Scheme::Balanced {
            return Ok(Vec::new());
        }
        let two_moves = self.is_two_moves()?;
        let parts = if two_moves { self.one_move().known_parts()? } else { self.known_parts()? };
        let mut losses = vec![RunLoss::distribution(&parts)?];
        losses.extend(RunLoss::by_theorem(&parts)?);
        let mut found = Vec::new();
        for loss in losses {
            let answer = match two_moves {
                true => substituted::two_moves(&loss, self.delta, precision.into())?,
                false => loss.epsilon(self.delta, precision).map(Some).or_else(PlanError::or_none)?,
            };
            let bound = loss.bound().map(|bound| if two_moves { bound.in_two_moves() } else { bound });
            found.extend(bound.map(|bound| (bound, answer.map(|answer| answer.epsilon.upper))));
        }
        if let (true, Some(known)) = (two_moves, self.known_steps(Accountant::Pld)) {
            let answer = known.epsilon(self.delta, precision).map(Some).or_else(PlanError::or_none)?;
            found.push((BalancedBound::KnownSteps, answer.map(|answer| answer.epsilon.upper)));
        }
        Ok(found)
    }
}
