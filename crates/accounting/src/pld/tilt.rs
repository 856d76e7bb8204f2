//! Exponential tilting: looking at a composition where the answer lies.
//!
//! Masses multiplied by `e^{lambda L}` concentrate around the epsilon in question, so that Fourier rounding and
//! truncation are small *relative to the delta* that is asked for, however small that is. Any `lambda >= 0` gives a
//! valid answer; a good one gives a narrow bracket.

use crate::numerics::root::minimise;
use crate::pair::{Pair, Probe};

/// What is asked of a composition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Question {
    /// Epsilon at this delta.
    Epsilon { delta: f64 },
    /// Delta at this epsilon.
    Delta { epsilon: f64 },
}

/// Probes of each factor of a composition with its count.
pub(super) struct Probes {
    factors: Vec<(Vec<Probe>, f64)>,
}

impl Probes {
    pub(super) fn new(factors: &[(Pair, u64)]) -> Self {
        Self { factors: factors.iter().map(|(pair, count)| (pair.probe(), *count as f64)).collect() }
    }

    /// `ln E_P[e^{lambda S}]` of the composed loss, roughly.
    fn log_moment(&self, lambda: f64) -> f64 {
        self.factors.iter().map(|(probes, count)| count * log_moment(probes, lambda)).sum()
    }

    /// What the question's Chernoff bound minimises over `ln lambda`: an epsilon, or the logarithm of a delta
    /// (the tight conversion from Rényi divergences).
    fn objective(&self, question: Question, lambda: f64) -> f64 {
        let moment = self.log_moment(lambda);
        let prefactor = -lambda.ln_1p() - lambda * (1.0 / lambda).ln_1p();
        match question {
            Question::Epsilon { delta } => (moment - delta.ln() + prefactor) / lambda,
            Question::Delta { epsilon } => moment - lambda * epsilon + prefactor,
        }
    }

    /// A tilt near the saddle point of the question.
    pub(super) fn tilt(&self, question: Question) -> f64 {
        // The objective is flat near its minimum: a tilt within 5 per cent of the best is as good.
        minimise((1e-3_f64).ln(), (1e10_f64).ln(), 0.05, |log_lambda| {
            let value = self.objective(question, log_lambda.exp());
            if value.is_nan() { f64::INFINITY } else { value }
        })
        .exp()
    }

    /// A delta no larger than the one the question is about, for deciding what may be truncated.
    pub(super) fn delta_scale(&self, question: Question, lambda: f64) -> f64 {
        match question {
            Question::Epsilon { delta } => delta,
            // The Chernoff bound is rarely more than a hundred times too large.
            Question::Delta { .. } => (0.01 * self.objective(question, lambda).min(0.0).exp()).max(1e-200),
        }
    }
}

fn log_moment(probes: &[Probe], lambda: f64) -> f64 {
    let largest = probes
        .iter()
        .filter(|probe| probe.cell.p > 0.0)
        .map(|probe| lambda * probe.loss + probe.cell.p.ln())
        .fold(f64::NEG_INFINITY, f64::max);
    if largest < 600.0 {
        // ln(sum p e^{lambda l}) = ln(1 + sum p (e^{lambda l} - 1)) keeps small moments exact.
        return probes.iter().map(|probe| probe.cell.p * (lambda * probe.loss).min(700.0).exp_m1()).sum::<f64>().ln_1p();
    }
    let sum: f64 = probes
        .iter()
        .filter(|probe| probe.cell.p > 0.0)
        .map(|probe| (lambda * probe.loss + probe.cell.p.ln() - largest).exp())
        .sum();
    largest + sum.ln()
}

/// Location and scale of one step's tilted loss, for choosing its grid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) mean: f64,
    pub(super) deviation: f64,
    /// Mean absolute loss.
    pub(super) magnitude: f64,
    /// Losses below this carry a tilted mass of at most the budget.
    pub(super) low: f64,
    /// Losses above this have a `P`-mass of at most the budget.
    pub(super) high: f64,
}

/// The shape of one step under the tilt, with `tail` the `P`-mass that may be sent to infinity.
pub(super) fn shape(pair: &Pair, lambda: f64, tail: f64) -> Shape {
    let mut probes = pair.probe();
    probes.retain(|probe| probe.cell.p > 0.0 && probe.loss.is_finite());
    probes.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    let log_norm = log_moment(&probes, lambda);
    let weights: Vec<f64> =
        probes.iter().map(|probe| (lambda * probe.loss + probe.cell.p.ln() - log_norm).exp()).collect();
    let total: f64 = weights.iter().sum();
    let moment = |f: &dyn Fn(f64) -> f64| probes.iter().zip(&weights).map(|(p, w)| w * f(p.loss)).sum::<f64>() / total;
    let mean = moment(&|l| l);
    let deviation = moment(&|l| (l - mean).powi(2)).sqrt();
    let magnitude = moment(&f64::abs);

    let first = probes.first().map_or(0.0, |probe| probe.loss);
    let last = probes.last().map_or(0.0, |probe| probe.loss);
    let mut low = first;
    let mut mass = 0.0;
    for (probe, weight) in probes.iter().zip(&weights) {
        mass += weight;
        if mass > tail * total {
            break;
        }
        low = probe.loss;
    }
    let mut high = last;
    let mut mass = 0.0;
    for probe in probes.iter().rev() {
        mass += probe.cell.p;
        if mass > tail {
            break;
        }
        high = probe.loss;
    }
    Shape { mean, deviation, magnitude, low, high }
}
