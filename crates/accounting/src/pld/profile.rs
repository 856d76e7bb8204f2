//! The public type: a privacy-loss distribution that composes and answers.

use std::sync::Arc;

use super::solver::Solver;
use crate::bracket::Bracket;
use crate::error::{AccountingError, Result, in_range};
use crate::limits;
use crate::pair::{Distances, DominatingPair, Gaussian, Laplace, Mixture, Participation, Substitution};
use crate::work::Effort;

/// How narrow a bracket must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BracketPrecision {
    /// Width of the bracket over its upper end.
    pub relative: f64,
}

impl Default for BracketPrecision {
    fn default() -> Self {
        Self { relative: 1e-3 }
    }
}

/// One direction of a relation: pairs with the number of steps each takes.
type Factors = Vec<(DominatingPair, u64)>;

/// The privacy-loss distribution of a mechanism: a dominating pair for each direction of its relation, kept as a
/// product of one-step pairs until a question is asked.
///
/// # Guarantee
/// Every answer is a [`Bracket`] whose upper end never underestimates the privacy loss: discretisation, truncation and
/// Fourier rounding are all counted.
#[derive(Debug, Clone)]
pub struct Pld {
    /// A record is taken away (or substituted, where the relation is symmetric).
    remove: Factors,
    /// A record is added; `None` where one pair bounds both directions.
    add: Option<Factors>,
}

impl Pld {
    /// The mechanism that releases nothing.
    #[must_use]
    pub fn identity() -> Self {
        Self { remove: vec![], add: None }
    }

    /// The Gaussian mechanism: two normals whose means differ by `sensitivity` at deviation `noise_multiplier`.
    ///
    /// # Errors
    /// A noise multiplier or sensitivity out of range.
    pub fn gaussian(sensitivity: f64, noise_multiplier: f64) -> Result<Self> {
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        Self::gaussian_distance(in_range("sensitivity", sensitivity, 1e-9, 1e6, "[1e-9, 1e6]")? / sigma)
    }

    /// Two unit normals at distance `mu`.
    ///
    /// # Errors
    /// A distance that is not positive and finite.
    pub fn gaussian_distance(mu: f64) -> Result<Self> {
        let mu = in_range("distance", mu, 1e-12, 1e6, "[1e-12, 1e6]")?;
        Ok(Self { remove: vec![(DominatingPair::Gaussian(Gaussian { mu }), 1)], add: None })
    }

    /// The Laplace mechanism with pure privacy parameter `epsilon`.
    ///
    /// # Errors
    /// An epsilon out of range.
    pub fn laplace(epsilon: f64) -> Result<Self> {
        let epsilon = in_range("epsilon", epsilon, 1e-6, 1e3, "[1e-6, 1000]")?;
        Ok(Self { remove: vec![(DominatingPair::Laplace(Laplace { epsilon }), 1)], add: None })
    }

    /// One step of DP-SGD with Poisson sampling under add/remove: `((1-q) N(0) + q N(1), N(0))` and its reverse.
    ///
    /// # Errors
    /// A rate or noise multiplier out of range.
    pub fn poisson_gaussian(sample_rate: f64, noise_multiplier: f64) -> Result<Self> {
        Self::gaussian(1.0, noise_multiplier)?.subsample_poisson(sample_rate)
    }

    /// One step of DP-SGD with Poisson sampling, a record substituted: absent from the sample it contributes nothing, so the distances
    /// are 1 to an absent record and 2 between the two.
    ///
    /// # Errors
    /// A rate or noise multiplier out of range.
    pub fn poisson_gaussian_replace(sample_rate: f64, noise_multiplier: f64) -> Result<Self> {
        let rate = limits::sample_rate(sample_rate)?;
        let participation = Participation { absent: 1.0 - rate, unaffected: 0.0, affected: rate };
        let distances = Distances { absent: 1.0, unaffected: 2.0, affected: 2.0 };
        Ok(Self::substitution(Substitution::new(participation, distances, noise_multiplier)?))
    }

    /// One step of DP-SGD on a sample of fixed size, drawn without replacement, a record substituted.
    ///
    /// # Errors
    /// A rate or noise multiplier out of range.
    pub fn fixed_size_gaussian(sample_rate: f64, noise_multiplier: f64) -> Result<Self> {
        Self::gaussian(2.0, noise_multiplier)?.subsample_without_replacement(sample_rate)
    }

    /// The Gaussian mechanism whose sensitivity is drawn: pairs of a probability and a sensitivity, records added or removed.
    ///
    /// # Guarantee
    /// `sum_i p_i N(c_i)` against `N(0)`, and its reverse. It dominates every mechanism in which a record adds a vector of norm at most
    /// `c_i` with probability `p_i`: by the Neyman-Pearson lemma a test of probability `t` under `N(0)` has at most `Phi(Phi^-1(t) + c_i)`
    /// under each of the others, all attained at once by a half-line.
    ///
    /// # Errors
    /// Probabilities that do not add up to 1, sensitivities or noise out of range.
    pub fn gaussian_mixture(parts: &[(f64, f64)], noise_multiplier: f64) -> Result<Self> {
        let sigma = limits::noise_multiplier(noise_multiplier)?;
        let parts: Vec<(f64, f64)> = parts.iter().map(|&(p, sensitivity)| (p, sensitivity / sigma)).collect();
        let mixture = Mixture::new(&parts)?;
        match mixture.single() {
            Some(0.0) => Ok(Self::identity()),
            Some(centre) => Self::gaussian_distance(centre),
            None => Ok(Self::asymmetric(DominatingPair::Mixture(Arc::new(mixture)))),
        }
    }

    /// One step under a substitution relation: the two-sided profile of the amplification theorem.
    #[must_use]
    pub fn substitution(step: Substitution) -> Self {
        Self { remove: vec![(step.into_pair().mirrored(), 1)], add: None }
    }

    /// A pair for removal and one for addition, or one for both.
    pub(super) fn of_pairs(removal: DominatingPair, addition: Option<DominatingPair>) -> Self {
        Self { remove: vec![(removal, 1)], add: addition.map(|pair| vec![(pair, 1)]) }
    }

    /// A pair for removal, and its reverse for addition.
    pub(crate) fn asymmetric(removal: DominatingPair) -> Self {
        Self { add: Some(vec![(removal.clone().reversed(), 1)]), remove: vec![(removal, 1)] }
    }

    /// Whether one pair bounds both directions.
    #[must_use]
    pub fn is_symmetric(&self) -> bool {
        self.add.is_none()
    }

    /// Both mechanisms on the same data, the second possibly chosen after seeing the first's output.
    ///
    /// # Guarantee
    /// Products of dominating pairs dominate adaptive compositions (Zhu et al. 2022, Theorem 10), direction by direction.
    #[must_use]
    pub fn compose(&self, other: &Self) -> Self {
        let join = |a: &Factors, b: &Factors| merge(a.iter().chain(b).cloned());
        let add = match (&self.add, &other.add) {
            (None, None) => None,
            (a, b) => Some(join(a.as_ref().unwrap_or(&self.remove), b.as_ref().unwrap_or(&other.remove))),
        };
        Self { remove: join(&self.remove, &other.remove), add }
    }

    /// The mechanism run `count` times.
    #[must_use]
    pub fn self_compose(&self, count: u64) -> Self {
        let repeat = |factors: &Factors| {
            merge(
                factors.iter().filter(|_| count > 0).map(|(pair, n)| (pair.clone(), n.saturating_mul(count))),
            )
        };
        Self { remove: repeat(&self.remove), add: self.add.as_ref().map(repeat) }
    }

    /// The mechanism on a Poisson sample: the differing record takes part with probability `rate`.
    ///
    /// # Guarantee
    /// Under add/remove, `(P, Q)` becomes `((1-q) Q + q P, Q)` for removal and its reverse for addition
    /// (Zhu et al. 2022, Theorem 11). All factors share the one coin: a composed mechanism is composed first.
    ///
    /// # Errors
    /// A rate out of range.
    pub fn subsample_poisson(&self, rate: f64) -> Result<Self> {
        let rate = limits::sample_rate(rate)?;
        if rate == 1.0 {
            return Ok(self.clone());
        }
        let removal = single(&self.remove)?;
        let turned = match &self.add {
            Some(addition) => single(addition)?.reversed(),
            None => removal.clone(),
        };
        Ok(Self {
            remove: vec![(removal.subsampled(rate), 1)],
            add: Some(vec![(turned.subsampled(rate).reversed(), 1)]),
        })
    }

    /// The mechanism on a sample without replacement, under a substitution relation: the record is in the sample with
    /// probability `rate`.
    ///
    /// # Guarantee
    /// For `a >= 1` the profile is that of `((1-q) Q + q P, Q)` (Balle et al. 2018; patch-level paper, Proposition 5), and the
    /// two-sided profile follows by symmetry.
    ///
    /// # Errors
    /// A rate out of range, or a relation that is not symmetric.
    pub fn subsample_without_replacement(&self, rate: f64) -> Result<Self> {
        let rate = limits::sample_rate(rate)?;
        if !self.is_symmetric() {
            return Err(AccountingError::NotSymmetric { operation: "sampling without replacement" });
        }
        if rate == 1.0 {
            return Ok(self.clone());
        }
        Ok(Self { remove: vec![(single(&self.remove)?.subsampled(rate).mirrored(), 1)], add: None })
    }

    /// This mechanism, or with this probability another in its place, and everybody is told which. The draw does not depend on the data.
    ///
    /// # Guarantee
    /// Dominates every mechanism that draws something independent of the data in secret, and of which this one dominates what it does for
    /// some draws and the other what it does for the rest, where the rest has at most this probability and the other dominates this one (joint
    /// convexity).
    ///
    /// # Errors
    /// A probability that is none, or mechanisms of several steps.
    pub fn or_rarely(&self, rare: &Self, probability: f64) -> Result<Self> {
        let probability = in_range("probability", probability, 0.0, 1.0, "[0, 1]")?;
        if probability == 0.0 {
            return Ok(self.clone());
        }
        let either = |usual: &Factors, rare: &Factors| {
            let (usual, rare) = (Box::new(single(usual)?), Box::new(single(rare)?));
            Ok(vec![(DominatingPair::Either { usual, rare, probability }, 1)])
        };
        let add = match (&self.add, &rare.add) {
            (None, None) => None,
            (a, b) => Some(either(a.as_ref().unwrap_or(&self.remove), b.as_ref().unwrap_or(&rare.remove))?),
        };
        Ok(Self { remove: either(&self.remove, &rare.remove)?, add })
    }

    pub(super) fn directions(&self) -> impl Iterator<Item = &Factors> {
        std::iter::once(&self.remove).chain(&self.add)
    }

    /// The least epsilon for which the mechanism is `(epsilon, delta)`-private, in a certified bracket.
    ///
    /// At delta 0 it is the largest loss, which only mechanisms with bounded losses have.
    ///
    /// # Errors
    /// A delta that is neither 0 nor in [1e-15, 1), 0 for a mechanism whose losses are not bounded, an epsilon beyond
    /// [`limits::MAX_EPSILON`], or more work than `effort` allows.
    pub fn epsilon<'a>(&self, delta: f64, effort: impl Into<Effort<'a>>) -> Result<Bracket> {
        limits::any_delta(delta)?;
        let effort = effort.into();
        let mut solver = Solver::new(effort);
        let mut result = Bracket::exact(0.0);
        for factors in self.directions() {
            result = result.max(counted(effort, factors, || solver.epsilon(factors, delta, result))?);
        }
        if result.upper > limits::MAX_EPSILON {
            return Err(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta });
        }
        Ok(result)
    }

    /// An upper bound on epsilon alone, for searches, which do not need the lower end that tells how good it is.
    ///
    /// # Errors
    /// As for [`Pld::epsilon`].
    pub fn epsilon_upper<'a>(&self, delta: f64, effort: impl Into<Effort<'a>>) -> Result<f64> {
        limits::any_delta(delta)?;
        let effort = effort.into();
        let mut solver = Solver::new(effort);
        let mut result = 0.0_f64;
        for factors in self.directions() {
            result = result.max(counted(effort, factors, || solver.epsilon_upper(factors, delta))?);
        }
        if result > limits::MAX_EPSILON {
            return Err(AccountingError::EpsilonTooLarge { limit: limits::MAX_EPSILON, delta });
        }
        Ok(result)
    }

    /// The least delta for which the mechanism is `(epsilon, delta)`-private, in a certified bracket.
    ///
    /// The precision is that of the epsilon belonging to it: a relative width `r` of epsilon is one of about
    /// `r epsilon |d ln delta / d epsilon|` of delta.
    ///
    /// # Errors
    /// An epsilon out of range.
    pub fn delta(&self, epsilon: f64, precision: BracketPrecision) -> Result<Bracket> {
        Ok(self.profile(&[epsilon], precision)?.first().copied().unwrap_or(Bracket::exact(0.0)))
    }

    /// Delta at each of the epsilons.
    ///
    /// # Errors
    /// An epsilon out of range.
    pub fn profile(&self, epsilons: &[f64], precision: BracketPrecision) -> Result<Vec<Bracket>> {
        for &epsilon in epsilons {
            limits::epsilon(epsilon)?;
        }
        let mut solver = Solver::new(precision.into());
        let mut result = vec![Bracket::exact(0.0); epsilons.len()];
        for factors in self.directions() {
            for (total, part) in result.iter_mut().zip(solver.profile(factors, epsilons)?) {
                *total = total.max(part);
            }
        }
        Ok(result)
    }
}

/// An answer with the laws made for it counted, whether it succeeds or not.
fn counted<T>(effort: Effort<'_>, factors: &Factors, answer: impl FnOnce() -> Result<T>) -> Result<T> {
    let made = || factors.iter().map(|(pair, _)| pair.work()).sum::<f64>();
    let before = made();
    let answer = answer();
    effort.count(made() - before)?;
    answer
}

/// Joins unsampled Gaussian steps into one (their squared distances add) and equal neighbours into one count.
fn merge(factors: impl Iterator<Item = (DominatingPair, u64)>) -> Factors {
    let mut merged: Factors = vec![];
    let mut squared = 0.0;
    for (pair, count) in factors {
        if let DominatingPair::Gaussian(Gaussian { mu }) = pair {
            squared += count as f64 * mu * mu;
        } else if let Some((_, n)) = merged.iter_mut().find(|(other, _)| *other == pair) {
            *n += count;
        } else {
            merged.push((pair, count));
        }
    }
    if squared > 0.0 {
        merged.push((DominatingPair::Gaussian(Gaussian { mu: squared.sqrt() }), 1));
    }
    merged
}

/// The product of factors as one pair, composed numerically where there is more than one.
fn single(factors: &Factors) -> Result<DominatingPair> {
    if let [(pair, 1)] = factors.as_slice() {
        return Ok(pair.clone());
    }
    Ok(DominatingPair::Discrete(Arc::new(
        Solver::new(BracketPrecision::default().into()).materialise(factors)?,
    )))
}
