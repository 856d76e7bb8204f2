//! Substitutions under balanced sampling, where no theorem counts the hidden steps for both contents at once.

use dapple_accounting::{Bracket, Effort, limits};

use super::loss::{BalancedBound, EpsilonAnswer, RunLoss};
use super::part::PricedPart;
use crate::Plan;
use crate::error::PlanError;
use crate::spec::Accountant;
use crate::{Relation, Sampling};

/// Shares of delta that the removal may get; the addition gets the rest. The best one counts.
const SHARES: [f64; 4] = [0.25, 0.5, 0.75, 0.9];

impl Plan {
    /// The better of two bounds on a substitution.
    pub(crate) fn substituted(
        &self,
        accountant: Accountant,
        effort: Effort<'_>,
    ) -> Result<EpsilonAnswer, PlanError> {
        let moves = two_moves(&self.one_move().loss(accountant)?, self.delta, effort)?;
        let known = match self.known_steps(accountant) {
            Some(loss) => loss.epsilon(self.delta, effort).map(Some).or_else(PlanError::or_none)?,
            None => None,
        };
        let best = [moves, known].into_iter().flatten();
        best.min_by(|a, b| a.epsilon.upper.total_cmp(&b.epsilon.upper))
            .ok_or_else(|| PlanError::too_large(self.delta))
    }

    /// Only the upper end, from first grids, for searches.
    pub(crate) fn substituted_upper(&self, effort: Effort<'_>) -> Result<f64, PlanError> {
        let loss = self.one_move().loss(Accountant::Pld)?;
        let moves = best_share(&loss, self.delta, effort)?.map(|(_, upper)| upper);
        let known = match self.known_steps(Accountant::Pld) {
            Some(loss) => loss.epsilon_upper(self.delta, effort).map(Some).or_else(PlanError::or_none)?,
            None => None,
        };
        let best = [moves, known].into_iter().flatten();
        best.min_by(f64::total_cmp).ok_or_else(|| PlanError::too_large(self.delta))
    }

    /// The same run, priced for a record that is added or removed.
    pub(crate) fn one_move(&self) -> Self {
        self.changed(|plan| {
            (plan.relation, plan.masked) = (Relation::AddRemove, None);
            plan.phases.iter_mut().for_each(|phase| *phase = phase.one_move());
        })
    }

    /// The loss if the steps that the record joins were known; `None` beyond the accountant's limits.
    ///
    /// # Guarantee
    /// Both contents join the same steps, so by joint convexity a run costs no more than one whose steps are known. In each of the `k`
    /// steps of an epoch the record is present, and its crop misses the region with probability `1 - c`: the amplification theorem with
    /// `w = (0, 1-c, c)`. Without a crop these are Gaussians at twice the norm of a contribution, and for `k = T` that is the run itself.
    pub(crate) fn known_steps(&self, accountant: Accountant) -> Option<RunLoss> {
        let mut parts = Vec::new();
        for part in self.parts() {
            let Sampling::Balanced { per_record, epoch_steps } = part.sampling else { return None };
            // The record is never absent, so the distance from an absent record does not matter.
            let step = part.substitution(1.0, part.inclusion_probability(), 2.0, 2.0).ok()?;
            parts.push(PricedPart::Independent { step, steps: part.steps / epoch_steps * per_record });
        }
        let loss = match accountant {
            Accountant::Pld => RunLoss::distribution(&parts),
            Accountant::Rdp => RunLoss::renyi(&parts),
        };
        Some(loss.ok()?.with_bound(BalancedBound::KnownSteps))
    }
}

/// Epsilon for a record that is substituted, from the loss of one that is added or removed; `None` if none can be reported.
///
/// # Guarantee
/// Let `M` be the run's output without the record, and `P` and `Q` those with either content. For every event `P - e^(e1+e2) Q = (P -
/// e^e1 M) + e^e1 (M - e^e2 Q) <= delta1 + e^e1 delta2`. So `(e1, delta1)` for the removal and `(e2, delta2)` for the addition with
/// `delta1 + e^e1 delta2 = delta` give `(e1 + e2, delta)`.
pub(crate) fn two_moves(
    loss: &RunLoss,
    delta: f64,
    effort: Effort<'_>,
) -> Result<Option<EpsilonAnswer>, PlanError> {
    let Some((share, _)) = best_share(loss, delta, effort)? else { return Ok(None) };
    let at = |delta: f64| loss.epsilon(delta, effort).map(Some).or_else(PlanError::or_none);
    let Some(removed) = at(share * delta)? else { return Ok(None) };
    let Some(added) = at(rest(share, delta, removed.epsilon.upper))? else { return Ok(None) };
    let upper = removed.epsilon.upper + added.epsilon.upper;
    let bound = removed.bound.map(BalancedBound::in_two_moves);
    Ok((upper <= limits::MAX_EPSILON).then_some(EpsilonAnswer { epsilon: Bracket::above(upper), bound }))
}

/// The delta that the removal leaves for the addition.
fn rest(share: f64, delta: f64, removed: f64) -> f64 {
    (1.0 - share) * delta * (-removed).exp()
}

/// The share of delta that is best spent on the removal, by first grids, and the epsilon that it gives.
fn best_share(loss: &RunLoss, delta: f64, effort: Effort<'_>) -> Result<Option<(f64, f64)>, PlanError> {
    let at = |delta: f64| match limits::delta(delta) {
        Ok(delta) => loss.epsilon_upper(delta, effort).map(Some).or_else(PlanError::or_none),
        Err(_) => Ok(None),
    };
    let mut best: Option<(f64, f64)> = None;
    for share in SHARES {
        let Some(removed) = at(share * delta)? else { continue };
        let Some(added) = at(rest(share, delta, removed))? else { continue };
        let upper = removed + added;
        if upper <= limits::MAX_EPSILON && best.is_none_or(|(_, best)| upper < best) {
            best = Some((share, upper));
        }
    }
    Ok(best)
}
