//! The best of several private runs, chosen privately.

use dapple_accounting::rdp::{Conversion, Rdp};
use dapple_accounting::selection::{BaseMechanism, Repetitions, Selection};
use dapple_accounting::{BracketPrecision, Pld, limits};

use super::loss::RunLoss;
use crate::Plan;
use crate::error::PlanError;
use crate::spec::Accountant;

/// The Rényi divergences of a run, bounded in several ways, of which the best counts. `None` stands for a run that sees nothing.
#[derive(Debug, Clone)]
pub(crate) struct CandidateCurve(Vec<Option<Rdp>>);

impl CandidateCurve {
    /// # Errors
    /// A run about which no divergence is known.
    pub(crate) fn of(plan: &Plan) -> Result<Self, PlanError> {
        match plan.loss(Accountant::Rdp)? {
            RunLoss::Renyi(ways) => Ok(Self(ways.into_iter().map(|(rdp, _)| rdp).collect())),
            RunLoss::Distribution { .. } | RunLoss::Allocation(_) => Ok(Self(Vec::new())),
        }
    }

    pub(crate) fn divergence(&self, order: f64) -> f64 {
        let at = |way: &Option<Rdp>| way.as_ref().map_or(0.0, |rdp| rdp.divergence(order));
        self.0.iter().map(at).fold(f64::INFINITY, f64::min)
    }

    pub(crate) fn largest_order(&self) -> f64 {
        // If nothing is ever seen, every order will do.
        self.0.iter().flatten().map(Rdp::largest_order).reduce(f64::max).unwrap_or(1e6)
    }
}

/// Plans of which each repetition draws one, all with the same probability. Only the best result is released.
#[derive(Debug, Clone)]
pub struct PrivateChoice {
    law: Repetitions,
    candidates: Vec<ChoiceCandidate>,
}

#[derive(Debug, Clone)]
struct ChoiceCandidate {
    plan_hash: String,
    /// The expected share of repetitions that carry it out.
    share: f64,
    curve: CandidateCurve,
    /// `None` if only divergences are known.
    pld: Option<Pld>,
}

impl PrivateChoice {
    /// # Errors
    /// No plan at all, or one about which no divergence is known.
    pub fn new(plans: &[Plan], law: Repetitions) -> Result<Self, PlanError> {
        if plans.is_empty() {
            return Err(PlanError::Asked {
                message: "there is nothing to choose from".to_owned(),
                hint: "give at least one plan".to_owned(),
            });
        }
        let one = 1.0 / plans.len() as f64;
        let mut candidates: Vec<ChoiceCandidate> = Vec::new();
        for plan in plans {
            // Plans that do not differ in anything that is priced are priced once.
            match candidates.iter_mut().find(|candidate| candidate.plan_hash == plan.hash()) {
                Some(candidate) => candidate.share += one,
                None => candidates.push(ChoiceCandidate {
                    plan_hash: plan.hash().to_owned(),
                    share: one,
                    curve: CandidateCurve::of(plan)?,
                    pld: plan.pld().ok(),
                }),
            }
        }
        Ok(Self { law, candidates })
    }

    /// The law of the number of repetitions.
    #[must_use]
    pub fn law(&self) -> Repetitions {
        self.law
    }

    /// The price of the choice at every order.
    pub(crate) fn selection(&self) -> Selection<'_> {
        Selection::new(self.law, self)
    }

    /// Epsilon at `delta`.
    ///
    /// # Guarantee
    /// Releasing only the best run, by a score that does not depend on the private records, is (epsilon, delta)-private under the
    /// relation of the plans, provided that the number of repetitions follows the law and stays secret. Which plan was drawn is part of a
    /// run's result, so a repetition is a mixture with a known component: its moments are the means of those of the plans.
    ///
    /// # Errors
    /// A delta out of range, or an epsilon too large to report.
    pub fn epsilon(&self, delta: f64) -> Result<f64, PlanError> {
        let epsilon = self.selection().epsilon(delta)?.epsilon;
        if epsilon > limits::MAX_EPSILON {
            return Err(PlanError::too_large(delta));
        }
        Ok(epsilon)
    }
}

impl BaseMechanism for PrivateChoice {
    fn divergence(&self, order: f64) -> f64 {
        // This is ln sum_j w_j e^((a-1) D_j) / (a-1), with the largest exponent taken out.
        let exponent = |candidate: &ChoiceCandidate| (order - 1.0) * candidate.curve.divergence(order);
        let exponents: Vec<f64> = self.candidates.iter().map(exponent).collect();
        let largest = exponents.iter().copied().fold(0.0, f64::max);
        if largest.is_infinite() {
            return f64::INFINITY;
        }
        let terms = self.candidates.iter().zip(&exponents);
        let sum: f64 = terms.map(|(candidate, x)| candidate.share * (x - largest).exp()).sum();
        (largest + sum.ln()) / (order - 1.0)
    }

    fn delta(&self, epsilon: f64) -> f64 {
        let at = |candidate: &ChoiceCandidate| {
            let exact =
                candidate.pld.as_ref().and_then(|pld| pld.delta(epsilon, BracketPrecision::default()).ok());
            exact.map_or_else(|| by_orders(&candidate.curve, epsilon), |bracket| bracket.upper)
        };
        self.candidates.iter().map(|candidate| candidate.share * at(candidate)).sum::<f64>().min(1.0)
    }

    fn largest_order(&self) -> f64 {
        self.candidates.iter().map(|candidate| candidate.curve.largest_order()).fold(f64::INFINITY, f64::min)
    }
}

/// Delta from the divergences at a few orders.
fn by_orders(curve: &CandidateCurve, epsilon: f64) -> f64 {
    let orders = std::iter::successors(Some(1.25), |order| Some(1.0 + 1.5 * (order - 1.0)));
    let below = orders.take_while(|order| *order <= curve.largest_order());
    below.map(|a| Conversion::Tight.delta(a, curve.divergence(a), epsilon)).fold(1.0, f64::min)
}
