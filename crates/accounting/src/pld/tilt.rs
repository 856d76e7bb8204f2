//! Exponential tilting: looking at a composition where the answer lies.
//!
//! Masses multiplied by `e^{lambda L}` concentrate around the epsilon in question, so that Fourier rounding and
//! truncation are small *relative to the delta* that is asked for, however small that is. Any `lambda >= 0` gives a
//! valid answer; a good one gives a narrow bracket.

use crate::numerics::root::minimise;
use crate::pair::{DominatingPair, Probe};

/// What is asked of a composition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ProfileQuestion {
    /// Epsilon at this delta.
    Epsilon { delta: f64 },
    /// Delta at this epsilon.
    Delta { epsilon: f64 },
}

/// Probes of each factor of a composition with its count.
pub(super) struct Probes {
    factors: Vec<(Vec<Probe>, f64)>,
}

/// The logarithm of a delta below which all are alike.
const LEAST_LOG_DELTA: f64 = -120.0;

/// Share of the delta that losses cut off from a single step may cost.
const INFINITE_SHARE: f64 = 1e-5;

impl Probes {
    /// Probes of a composition of which a delta of at least `delta` will be asked: what lies beyond is cut off, since
    /// it would only blur the picture.
    pub(super) fn new(factors: &[(DominatingPair, u64)], delta: f64) -> Self {
        let tail = tail(factors, delta);
        Self { factors: factors.iter().map(|(pair, count)| (probes(pair, tail).0, *count as f64)).collect() }
    }

    /// `ln E_P[e^{lambda S}]` of the composed loss, roughly.
    fn log_moment(&self, lambda: f64) -> f64 {
        self.factors.iter().map(|(probes, count)| count * log_moment(probes, lambda)).sum()
    }

    /// What the question's Chernoff bound minimises over `ln lambda`: an epsilon, or the logarithm of a delta
    /// (the tight conversion from Rényi divergences).
    fn objective(&self, question: ProfileQuestion, lambda: f64) -> f64 {
        let moment = self.log_moment(lambda);
        let prefactor = -lambda.ln_1p() - lambda * (1.0 / lambda).ln_1p();
        match question {
            ProfileQuestion::Epsilon { delta } => (moment - delta.ln() + prefactor) / lambda,
            ProfileQuestion::Delta { epsilon } => moment - lambda * epsilon + prefactor,
        }
    }

    /// A tilt near the saddle point of the question: the least whose Chernoff bound is nearly the best. Where rare
    /// large losses are at play the bound is flat for a long way, and a smaller tilt keeps the mass together.
    pub(super) fn tilt(&self, question: ProfileQuestion) -> f64 {
        const NEARLY: f64 = 0.7;
        let objective = |log_lambda: f64| {
            let value = self.objective(question, log_lambda.exp());
            match question {
                _ if value.is_nan() => f64::INFINITY,
                ProfileQuestion::Epsilon { .. } => value,
                // Losses that cannot reach epsilon have no saddle point: stop where delta is nothing.
                ProfileQuestion::Delta { .. } => value.max(LEAST_LOG_DELTA),
            }
        };
        let lowest = (1e-3_f64).ln();
        let best = minimise(lowest, (1e10_f64).ln(), 0.05, objective);
        let least = objective(best);
        let near = |log_lambda: f64| {
            // An epsilon is worth lambda times as many nats of delta.
            let nats = match question {
                ProfileQuestion::Epsilon { .. } => log_lambda.exp(),
                ProfileQuestion::Delta { .. } => 1.0,
            };
            (objective(log_lambda) - least) * nats <= NEARLY
        };
        if near(lowest) {
            return lowest.exp();
        }
        let (mut low, mut high) = (lowest, best);
        while high - low > 0.05 {
            let middle = 0.5 * (low + high);
            if near(middle) { high = middle } else { low = middle }
        }
        high.exp()
    }

    /// The Chernoff bound on epsilon at `delta`.
    pub(super) fn epsilon(&self, delta: f64, lambda: f64) -> f64 {
        self.objective(ProfileQuestion::Epsilon { delta }, lambda)
    }

    /// The logarithm of the Chernoff bound on the delta in question.
    pub(super) fn log_delta(&self, epsilon: f64, lambda: f64) -> f64 {
        self.objective(ProfileQuestion::Delta { epsilon }, lambda)
    }
}

/// The `P`-mass of one step that may be sent to infinity.
pub(super) fn tail(factors: &[(DominatingPair, u64)], delta: f64) -> f64 {
    let steps: f64 = factors.iter().map(|(_, count)| *count as f64).sum();
    INFINITE_SHARE * delta / steps.max(1.0)
}

/// Probes by increasing loss without the highest ones, whose `P`-masses together are at most `tail`; and the least
/// loss cut off.
fn probes(pair: &DominatingPair, tail: f64) -> (Vec<Probe>, f64) {
    let mut probes = pair.probe();
    probes.retain(|probe| probe.cell.p > 0.0 && probe.loss.is_finite());
    probes.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    let mut mass = 0.0;
    let mut high = probes.last().map_or(0.0, |probe| probe.loss);
    while let Some(probe) = probes.last() {
        mass += probe.cell.p;
        if mass > tail {
            break;
        }
        high = probe.loss;
        probes.pop();
    }
    (probes, high)
}

fn log_moment(probes: &[Probe], lambda: f64) -> f64 {
    let largest = probes
        .iter()
        .filter(|probe| probe.cell.p > 0.0)
        .map(|probe| lambda * probe.loss + probe.cell.p.ln())
        .fold(f64::NEG_INFINITY, f64::max);
    if largest < 600.0 {
        // ln(sum p e^{lambda l}) = ln(1 + sum p (e^{lambda l} - 1)) keeps small moments exact.
        return probes
            .iter()
            .map(|probe| probe.cell.p * (lambda * probe.loss).min(700.0).exp_m1())
            .sum::<f64>()
            .ln_1p();
    }
    let sum: f64 = probes
        .iter()
        .filter(|probe| probe.cell.p > 0.0)
        .map(|probe| (lambda * probe.loss + probe.cell.p.ln() - largest).exp())
        .sum();
    largest + sum.ln()
}

/// Location and scale of one step's tilted loss, by which its grid is chosen.
#[derive(Debug, Clone)]
pub(super) struct LossShape {
    pub(super) mean: f64,
    pub(super) deviation: f64,
    /// Mean absolute loss.
    pub(super) magnitude: f64,
    /// `ln E_P[e^{lambda L}]`.
    pub(super) log_norm: f64,
    /// Losses below this carry a tilted mass of at most the budget.
    pub(super) low: f64,
    /// Losses above this have a `P`-mass of at most the budget.
    pub(super) high: f64,
    /// Increasing losses with their `P`-masses.
    masses: Vec<(f64, f64)>,
}

impl LossShape {
    /// The shape of one step under the tilt, with `tail` the mass that may be cut off at either end.
    pub(super) fn new(pair: &DominatingPair, lambda: f64, tail: f64) -> Self {
        let (probes, high) = probes(pair, tail);
        let log_norm = log_moment(&probes, lambda);
        let weights: Vec<f64> =
            probes.iter().map(|probe| (lambda * probe.loss + probe.cell.p.ln() - log_norm).exp()).collect();
        let total: f64 = weights.iter().sum();
        let moment = |f: &dyn Fn(f64) -> f64| {
            probes.iter().zip(&weights).map(|(p, w)| w * f(p.loss)).sum::<f64>() / total
        };
        let mean = moment(&|l| l);
        let deviation = moment(&|l| (l - mean).powi(2)).sqrt();
        let magnitude = moment(&f64::abs);
        let mut low = probes.first().map_or(0.0, |probe| probe.loss);
        let mut mass = 0.0;
        for (probe, weight) in probes.iter().zip(&weights) {
            mass += weight;
            if mass > tail * total {
                break;
            }
            low = probe.loss;
        }
        let masses = probes.iter().map(|probe| (probe.loss, probe.cell.p)).collect();
        Self { mean, deviation, magnitude, log_norm, low, high, masses }
    }

    /// A lattice step of at most `step`, but not so small that indices or losses would lose their meaning.
    pub(super) fn spacing(&self, step: f64) -> f64 {
        let reach = self.low.abs().max(self.high.abs());
        step.max((self.high - self.low) * 1e-12).max(reach * 16.0 * f64::EPSILON).max(1e-30)
    }

    /// The middle of the interval of length `h` that holds the most mass, if that is more than half.
    pub(super) fn mode(&self, h: f64) -> Option<f64> {
        let (mut from, mut sum) = (0, 0.0);
        let mut best = (0.5, None);
        for (to, (loss, mass)) in self.masses.iter().enumerate() {
            sum += mass;
            while self.masses[from].0 < loss - h {
                sum -= self.masses[from].1;
                from += 1;
            }
            if sum > best.0 {
                best = (sum, Some(0.5 * (self.masses[from].0 + self.masses[to].0)));
            }
        }
        best.1
    }
}
