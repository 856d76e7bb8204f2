//! From a plan to its privacy-loss distribution: one arm, one theorem.

use dapple_accounting::rdp::Rdp;
use dapple_accounting::{
    AccountingError, Bracket, Distances, Participation, Pld, Precision, Substitution, limits,
};

use crate::certificate::{Certificate, EpsilonBracket};
use crate::error::PlanError;
use crate::plan::Plan;
use crate::spec::Accountant;
use crate::{PublicTokens, Relation, Sampling};

/// The theorem that prices a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theorem {
    /// Poisson sampling, one record more or less.
    PoissonAddRemove,
    /// Poisson sampling, one record substituted.
    PoissonReplace,
    /// Poisson sampling, one region of one image substituted.
    PoissonPatch,
    /// A subset of fixed size, one record substituted.
    WithoutReplacementReplace,
    /// A subset of fixed size, one region of one image substituted.
    WithoutReplacementPatch,
    /// Poisson sampling, the private tokens of one record substituted.
    PoissonMasked,
    /// A subset of fixed size, the private tokens of one record substituted.
    WithoutReplacementMasked,
    /// Poisson sampling of users, one user more or less.
    PoissonUser,
}

/// The theorem for a relation and a sampling scheme.
pub(crate) fn theorem(relation: Relation, sampling: Sampling) -> Result<Theorem, PlanError> {
    let none = |reason, hint| {
        let combination = format!("the {relation} relation with {sampling} sampling");
        Err(PlanError::NoTheorem { combination, reason, hint })
    };
    match (relation, sampling) {
        (Relation::AddRemove, Sampling::Poisson) => Ok(Theorem::PoissonAddRemove),
        (Relation::Replace, Sampling::Poisson) => Ok(Theorem::PoissonReplace),
        (Relation::Patch, Sampling::Poisson) => Ok(Theorem::PoissonPatch),
        (Relation::Replace, Sampling::WithoutReplacement) => Ok(Theorem::WithoutReplacementReplace),
        (Relation::Patch, Sampling::WithoutReplacement) => Ok(Theorem::WithoutReplacementPatch),
        (Relation::Masked, Sampling::Poisson) => Ok(Theorem::PoissonMasked),
        (Relation::Masked, Sampling::WithoutReplacement) => Ok(Theorem::WithoutReplacementMasked),
        (Relation::User, Sampling::Poisson) => Ok(Theorem::PoissonUser),
        (Relation::AddRemove, Sampling::WithoutReplacement) => none(
            "a batch of fixed size tells how many records there are, so neighbours must have equally many",
            "use --relation replace, or --sampling poisson",
        ),
        (Relation::User, Sampling::WithoutReplacement) => none(
            "a round of fixed size tells how many users there are, so neighbours must have equally many",
            "use --sampling poisson, or make each user's data one record and use --relation replace",
        ),
        (_, Sampling::Balanced { .. }) => none(
            "only independent coins and subsets of fixed size are priced",
            "use --sampling poisson or --sampling without-replacement",
        ),
    }
}

impl Theorem {
    /// The source, for a reader who wants to check it.
    pub(crate) fn citation(self) -> &'static str {
        match self {
            Self::PoissonAddRemove => {
                "Poisson-sampled Gaussian mechanism under add/remove, both directions (Zhu, Dong and Wang 2022, Theorem 11), composed as dominating pairs (Theorem 10)"
            }
            Self::PoissonReplace => {
                "amplification by Poisson sampling under substitution: the pair (1-g) N(0) + g N(1) against (1-g) N(0) + g N(-1), by advanced joint convexity (Balle, Barthe and Gaboardi 2018) and the Neyman-Pearson lemma, composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::PoissonPatch => {
                "amplification by Poisson sampling and random crops: the pair (1-g) N(0) + g(1-c) N(-1) + gc N(1) against (1-g) N(0) + g N(-1), by advanced joint convexity and the Neyman-Pearson lemma, composed as two-sided dominating pairs; the inclusion probability c is that of patch-level differential privacy by random crops, Theorem 1"
            }
            Self::WithoutReplacementReplace => {
                "amplification by sampling without replacement under substitution (Balle, Barthe and Gaboardi 2018), composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::PoissonMasked => {
                "amplification by Poisson sampling under substitution of private tokens: the pair (1-g) N(-d0) + g N(0) against (1-g) N(-d0) + g N(-2), where d0 = 1 + Cu is how far a sampled record lies from an absent one and Cu bounds its public gradient (0 if that comes from an independent batch, infinite if it is not clipped), by advanced joint convexity and the Neyman-Pearson lemma, composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::WithoutReplacementMasked => {
                "amplification by sampling without replacement under substitution of private tokens: the pair (1-g) N(-d0) + g N(0) against (1-g) N(-d0) + g N(-2), where d0 = 2 + 2 Cu is how far a sampled record lies from the one drawn in its place and Cu bounds a record's public gradient (0 if that comes from an independent batch, infinite if it is not clipped), by advanced joint convexity and the Neyman-Pearson lemma, composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
            Self::PoissonUser => {
                "Poisson-sampled Gaussian mechanism under adding or removing a user, both directions (Zhu, Dong and Wang 2022, Theorem 11; user-level sampling as McMahan, Ramage, Talwar and Zhang 2018), composed as dominating pairs (Theorem 10)"
            }
            Self::WithoutReplacementPatch => {
                "amplification by sampling without replacement and random crops (patch-level differential privacy by random crops, Theorem 2, effective rate g c), composed as two-sided dominating pairs (Zhu, Dong and Wang 2022)"
            }
        }
    }
}

impl Plan {
    pub(crate) fn theorem(&self) -> Result<Theorem, PlanError> {
        if self.public_tokens.is_some() && self.relation != Relation::Masked {
            return Err(PlanError::NoTheorem {
                combination: format!("public tokens under the {} relation", self.relation),
                reason: "the gradient of public tokens gets no noise of its own",
                hint: "use --relation masked, which protects the private tokens alone",
            });
        }
        theorem(self.relation, self.sampling)
    }

    /// One step as the accountants know it, with inclusion probability `c`.
    pub(crate) fn step(&self, c: f64) -> Result<Step, PlanError> {
        // g: sample rate; q: the probability that a step sees what is protected.
        let (g, sigma) = (self.sample_rate(), self.noise_multiplier);
        let public = self.public_tokens.map_or(0.0, PublicTokens::reach);
        let substitution = |d0: f64| -> Result<Step, PlanError> {
            let q = g * c;
            // An operation may drop every private pixel: then no step sees anything of the region.
            if q == 0.0 {
                return Ok(Step::Nothing);
            }
            let participation = Participation { absent: 1.0 - g, unaffected: g * (1.0 - c), affected: q };
            let distances = Distances { absent: d0, unaffected: 2.0, affected: 2.0 };
            Ok(Step::Substitution(Substitution::new(participation, distances, sigma)?))
        };
        match self.theorem()? {
            // A microbatch turned around moves the sum by two clip norms: half the noise in units of the movement (X section 2).
            Theorem::PoissonAddRemove | Theorem::PoissonUser => {
                Ok(Step::PoissonGaussian { rate: g, sigma: sigma / self.sensitivity() })
            }
            // The amplification theorem with w = (1-g, g(1-c), gc): an absent record is one clip norm away.
            Theorem::PoissonReplace | Theorem::PoissonPatch => {
                // In a microbatch even an absent record leaves behind another clipped mean.
                substitution(if self.averaged.shares_clip() { 2.0 } else { 1.0 })
            }
            // P Theorem 2: another record takes the place of an absent one, two clip norms away.
            Theorem::WithoutReplacementReplace | Theorem::WithoutReplacementPatch => substitution(2.0),
            // The public gradient is the same in both data sets, but an absent record lacks it.
            Theorem::PoissonMasked => substitution(1.0 + public),
            Theorem::WithoutReplacementMasked => substitution(2.0 + 2.0 * public),
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
        self.parts().iter().try_fold(Pld::identity(), |whole, part| {
            Ok(whole.compose(&part.step(c(part))?.pld()?.self_compose(part.steps)))
        })
    }

    /// Epsilon at the plan's delta by privacy-loss distributions, in a certified bracket.
    ///
    /// # Guarantee
    /// The run is (upper end, delta)-private under the plan's relation and the certificate's assumptions.
    ///
    /// # Errors
    /// As [`Plan::pld`], or an epsilon too large to report.
    pub fn epsilon(&self, precision: Precision) -> Result<Bracket, PlanError> {
        Ok(self.pld()?.epsilon(self.delta, precision)?)
    }

    /// The upper end alone, for searches.
    pub(crate) fn epsilon_upper(&self, precision: Precision) -> Result<f64, PlanError> {
        Ok(self.pld()?.epsilon_upper(self.delta, precision)?)
    }

    /// An upper bound on epsilon at the plan's delta by Rényi divergences: a second opinion, without a lower end.
    ///
    /// # Guarantee
    /// The run is (epsilon, delta)-private under the plan's relation and the certificate's assumptions.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn epsilon_rdp(&self) -> Result<f64, PlanError> {
        let mut whole: Option<Rdp> = None;
        for part in self.parts() {
            if let Some(step) = part.step(part.inclusion_probability())?.rdp()? {
                let part = step.self_compose(part.steps);
                whole = Some(whole.map_or_else(|| part.clone(), |whole| whole.compose(&part)));
            }
        }
        let epsilon =
            whole.map_or(Ok(0.0), |whole| whole.epsilon(self.delta).map(|answer| answer.epsilon))?;
        if epsilon.is_nan() || epsilon > limits::MAX_EPSILON {
            let source = AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta: self.delta };
            return Err(source.into());
        }
        Ok(epsilon)
    }

    /// Epsilon by the accountant the plan names.
    pub(crate) fn epsilon_bracket(&self, precision: Precision) -> Result<EpsilonBracket, PlanError> {
        match self.accountant {
            Accountant::Pld => {
                let Bracket { lower, upper } = self.epsilon(precision)?;
                Ok(EpsilonBracket { lower: Some(lower), upper })
            }
            Accountant::Rdp => Ok(EpsilonBracket { lower: None, upper: self.epsilon_rdp()? }),
        }
    }

    /// Prices the plan with the accountant it names.
    ///
    /// # Guarantee
    /// The run is (`epsilon.upper`, `delta`)-private under the certificate's relation, provided its assumptions.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn price(&self, precision: Precision) -> Result<Certificate, PlanError> {
        Certificate::new(self, self.epsilon_bracket(precision)?, self.accountant)
    }

    /// Prices the plan with the Rényi accountant, whichever it names.
    ///
    /// # Guarantee
    /// As [`Plan::price`]; the bracket has no lower end.
    ///
    /// # Errors
    /// As [`Plan::epsilon`].
    pub fn price_rdp(&self) -> Result<Certificate, PlanError> {
        let epsilon = EpsilonBracket { lower: None, upper: self.epsilon_rdp()? };
        Certificate::new(self, epsilon, Accountant::Rdp)
    }
}

/// One step as both accountants know it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Step {
    /// Nothing of what is protected is ever seen.
    Nothing,
    /// A Poisson-sampled Gaussian under add/remove.
    PoissonGaussian { rate: f64, sigma: f64 },
    /// A record is absent, unaffected or affected, under substitution.
    Substitution(Substitution),
}

impl Step {
    pub(crate) fn pld(self) -> Result<Pld, PlanError> {
        Ok(match self {
            Self::Nothing => Pld::identity(),
            Self::PoissonGaussian { rate, sigma } => Pld::poisson_gaussian(rate, sigma)?,
            Self::Substitution(step) => Pld::substitution(step),
        })
    }

    fn rdp(self) -> Result<Option<Rdp>, PlanError> {
        Ok(match self {
            Self::Nothing => None,
            Self::PoissonGaussian { rate, sigma } => Some(Rdp::poisson_gaussian(rate, sigma)?),
            Self::Substitution(step) => Some(Rdp::substitution(step)),
        })
    }
}
