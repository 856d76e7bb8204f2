//! One run with canaries, and what an attacker learns from it.

use std::sync::Arc;

use dapple_data::rand_core::Rng;
use dapple_data::{MasterKey, Purpose};
use dapple_plan::{BracketPrecision, Plan, Relation, Sampling};
use dapple_train::{Completed, Rehearsal, Request, TrainError, complete_without_records};
use serde::Serialize;

use crate::blocks::{Blocks, Chance};
use crate::canaries::{Canaries, CanaryWeights, Pattern};
use crate::error::AuditError;
use crate::evidence::Evidence;
use crate::guesses::{self, Guesses};
use crate::rates::{self, Dependence, Rates};

/// How far one standard deviation of noise moves a weight in a batch of one. It is so little that the model stays what it is: weights
/// times the largest input stay far below one.
const MOVE: f64 = 1e-20;
/// A curve need not be sharper than a hundred, because the least refuted noise is not either. It is a bound all the same.
const CURVE_PRECISION: BracketPrecision = BracketPrecision { relative: 1e-2 };
/// How far from the claimed noise multiplier others are tried.
const FARTHEST: f64 = 16.0;
/// The number of canaries if none is given.
const CANARIES: usize = 2000;
/// The most canaries: each has weights of its own in the model, and every record's gradient contains all of them.
const MOST_CANARIES: usize = 100_000;

/// What an audit measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Records for which the attacker guesses a coin each. If not given, 2000, or all records if there are fewer. More canaries allow a
    /// larger bound.
    pub canaries: Option<usize>,
    /// The probability with which the lower bound holds.
    pub confidence: f64,
    /// What the canaries show.
    pub pattern: Pattern,
    /// Whether the attacker is told which submodel each record updates in each step, or which nodes its dropout keeps. No run tells it, and a certificate that counts on its
    /// being hidden says nothing about such an attacker: this shows how much the secret is worth.
    pub tells_submodels: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { canaries: None, confidence: 0.95, pattern: Pattern::default(), tells_submodels: false }
    }
}

/// How the attacker's answers are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Attack {
    /// The attacker guesses the coins for which the evidence is clearest, and right guesses are counted.
    Guesses(Guesses),
    /// The attacker says heads or tails where the evidence passes a threshold, and it is counted how often this is right and wrong.
    Rates(Rates),
}

/// The least noise for which the guesses contradict the plan's whole trade-off curve, not only its epsilon at one delta.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RefutedCurve {
    /// A run that claims so much noise, or more, is refuted.
    pub noise_multiplier: f64,
    /// What such a run would certify.
    pub epsilon: f64,
}

/// A measured lower bound beside the certified upper one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// A bound below the true epsilon, unless the attack was luckier than `confidence` allows.
    pub epsilon_lower_bound: f64,
    /// The probability with which the bound holds, over the coins and all randomness of the run.
    pub confidence: f64,
    /// The epsilon that the certificate promises, which is above the true one.
    pub epsilon_certified: f64,
    /// The delta of both bounds.
    pub delta: f64,
    /// What the guesses refute by the whole curve, with the same confidence by itself; `None` if nothing, or if there is no curve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuted_curve: Option<RefutedCurve>,
    /// The certified noise multiplier.
    pub noise_multiplier: f64,
    /// The relation under which the two contents of a canary make neighbouring data sets.
    pub relation: &'static str,
    /// Records with a coin.
    pub canaries: u64,
    /// What the canaries show.
    pub pattern: Pattern,
    /// The attack that showed the most, and how it came out.
    pub attack: Attack,
    /// Steps of the run.
    pub steps: u64,
    /// The machine on which the run was computed.
    pub machine: String,
    /// What the lower bound rests on.
    pub assumptions: Vec<String>,
    /// The hash of the plan.
    pub plan_hash: String,
}

impl Audit {
    /// Whether the measurement contradicts the certificate.
    #[must_use]
    pub fn contradicts(&self) -> bool {
        let by_curve =
            self.refuted_curve.is_some_and(|refuted| refuted.noise_multiplier <= self.noise_multiplier);
        by_curve || self.epsilon_lower_bound > self.epsilon_certified
    }
}

/// Audits a plan. `progress` is told the number of every step that is taken and how many there are.
///
/// # Guarantee
/// The lower bound exceeds the true epsilon of the training, at the plan's delta and relation, with probability at most `1 - confidence`.
/// It does not say how far above it the truth may be.
///
/// # Errors
/// A plan that cannot be trained, options that make no sense.
pub fn audit(
    request: &Request,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Audit, AuditError> {
    audit_completed(&complete_without_records(request)?, options, progress)
}

/// Audits a plan whose open values have been solved for, as [`audit`] does.
///
/// # Errors
/// As [`audit`].
pub fn audit_completed(
    completed: &Completed,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Audit, AuditError> {
    let (plan, certificate) = (&completed.plan, &completed.certificate);
    let &Options { canaries, confidence, pattern, tells_submodels } = options;
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(AuditError::Confidence(confidence));
    }
    let records = usize::try_from(plan.records()).unwrap_or(usize::MAX);
    let (canaries, most) = (canaries.unwrap_or(CANARIES.min(records)), MOST_CANARIES.min(records));
    if canaries == 0 || canaries > most {
        return Err(AuditError::Canaries { canaries, most });
    }
    if tells_submodels && plan.parts()[0].split().is_none() {
        return Err(AuditError::Split { problem: "there are no submodels to tell of".to_owned() });
    }
    let coins = coins(completed.conduct.seed, canaries)?;
    let attacked = Canaries::new(plan, pattern, records, coins.clone())?;
    let learning_rate = learning_rate(plan);
    let pool = attacked.pool().map_err(TrainError::from)?;
    let records = Arc::new(attacked.clone());
    let mut rehearsal = Rehearsal::new(completed, records, Some(Arc::new(pool)), learning_rate, |shape| {
        attacked.model(shape)
    })?;
    let weights = attacked.weights().map_err(TrainError::from)?;
    let told = (&weights[..], tells_submodels);
    let evidence = gather(&mut rehearsal, canaries, told, (plan, learning_rate), progress)?;
    let dependence = dependence(plan);
    let epsilon_certified = certificate.epsilon.upper;
    let sought = (epsilon_certified, certificate.delta, confidence);
    let (epsilon_lower_bound, attack) = strongest(&evidence, &coins, dependence, sought);
    Ok(Audit {
        epsilon_lower_bound,
        confidence,
        epsilon_certified,
        delta: certificate.delta,
        refuted_curve: refuted_curve(completed, &guesses::made(&evidence, &coins), confidence)?,
        noise_multiplier: certificate.noise_multiplier,
        relation: plan.relation().name(),
        canaries: canaries as u64,
        pattern,
        attack,
        steps: plan.steps(),
        machine: rehearsal.machine().to_owned(),
        assumptions: assumptions(
            attack,
            dependence,
            plan,
            (completed.conduct.seed.is_some(), tells_submodels),
        ),
        plan_hash: plan.hash().to_owned(),
    })
}

fn coins(seed: Option<u64>, count: usize) -> Result<Vec<bool>, AuditError> {
    let master = match seed {
        Some(seed) => MasterKey::from_seed(seed),
        None => MasterKey::from_os().map_err(TrainError::from)?,
    };
    let mut random = master.purpose(Purpose::Canaries).step(0).stream(0);
    Ok((0..count).map(|_| random.next_u32() & 1 == 1).collect())
}

fn learning_rate(plan: &Plan) -> f64 {
    let noise = plan.parts().iter().map(Plan::gradient_noise).fold(1.0, f64::max);
    MOVE / (noise * plan.clip_norm())
}

/// Runs the plan and adds up, for every canary, what the weights after each step say about its coin. The attacker sees these parameters, and
/// may be told the submodels.
fn gather(
    rehearsal: &mut Rehearsal,
    canaries: usize,
    (weights, tells_submodels): (&[CanaryWeights], bool),
    (plan, learning_rate): (&Plan, f64),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<f64>, AuditError> {
    let mut total = vec![0.0; canaries];
    // Where each canary's weights were after the step before, parameter by parameter.
    let mut before = vec![vec![0.0f64; weights.len()]; canaries];
    let mut moved = vec![0.0; weights.len()];
    let mut taken = 0;
    for part in plan.parts() {
        let evidence = Evidence::new(part);
        let mut blocks: Option<Vec<Blocks>> = part.correlated_noise().map(|noise| {
            let group = |canary| rehearsal.group(canary).unwrap_or(0);
            (0..canaries).map(|canary| Blocks::new(noise, group(canary), weights.len())).collect()
        });
        let of_chance = |chance: &Chance| {
            let (values, less, told) = chance.contribution()?;
            Some(evidence.with_less_noise(less).of(&values, told))
        };
        for _ in 0..part.steps() {
            // Weights move downhill by the learning rate times the noisy sum, divided by the batch.
            let scale = part.batch() as f64 / (learning_rate * rehearsal.clip_norm());
            let told: Vec<Option<usize>> =
                (0..canaries).map(|canary| rehearsal.submodel(canary).filter(|_| tells_submodels)).collect();
            let Some(parameters) = rehearsal.step()? else { return Ok(total) };
            for (canary, (total, before)) in total.iter_mut().zip(&mut before).enumerate() {
                for ((moved, before), weights) in moved.iter_mut().zip(&mut *before).zip(weights) {
                    let own = parameters.get(weights.id);
                    let each = own.len() / canaries;
                    let own = &own[canary * each..][..each];
                    let after = weights.unit.map_or_else(|| along(own), |unit| f64::from(own[unit]));
                    *moved = (after - *before) * scale;
                    *before = after;
                }
                *total += match &mut blocks {
                    None => evidence.of(&moved, told[canary]),
                    Some(blocks) => {
                        let chance = blocks[canary].add(&moved, told[canary]);
                        chance.as_ref().and_then(of_chance).unwrap_or(0.0)
                    }
                };
            }
            taken += 1;
            progress(taken, plan.steps());
        }
        for (total, blocks) in total.iter_mut().zip(blocks.into_iter().flatten()) {
            *total += of_chance(&blocks.cut_off()).unwrap_or(0.0);
        }
    }
    Ok(total)
}

/// How far a canary's weights lie along the direction in which they are all equal, which alone says something about its coin.
fn along(own: &[f32]) -> f64 {
    own.iter().map(|&weight| f64::from(weight)).sum::<f64>() / (own.len() as f64).sqrt()
}

/// How canaries depend on each other.
fn dependence(plan: &Plan) -> Dependence {
    let any = |found: fn(&Plan) -> bool| plan.parts().iter().any(found);
    match () {
        // A record that is drawn may take another's place, and records that share a clip share its bound.
        () if any(|part| part.batch_limit().is_some() || part.clip_groups().is_some()) => Dependence::Unknown,
        // The more often a canary is drawn, the further its evidence moves in one direction, so what is counted is associated as the draws
        // are.
        () if any(|part| part.sampling() == Sampling::WithoutReplacement) => Dependence::NegativelyAssociated,
        () => Dependence::Independent,
    }
}

/// The largest bound of several attacks, among which the error rate is divided.
fn strongest(
    evidence: &[f64],
    coins: &[bool],
    dependence: Dependence,
    (certified, delta, confidence): (f64, f64, f64),
) -> (f64, Attack) {
    let rates = match dependence {
        Dependence::Unknown => Vec::new(),
        _ => rates::counted(evidence, coins, certified),
    };
    let guesses = guesses::made(evidence, coins);
    let confidence_each = 1.0 - (1.0 - confidence) / (rates.len() + guesses.len()) as f64;
    let by_guesses = guesses
        .iter()
        .map(|guesses| (guesses.lower_bound(delta, confidence_each), Attack::Guesses(*guesses)));
    let by_rates = rates
        .iter()
        .map(|rates| (rates.lower_bound(delta, confidence_each, dependence), Attack::Rates(*rates)));
    let nothing = (0.0, Attack::Guesses(guesses[0]));
    by_guesses.chain(by_rates).fold(nothing, |best, next| if next.0 > best.0 { next } else { best })
}

/// The least noise multiplier whose trade-off curve is refuted by some of these guesses, among which the error rate is divided. It is found to one part in a
/// hundred.
fn refuted_curve(
    completed: &Completed,
    guesses: &[Guesses],
    confidence: f64,
) -> Result<Option<RefutedCurve>, AuditError> {
    let chance = (1.0 - confidence) / guesses.len() as f64;
    let spec = &completed.spec;
    if !spec.phases.is_empty() {
        return Ok(None);
    }
    let at = |noise: f64| -> Result<Option<(bool, Plan)>, AuditError> {
        let mut spec = spec.clone();
        spec.privacy.noise_multiplier = Some(noise);
        // Some noise is beyond the accountant's means, some plans have bounds on epsilon alone.
        let Ok(plan) = Plan::check_with_masks(&spec, &completed.masks) else { return Ok(None) };
        let Ok(curve) = plan.trade_off_curve(CURVE_PRECISION) else { return Ok(None) };
        Ok(Some((guesses.iter().any(|guesses| guesses.is_refuted_by(&curve, chance)), plan)))
    };
    let claimed = completed.plan.noise_multiplier();
    let tried = claimed / FARTHEST..=claimed * FARTHEST;
    let (mut kept, mut refuted) = (None, None);
    let mut noise = claimed;
    // From the claim on in steps, until the least refuted noise lies between two that were tried.
    while tried.contains(&noise) {
        match at(noise)? {
            None => break,
            Some((true, _)) => refuted = Some(noise),
            Some((false, _)) => kept = Some(noise),
        }
        noise = match (kept, refuted) {
            (Some(kept), Some(refuted)) if refuted / kept < 1.01 => break,
            (Some(kept), Some(refuted)) => (kept * refuted).sqrt(),
            (None, _) => noise / 2.0,
            (_, None) => noise * 2.0,
        };
    }
    let Some(noise_multiplier) = refuted else { return Ok(None) };
    let Some((_, plan)) = at(noise_multiplier)? else { return Ok(None) };
    let epsilon = plan.epsilon(BracketPrecision::default()).map_err(TrainError::from)?.upper;
    Ok(Some(RefutedCurve { noise_multiplier, epsilon }))
}

fn assumptions(
    attack: Attack,
    dependence: Dependence,
    plan: &Plan,
    (seeded, tells_submodels): (bool, bool),
) -> Vec<String> {
    let mut list = vec![
        "the attacker sees the weights behind every step and chooses the canaries, all other records and the model"
            .to_owned(),
        "the coins are fair and independent, and nothing but the run tells of them".to_owned(),
    ];
    if matches!(attack, Attack::Rates(_)) {
        let draws = match dependence {
            Dependence::Independent => Some("the sampler draws records independently"),
            Dependence::NegativelyAssociated => {
                Some("every subset of the batch's size is drawn equally likely")
            }
            Dependence::Unknown => None,
        };
        list.extend(draws.map(|draws| format!("{draws}, and noise is independent in every weight")));
    }
    if plan.relation() == Relation::Masked {
        list.push("the attacker knows all public parts, and marks canaries by them".to_owned());
    }
    if plan.groups() > 1 {
        list.push("the attacker is told in which steps each record may be drawn".to_owned());
    }
    if tells_submodels {
        list.push("the attacker is told which submodel each record updates, which no run tells".to_owned());
    }
    if seeded {
        list.push("train.seed is set: every run draws the same coins and the same noise".to_owned());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binomial;

    /// Randomised response tells every coin correctly with odds `e^epsilon`, and this epsilon is the truth. Bounds are above it no more
    /// often than they may be (by chance, this fails once in a million runs), and most are near it.
    #[test]
    fn bounds_hold_as_often_as_they_say() {
        let (runs, canaries, epsilon, confidence) = (400, 300, 1.5f64, 0.9);
        for dependence in [Dependence::Independent, Dependence::NegativelyAssociated] {
            let (mut above, mut near) = (0, 0);
            for run in 0..runs {
                let mut random = MasterKey::from_seed(run).purpose(Purpose::Canaries).step(1).stream(0);
                let coins = coins(Some(run), canaries).unwrap();
                let lies = (f64::from(u32::MAX) / (1.0 + epsilon.exp())) as u32;
                let tell = |coin: &bool| if *coin == (random.next_u32() > lies) { epsilon } else { -epsilon };
                let evidence: Vec<f64> = coins.iter().map(tell).collect();
                let (bound, _) = strongest(&evidence, &coins, dependence, (epsilon, 0.0, confidence));
                above += u64::from(bound > epsilon);
                near += u64::from(bound > 0.5 * epsilon);
            }
            let log_odds = ((1.0 - confidence) / confidence).ln();
            let by_chance = binomial::at_least(runs, above, log_odds);
            assert!(by_chance > 1e-6, "{above} of {runs} bounds are above the truth");
            assert!(near > runs / 2, "{near} of {runs} bounds are near the truth");
        }
    }
}
