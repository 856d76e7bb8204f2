//! Several releases from the same records, priced together.

use dapple_accounting::rdp;
use dapple_accounting::selection::Selection;
use dapple_accounting::{Bracket, BracketPrecision, Pld, limits};
use serde::Serialize;

use super::choice::CandidateCurve;
use crate::Plan;
use crate::PrivateChoice;
use crate::error::PlanError;
use crate::spec::Accountant;

/// Shares of delta that the first of two groups may get. The best one counts.
const SHARES: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 0.9];

/// Something that was released.
#[derive(Debug, Clone)]
pub enum Release {
    /// Everything that a run releases.
    Run(Box<Plan>),
    /// The best of several runs, chosen privately.
    Choice(PrivateChoice),
}

impl From<Plan> for Release {
    fn from(plan: Plan) -> Self {
        Self::Run(Box::new(plan))
    }
}

/// How several releases were composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// There is nothing to compose.
    Nothing,
    /// One release alone.
    Alone,
    /// The product of all distributions of losses.
    Distributions,
    /// The sum of all Rényi divergences.
    Renyi,
    /// Epsilons and deltas of groups, added.
    Added,
}

impl Rule {
    /// The rule in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing was released",
            Self::Alone => "one release",
            Self::Distributions => "the product of the distributions of privacy losses",
            Self::Renyi => "the sum of the Rényi divergences",
            Self::Added => "epsilons and deltas added, where only bounds are known",
        }
    }
}

/// The price of several releases together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComposedRuns {
    /// The certified bracket. It has no lower end if something is only bounded.
    pub epsilon: Bracket,
    /// The rule that gave it.
    pub rule: Rule,
}

/// What is known about the releases.
struct Groups<'a> {
    /// The composed distribution of all runs that have one.
    known: Option<Pld>,
    /// Runs for which only an epsilon at a delta is known.
    bounded: Vec<&'a Plan>,
    choices: Vec<Selection<'a>>,
    /// The largest order at which all choices have a divergence.
    largest_order: f64,
}

/// Prices releases from the same records together, all of them under the same relation.
///
/// # Guarantee
/// Everything released is together (upper end, delta)-private, even if each release was planned after seeing those before. Products of
/// dominating pairs dominate adaptive compositions (Zhu, Dong and Wang 2022, Theorem 10); Rényi divergences of one order add up (Mironov
/// 2017, Proposition 1); epsilons and deltas add up (Dwork and Roth 2014, Theorem 3.16). The best of these counts.
///
/// # Errors
/// A release about which nothing is known, or an epsilon too large to report.
pub fn compose(
    releases: &[Release],
    delta: f64,
    precision: BracketPrecision,
) -> Result<ComposedRuns, PlanError> {
    match releases {
        [] => {
            return Ok(ComposedRuns { epsilon: Bracket::ZERO, rule: Rule::Nothing });
        }
        [Release::Run(plan)] => {
            return Ok(ComposedRuns { epsilon: alone(plan, delta, precision)?, rule: Rule::Alone });
        }
        [Release::Choice(choice)] => {
            return Ok(ComposedRuns { epsilon: Bracket::above(choice.epsilon(delta)?), rule: Rule::Alone });
        }
        _ => {}
    }
    let groups = Groups::of(releases)?;
    let ways = [
        groups.product(delta, precision)?.map(|epsilon| ComposedRuns { epsilon, rule: Rule::Distributions }),
        renyi(releases, delta)?
            .map(|epsilon| ComposedRuns { epsilon: Bracket::above(epsilon), rule: Rule::Renyi }),
        groups
            .added(delta, precision)?
            .map(|epsilon| ComposedRuns { epsilon: Bracket::above(epsilon), rule: Rule::Added }),
        apart(releases, delta, precision)?
            .map(|epsilon| ComposedRuns { epsilon: Bracket::above(epsilon), rule: Rule::Added }),
    ];
    let best = ways.into_iter().flatten().filter(|way| way.epsilon.upper <= limits::MAX_EPSILON);
    best.min_by(|a, b| a.epsilon.upper.total_cmp(&b.epsilon.upper)).ok_or_else(|| PlanError::too_large(delta))
}

impl<'a> Groups<'a> {
    fn of(releases: &'a [Release]) -> Result<Self, PlanError> {
        let mut groups =
            Self { known: None, bounded: Vec::new(), choices: Vec::new(), largest_order: f64::INFINITY };
        for release in releases {
            match release {
                Release::Choice(choice) => {
                    use dapple_accounting::selection::BaseMechanism;
                    groups.largest_order = groups.largest_order.min(choice.largest_order());
                    groups.choices.push(choice.selection());
                }
                Release::Run(plan) => match plan.pld() {
                    Ok(pld) => {
                        groups.known =
                            Some(groups.known.map_or_else(|| pld.clone(), |known| known.compose(&pld)));
                    }
                    Err(PlanError::NoTheorem { .. }) => groups.bounded.push(plan),
                    Err(other) => return Err(other),
                },
            }
        }
        Ok(groups)
    }

    /// The product of all distributions; `None` unless all releases are runs with a distribution.
    fn product(&self, delta: f64, precision: BracketPrecision) -> Result<Option<Bracket>, PlanError> {
        let Some(known) = self.known.as_ref().filter(|_| self.bounded.is_empty() && self.choices.is_empty())
        else {
            return Ok(None);
        };
        known.epsilon(delta, precision).map_err(PlanError::from).map(Some).or_else(PlanError::or_none)
    }

    /// Epsilon of all runs that have a distribution.
    fn of_known(&self, pld: &Pld, delta: f64, precision: BracketPrecision) -> Result<Option<f64>, PlanError> {
        pld.epsilon_upper(delta, precision).map_err(PlanError::from).map(Some).or_else(PlanError::or_none)
    }

    /// Epsilon of all choices.
    fn of_choices(&self, delta: f64) -> Result<f64, PlanError> {
        let sum = |order: f64| self.choices.iter().map(|choice| choice.divergence(order)).sum();
        Ok(rdp::epsilon_by(sum, self.largest_order, delta)?.epsilon)
    }

    /// Adds one epsilon for the runs with a distribution, one for the choices, and one for each run that is only bounded. If delta is
    /// divided among more than two, each gets the same share.
    fn added(&self, delta: f64, precision: BracketPrecision) -> Result<Option<f64>, PlanError> {
        let groups =
            usize::from(self.known.is_some()) + usize::from(!self.choices.is_empty()) + self.bounded.len();
        let shares: &[f64] = if groups == 2 { &SHARES } else { &[1.0] };
        let mut best: Option<f64> = None;
        for &first in shares {
            // Of two groups, the first gets this share of delta. Otherwise all get the same.
            let mut deltas = match groups {
                2 => vec![first * delta, (1.0 - first) * delta],
                _ => vec![delta / groups as f64; groups],
            }
            .into_iter();
            let mut next = || deltas.next().filter(|delta| limits::delta(*delta).is_ok());
            let mut sum = Some(0.0);
            if let Some(pld) = &self.known {
                sum = match next() {
                    Some(delta) => plus(sum, self.of_known(pld, delta, precision)?),
                    None => None,
                };
            }
            if !self.choices.is_empty() {
                sum = match next() {
                    Some(delta) => plus(sum, Some(self.of_choices(delta)?)),
                    None => None,
                };
            }
            for plan in &self.bounded {
                sum = match next() {
                    Some(delta) => plus(sum, alone_or_none(plan, delta, precision)?),
                    None => None,
                };
            }
            best = match (best, sum) {
                (Some(best), Some(sum)) => Some(best.min(sum)),
                (best, sum) => best.or(sum),
            };
        }
        Ok(best)
    }
}

/// Adds the epsilons of single releases, which is worth trying if balanced sampling has better bounds than its distribution.
fn apart(releases: &[Release], delta: f64, precision: BracketPrecision) -> Result<Option<f64>, PlanError> {
    let better = |release: &Release| matches!(release, Release::Run(plan) if plan.draws_ahead());
    let share = delta / releases.len() as f64;
    if !releases.iter().any(better) || limits::delta(share).is_err() {
        return Ok(None);
    }
    let mut sum = Some(0.0);
    for release in releases {
        sum = plus(
            sum,
            match release {
                Release::Run(plan) => alone_or_none(plan, share, precision)?,
                Release::Choice(choice) => choice.epsilon(share).map(Some).or_else(PlanError::or_none)?,
            },
        );
    }
    Ok(sum)
}

/// Epsilon from the Rényi divergences of all releases; `None` unless all have them.
fn renyi(releases: &[Release], delta: f64) -> Result<Option<f64>, PlanError> {
    use dapple_accounting::selection::BaseMechanism;
    let (mut curves, mut choices, mut most) = (Vec::new(), Vec::new(), f64::INFINITY);
    for release in releases {
        match release {
            Release::Run(plan) => match CandidateCurve::of(plan) {
                Ok(curve) => {
                    most = most.min(curve.largest_order());
                    curves.push(curve);
                }
                Err(PlanError::NoTheorem { .. }) => return Ok(None),
                Err(other) => return Err(other),
            },
            Release::Choice(choice) => {
                most = most.min(choice.largest_order());
                choices.push(choice.selection());
            }
        }
    }
    let sum = |order: f64| {
        let runs: f64 = curves.iter().map(|curve| curve.divergence(order)).sum();
        runs + choices.iter().map(|choice| choice.divergence(order)).sum::<f64>()
    };
    Ok(Some(rdp::epsilon_by(sum, most, delta)?.epsilon))
}

fn plus(sum: Option<f64>, term: Option<f64>) -> Option<f64> {
    Some(sum? + term?)
}

/// Epsilon of a run alone at another delta, by the accountant of distributions.
fn alone(plan: &Plan, delta: f64, precision: BracketPrecision) -> Result<Bracket, PlanError> {
    let at = plan.changed(|plan| {
        (plan.delta, plan.accountant) = (delta, Accountant::Pld);
        plan.phases.iter_mut().for_each(|phase| phase.delta = delta);
    });
    at.epsilon_bracket(precision)
}

fn alone_or_none(plan: &Plan, delta: f64, precision: BracketPrecision) -> Result<Option<f64>, PlanError> {
    alone(plan, delta, precision).map(|epsilon| Some(epsilon.upper)).or_else(PlanError::or_none)
}
