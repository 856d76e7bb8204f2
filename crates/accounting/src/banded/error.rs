//! The noise in a run's iterates, and how it changes with the coefficients.

/// The most steps that are looked at one by one. A longer run is judged by one of so many steps whose learning rate takes the same course.
const MOST_STEPS: usize = 1 << 12;
/// The most steps whose noise is followed; others behave like those beside them.
const MOST_SOURCES: usize = 1 << 6;

/// Where the noise is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredAt {
    /// In all iterates, as the root of the mean square.
    AllIterates,
    /// In the last one.
    LastIterate,
}

/// What an optimiser makes of gradients: iterate `t` is minus the sum over `s <= t` of the learning rate of step `s` times
/// `sum_{r <= s} momentum^{s - r} y_r`.
#[derive(Debug, Clone, PartialEq)]
pub struct Iterates {
    rates: Vec<f64>,
    momentum: f64,
    measured: MeasuredAt,
}

impl Iterates {
    /// Iterates of `steps` steps, of which `rate` tells the learning rate.
    #[must_use]
    pub fn new(steps: u64, momentum: f64, measured: MeasuredAt, rate: impl Fn(u64) -> f64) -> Self {
        let seen = steps.clamp(1, MOST_STEPS as u64);
        let rates = (0..seen).map(|place| rate((2 * place + 1) * steps / (2 * seen))).collect();
        Self { rates, momentum, measured }
    }

    /// The steps whose noise is followed.
    fn sources(&self) -> impl Iterator<Item = usize> {
        let steps = self.rates.len();
        let count = steps.min(MOST_SOURCES);
        (0..count).map(move |place| (2 * place + 1) * steps / (2 * count))
    }
}

/// The first coefficients of `1 / (1 + tail_0 x + tail_1 x^2 + ..)`.
fn inverse(tail: &[f64], len: usize) -> Vec<f64> {
    let mut inverse: Vec<f64> = Vec::with_capacity(len);
    for k in 0..len {
        let before = tail.iter().zip(inverse.iter().rev()).map(|(c, d)| c * d).sum::<f64>();
        inverse.push(if k == 0 { 1.0 } else { -before });
    }
    inverse
}

/// Coefficients behind the first, with what follows from them.
pub(super) struct CoefficientSeries<'a> {
    tail: &'a [f64],
    iterates: &'a Iterates,
    /// `d`: those of `C^-1`.
    inverse: Vec<f64>,
    /// `p_k = sum_j momentum^{k - j} d_j`: what noise of one step adds to the momentum `k` steps later.
    moved: Vec<f64>,
}

impl<'a> CoefficientSeries<'a> {
    pub(super) fn new(tail: &'a [f64], iterates: &'a Iterates) -> Self {
        let inverse = inverse(tail, iterates.rates.len());
        let mut last = 0.0;
        let moved = inverse.iter().map(|d| {
            last = d + iterates.momentum * last;
            last
        });
        let moved = moved.collect();
        Self { tail, iterates, inverse, moved }
    }

    /// The norm of the noise for releases with noise of deviation one.
    pub(super) fn error(&self) -> f64 {
        self.squared(&mut Vec::new()).sqrt()
    }

    /// The squared error times the squared norm of one participation, and its derivatives by the coefficients behind the first.
    pub(super) fn slope(&self) -> (f64, Vec<f64>) {
        let mut by = vec![0.0; self.moved.len()];
        let squared = self.squared(&mut by);
        let norm = 1.0 + self.tail.iter().map(|c| c * c).sum::<f64>();
        // The adjoint of momentum, and then that of d = 1 / c: with C^T v = d', the derivative by c_i is -sum_k v_{k+i} d_k.
        let mut later = 0.0;
        for by in by.iter_mut().rev() {
            later = *by + self.iterates.momentum * later;
            *by = later;
        }
        for k in (0..by.len()).rev() {
            let behind = self.tail.iter().zip(&by[k + 1..]).map(|(c, v)| c * v).sum::<f64>();
            by[k] -= behind;
        }
        let by_tail = self.tail.iter().zip(1..).map(|(c, i)| {
            let moved = by.iter().skip(i).zip(&self.inverse).map(|(v, d)| v * d).sum::<f64>();
            2.0 * c * squared - norm * moved
        });
        (norm * squared, by_tail.collect())
    }

    /// The mean square of the noise over the iterates, or its square in the last one, up to a factor that is the same for all coefficients.
    /// The derivatives by `moved` are added to `by_moved`, unless that is empty.
    fn squared(&self, by_moved: &mut [f64]) -> f64 {
        let Iterates { rates, measured, .. } = self.iterates;
        let mut squared = 0.0;
        let mut sums = vec![0.0; rates.len()];
        for source in self.iterates.sources() {
            let reached = &rates[source..];
            // Noise of this step in the first iterate behind it, in the next one, and so on.
            let mut sum = 0.0;
            for ((to, rate), p) in sums.iter_mut().zip(reached).zip(&self.moved) {
                sum += rate * p;
                *to = sum;
            }
            let sums = &mut sums[..reached.len()];
            if *measured == MeasuredAt::LastIterate {
                let last = sums.len() - 1;
                sums[..last].fill(0.0);
            }
            squared += sums.iter().map(|sum| sum * sum).sum::<f64>();
            let wanted = by_moved.len().min(reached.len());
            let mut later = 0.0;
            for ((by, sum), rate) in by_moved[..wanted].iter_mut().zip(&*sums).zip(reached).rev() {
                later += 2.0 * sum;
                *by += rate * later;
            }
        }
        squared
    }
}
