//! Composition: powers of a lattice distribution in a few stages, each on a grid that fits what it has become.

use super::discretise::{discretise, floor_exponent};
use super::lattice::{Lattice, power_of_two};
use super::tilt::shape;
use crate::numerics::UNIT_ROUNDOFF;
use crate::numerics::fft::Convolver;
use crate::pair::{Pair, Side};

/// How finely and with which tilt to compose.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    /// Grid step over the standard deviation of what is being composed.
    pub(super) resolution: f64,
    pub(super) lambda: f64,
    /// The least delta that must be resolved, for truncation.
    pub(super) delta: f64,
}

impl Grid {
    /// Errors shrink with the square of the resolution; `ratio` is the allowed error over the one seen.
    pub(super) fn refine(&mut self, ratio: f64) {
        self.resolution *= (0.9 * ratio.sqrt()).clamp(0.15, 0.7);
    }
}

/// A composed loss distribution under the tilt `lambda`.
///
/// `P(S = k h) = e^{log_norm - lambda k h} mass_k`, up to `error`.
#[derive(Debug, Clone)]
pub(super) struct Composed {
    pub(super) lattice: Lattice,
    pub(super) lambda: f64,
    pub(super) log_norm: f64,
    /// l1 bound on what Fourier rounding and truncation did to the tilted masses.
    pub(super) error: f64,
    /// `P`-mass at infinite loss.
    pub(super) infinite: f64,
    /// How far rounded cell boundaries may have moved the composed loss.
    pub(super) slack: f64,
}

/// Tilted mass that all truncations of a composition together may lose.
const TAIL_BUDGET: f64 = 1e-9;
/// The longest transform.
const MAX_LENGTH: f64 = (1 << 22) as f64;
/// Share of the delta that losses beyond the first lattice may cost.
const INFINITE_SHARE: f64 = 1e-5;

/// Composes `count_i` steps of each pair.
///
/// # Guarantee
/// With `Side::Upper`, `delta(eps)` computed from the result with its `error`, `infinite` and `slack` added is never
/// below that of the exact composition; with `Side::Lower` and these subtracted, never above it.
pub(super) fn compose(convolver: &mut Convolver, factors: &[(Pair, u64)], grid: Grid, side: Side) -> Composed {
    let steps: f64 = factors.iter().map(|(_, count)| *count as f64).sum();
    let tail = INFINITE_SHARE * grid.delta / steps;
    let mut parts = vec![];
    let mut total =
        Composed { lattice: zero(), lambda: grid.lambda, log_norm: 0.0, error: 0.0, infinite: 0.0, slack: 0.0 };
    for (pair, count) in factors {
        let shape = shape(pair, grid.lambda, tail);
        let exponent = floor_exponent(grid.resolution * shape.deviation).clamp(-100, 20);
        let step = discretise(pair, &shape, exponent, grid.resolution, grid.lambda, side);
        let count_f = *count as f64;
        total.log_norm += count_f * step.log_norm;
        total.infinite += count_f * step.infinite;
        // Boundaries are placed to a few roundings of the losses they separate.
        total.slack += count_f * 16.0 * UNIT_ROUNDOFF * (shape.magnitude + shape.deviation);
        parts.push(power(convolver, step.lattice, *count, grid, side, &mut total));
    }
    total.lattice = match parts.len() {
        1 => parts.remove(0),
        _ => combine(convolver, parts, grid, side, &mut total),
    };
    total
}

fn zero() -> Lattice {
    Lattice { exponent: 0, index: vec![0], mass: vec![1.0] }
}

/// Multiplies the results of different factors on the one lattice that fits their sum.
fn combine(
    convolver: &mut Convolver,
    parts: Vec<Lattice>,
    grid: Grid,
    side: Side,
    total: &mut Composed,
) -> Lattice {
    let deviation = parts.iter().map(|part| part.moments().1.powi(2)).sum::<f64>().sqrt();
    let exponent = floor_exponent(grid.resolution * deviation);
    let parts: Vec<(Lattice, u64)> =
        parts.into_iter().map(|part| (part.regrid(exponent, grid.lambda, side), 1)).collect();
    let convolved = convolve(convolver, parts, TAIL_BUDGET / 4.0, grid, side);
    total.error += convolved.error;
    total.log_norm += convolved.log_norm;
    convolved.lattice
}

/// Numbers of steps per stage, first stage first; their mixed-radix value is the count.
fn radix(count: u64) -> u64 {
    let stages = if count <= 300 {
        return count;
    } else if count <= 200_000 {
        2
    } else {
        3
    };
    let ideal = (count as f64).powf(1.0 / f64::from(stages));
    // A divisor near the ideal saves the remainder's own transforms.
    let (low, high) = ((0.7 * ideal) as u64, (1.5 * ideal) as u64);
    (low..=high)
        .filter(|n| count % n == 0)
        .min_by_key(|n| n.abs_diff(ideal as u64))
        .unwrap_or(ideal.round() as u64)
        .max(2)
}

/// The `count`-fold convolution of `block`.
fn power(
    convolver: &mut Convolver,
    mut block: Lattice,
    count: u64,
    grid: Grid,
    side: Side,
    total: &mut Composed,
) -> Lattice {
    let mut remaining = count;
    let mut rest: Option<Lattice> = None;
    loop {
        let radix = radix(remaining);
        let (quotient, digit) = (remaining / radix, remaining % radix);
        let copies = quotient as f64;
        let budget = TAIL_BUDGET / (8.0 * copies);
        let mut take = |factors: Vec<(Lattice, u64)>, copies: f64| {
            let convolved = convolve(convolver, factors, budget, grid, side);
            total.error += copies * convolved.error;
            total.log_norm += copies * convolved.log_norm;
            convolved.lattice
        };
        if quotient == 1 {
            return take(rest.map(|rest| (rest, 1)).into_iter().chain([(block, remaining)]).collect(), 1.0);
        }
        if digit > 0 || rest.is_some() {
            let extra = (digit > 0).then(|| (block.clone(), digit));
            rest = Some(take(rest.map(|rest| (rest, 1)).into_iter().chain(extra).collect(), 1.0));
        }
        let next = take(vec![(block, radix)], copies);
        let exponent = floor_exponent(grid.resolution * next.moments().1);
        block = next.regrid(exponent, grid.lambda, side);
        rest = rest.map(|rest| rest.regrid(exponent, grid.lambda, side));
        remaining = quotient;
    }
}

/// A convolution on a window that holds nearly all of its mass.
struct Convolved {
    lattice: Lattice,
    /// A bound on the l1 error, rounding and both wrapped tails.
    error: f64,
    /// Logarithm of the factor by which normalising the factors divided the product.
    log_norm: f64,
}

/// Convolves lattice distributions, `count_i` times each, losing at most `budget` in each tail.
fn convolve(
    convolver: &mut Convolver,
    mut factors: Vec<(Lattice, u64)>,
    budget: f64,
    grid: Grid,
    side: Side,
) -> Convolved {
    let mut log_norm = 0.0;
    let mut exponent = factors.iter().map(|(lattice, _)| lattice.exponent).max().unwrap_or(0);
    let (low, length) = loop {
        for (lattice, count) in &mut factors {
            *lattice = lattice.regrid(exponent, grid.lambda, side);
            log_norm += *count as f64 * lattice.normalise();
        }
        if let [(lattice, 1)] = factors.as_slice() {
            return Convolved { lattice: lattice.clone(), error: 0.0, log_norm };
        }
        let h = power_of_two(exponent);
        let windows: Vec<Window> = factors.iter().map(|(lattice, count)| Window::new(lattice, *count)).collect();
        let low = (Window::reach(&windows, budget, -1.0) / h).floor();
        let high = (Window::reach(&windows, budget, 1.0) / h).ceil();
        if high - low < MAX_LENGTH {
            break (low as i64, Convolver::good_length((high - low + 1.0).max(1.0) as usize));
        }
        exponent += floor_exponent((high - low) / MAX_LENGTH) + 1;
    };
    let dense = factors
        .iter()
        .map(|(lattice, count)| {
            let mut values = vec![0.0; length];
            for (&k, &mass) in lattice.index.iter().zip(&lattice.mass) {
                values[k.rem_euclid(length as i64) as usize] += mass;
            }
            (values, *count)
        })
        .collect();
    let circular = convolver.convolve(dense, length);
    let mut lattice = Lattice { exponent, index: Vec::with_capacity(length), mass: Vec::with_capacity(length) };
    for k in low..low + circular.values.len() as i64 {
        let mass = circular.values[k.rem_euclid(length as i64) as usize];
        if mass > 0.0 {
            lattice.index.push(k);
            lattice.mass.push(mass);
        }
    }
    Convolved { lattice, error: circular.error + 2.0 * budget, log_norm }
}

/// The moment generating function of a lattice distribution, bounded from above by chords over short runs.
struct Window {
    /// Ends of each run with the masses that chords put on them, relative to the mean.
    ends: Vec<(f64, f64)>,
    count: f64,
    mean: f64,
    deviation: f64,
}

impl Window {
    fn new(lattice: &Lattice, count: u64) -> Self {
        let h = lattice.step();
        let (mean, deviation) = lattice.moments();
        let longest = (0.1 * deviation / h) as i64;
        let mut ends = vec![];
        let mut from = 0;
        while from < lattice.index.len() {
            let first = lattice.index[from];
            let mut to = from;
            let (mut mass, mut moment) = (0.0, 0.0);
            while to < lattice.index.len() && lattice.index[to] - first <= longest {
                mass += lattice.mass[to];
                moment += lattice.mass[to] * (lattice.index[to] - first) as f64;
                to += 1;
            }
            let run = lattice.index[to - 1] - first;
            let a = first as f64 * h - mean;
            if run == 0 {
                ends.push((a, mass));
            } else {
                let upper = (moment / run as f64).min(mass);
                ends.push((a, mass - upper));
                ends.push((a + run as f64 * h, upper));
            }
            from = to;
        }
        Self { ends, count: count as f64, mean, deviation }
    }

    fn log_moment(&self, theta: f64) -> f64 {
        self.count * self.ends.iter().map(|(x, m)| m * (theta * x).exp()).sum::<f64>().ln()
    }

    /// The Chernoff bound: beyond it, on the side of `sign`, lies at most `budget` of the composed mass.
    fn reach(windows: &[Self], budget: f64, sign: f64) -> f64 {
        let mean: f64 = windows.iter().map(|w| w.count * w.mean).sum();
        let deviation = windows.iter().map(|w| w.count * w.deviation.powi(2)).sum::<f64>().sqrt();
        // A composition cannot leave the range of its parts.
        let range: f64 = windows
            .iter()
            .map(|w| {
                let end = if sign > 0.0 { w.ends.last() } else { w.ends.first() };
                w.count * end.map_or(0.0, |(x, _)| sign * x)
            })
            .sum();
        if deviation == 0.0 {
            return mean + sign * range;
        }
        let needed = -budget.ln();
        let start = (2.0 * needed).sqrt() / deviation;
        let bound = |theta: f64| {
            let moment: f64 = windows.iter().map(|w| w.log_moment(sign * theta)).sum();
            let value = (moment + needed) / theta;
            if value.is_nan() { f64::INFINITY } else { value }
        };
        let mut best = range;
        let mut theta = start * 1.5;
        let mut misses = 0;
        while misses < 2 && theta > start * 1e-6 {
            let value = bound(theta);
            if value < best {
                best = value;
                misses = 0;
            } else if best < range {
                misses += 1;
            }
            theta *= 0.7;
        }
        mean + sign * best
    }
}
