//! Products of distributions with finitely many losses, multiplied out loss by loss.

use crate::numerics::UNIT_ROUNDOFF;
use crate::pair::{Atoms, DominatingPair, Side};

/// The most pairs of losses that are multiplied out.
const MOST_PRODUCTS: usize = 1 << 21;
/// Masses below this are on their way to underflow.
const LEAST_MASS: f64 = 1e-290;

/// The losses of a product of exactly known pairs; `None` where one is not, or where there are too many.
///
/// # Guarantee
/// Losses are off by at most `loss_error` and masses by at most the share `mass_error`. Losses that differ by less than
/// their rounding count as one.
pub(super) fn product(factors: &[(DominatingPair, u64)]) -> Option<Atoms> {
    let exact = |(pair, count): &(DominatingPair, u64)| match pair {
        DominatingPair::Discrete(pair) if pair.lower.is_none() => Some((pair.clone(), *count)),
        _ => None,
    };
    let mut total: Option<Atoms> = None;
    for (pair, count) in factors.iter().map(exact).collect::<Option<Vec<_>>>()? {
        let part = power(&pair.upper, count)?;
        total = Some(match total {
            Some(total) => multiply(&total, &part)?,
            None => part,
        });
    }
    total
}

/// The product of `count` equal distributions, by repeated squaring; `None` where it has too many losses.
fn power(atoms: &Atoms, mut count: u64) -> Option<Atoms> {
    let mut square = atoms.clone();
    let mut result: Option<Atoms> = None;
    while count > 0 {
        if count & 1 == 1 {
            result = Some(match result {
                Some(result) => multiply(&result, &square)?,
                None => square.clone(),
            });
        }
        count >>= 1;
        if count > 0 {
            square = multiply(&square, &square)?;
        }
    }
    result
}

/// All sums of two losses with the products of their masses.
fn multiply(a: &Atoms, b: &Atoms) -> Option<Atoms> {
    if a.losses.len().saturating_mul(b.losses.len()) > MOST_PRODUCTS {
        return None;
    }
    let mut pairs: Vec<(f64, f64)> = Vec::with_capacity(a.losses.len() * b.losses.len());
    for (x, p) in a.losses.iter().zip(&a.masses) {
        pairs.extend(b.losses.iter().zip(&b.masses).map(|(y, q)| (x + y, p * q)));
    }
    pairs.sort_by(|x, y| x.0.total_cmp(&y.0));
    let reach = |atoms: &Atoms| {
        atoms
            .losses
            .first()
            .into_iter()
            .chain(atoms.losses.last())
            .fold(0.0_f64, |reach, loss| reach.max(loss.abs()))
    };
    // Sums that are equal but for rounding lie within this of each other.
    let same = 4.0 * UNIT_ROUNDOFF * (reach(a) + reach(b));
    let mut product = Atoms {
        // 1 - (1 - x)(1 - y)
        infinite: a.infinite + (1.0 - a.infinite) * b.infinite,
        loss_error: a.loss_error + b.loss_error + 2.0 * same,
        ..Atoms::default()
    };
    let (mut first, mut size, mut largest) = (f64::NEG_INFINITY, 0_u32, 1_u32);
    for (loss, mass) in pairs {
        match product.masses.last_mut() {
            Some(last) if loss - first <= same => {
                *last += mass;
                size += 1;
                largest = largest.max(size);
            }
            _ => {
                product.losses.push(loss);
                product.masses.push(mass);
                (first, size) = (loss, 1);
            }
        }
    }
    // One rounding of the product, one of each sum; three of the infinite mass.
    product.mass_error = a.mass_error + b.mass_error + (3.0 + f64::from(largest)) * UNIT_ROUNDOFF;
    if product.masses.iter().any(|&mass| mass < LEAST_MASS) {
        // What underflows would have no digits left: it is left to the lattices, which tilt it away.
        return None;
    }
    Some(product)
}

/// The curve of a distribution with finitely many losses.
pub(super) struct Exact {
    atoms: Atoms,
    /// `delta` at each loss, and `sum_{k >= j} P_k e^{s_j - s_k}`.
    sums: Vec<(f64, f64)>,
}

impl Exact {
    pub(super) fn new(atoms: Atoms) -> Self {
        let count = atoms.losses.len();
        let mut sums = vec![(0.0, 0.0); count];
        // All terms are positive: nothing cancels.
        let (mut delta, mut weight) = (0.0, 0.0);
        for j in (0..count).rev() {
            if j + 1 < count {
                let gap = atoms.losses[j + 1] - atoms.losses[j];
                delta += -(-gap).exp_m1() * weight;
                weight *= (-gap).exp();
            }
            weight += atoms.masses[j];
            sums[j] = (delta, weight);
        }
        Self { atoms, sums }
    }

    /// Delta at `epsilon`, on the safe side.
    ///
    /// # Guarantee
    /// `Side::Upper`: never below the exact delta; `Side::Lower`: never above it.
    pub(super) fn delta(&self, epsilon: f64, side: Side) -> f64 {
        let sign = match side {
            Side::Upper => 1.0,
            Side::Lower => -1.0,
        };
        let Atoms { losses, infinite, loss_error, mass_error, .. } = &self.atoms;
        let shift = loss_error + 2.0 * UNIT_ROUNDOFF * epsilon;
        let loss = epsilon - sign * shift;
        let j = losses.partition_point(|&l| l < loss);
        let finite = match (losses.get(j), self.sums.get(j)) {
            (Some(above), Some((delta, weight))) => delta - (loss - above).exp_m1() * weight,
            _ => 0.0,
        };
        // Each of the sums rounds a few times.
        let rounding = mass_error + 4.0 * (losses.len() as f64 + 4.0) * UNIT_ROUNDOFF;
        (finite * (1.0 + sign * rounding) + infinite * (1.0 + sign * (mass_error + 8.0 * UNIT_ROUNDOFF)))
            .clamp(0.0, 1.0)
    }
}
