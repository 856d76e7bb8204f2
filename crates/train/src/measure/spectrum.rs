//! Triangular factors and singular values in double precision, by orthogonal transforms only.

/// Sums of squares below this are what rounding has left of nothing, over and over; their inverses would overflow.
const NOTHING: f64 = f64::MIN_POSITIVE / f64::EPSILON;
/// The most sweeps that an eigenvalue takes; usually two or three do.
const MOST_SWEEPS: usize = 100;

/// An upper triangular matrix `R` with `R^T R = X^T X` for all rows of `X` that it has absorbed.
#[derive(Debug, Clone)]
pub(super) struct TriangularFactor {
    side: usize,
    // [side, side], zero below the diagonal
    values: Vec<f64>,
}

impl TriangularFactor {
    /// The factor of no rows.
    pub(super) fn zero(side: usize) -> Self {
        Self { side, values: vec![0.0; side * side] }
    }

    /// Takes up further rows, `[rows, side]`: one Householder reflection for each column, of the diagonal and the rows.
    pub(super) fn absorb(&mut self, mut rows: Vec<f64>) {
        let side = self.side;
        let mut products = vec![0.0; side];
        for column in 0..side {
            let below: f64 = rows.iter().skip(column).step_by(side).map(|value| value * value).sum();
            if below < NOTHING {
                continue;
            }
            let own = &mut self.values[column * side + column..(column + 1) * side];
            let (diagonal, own) = own.split_at_mut(1);
            let length = (diagonal[0] * diagonal[0] + below).sqrt().copysign(-diagonal[0]);
            let first = diagonal[0] - length;
            let scale = 2.0 / (first * first + below);
            diagonal[0] = length;
            let products = &mut products[column + 1..];
            products.iter_mut().zip(own.iter()).for_each(|(product, value)| *product = first * value);
            for row in rows.chunks_exact(side) {
                add(products, row[column], &row[column + 1..]);
            }
            add(own, -scale * first, products);
            for row in rows.chunks_exact_mut(side) {
                let (before, behind) = row.split_at_mut(column + 1);
                add(behind, -scale * before[column], products);
            }
        }
    }

    /// The sum of all squares: the trace of `R^T R`.
    pub(super) fn squares(&self) -> f64 {
        self.values.iter().map(|value| value * value).sum()
    }

    /// `R Q^T` for another factor `Q`, `[side, side]`.
    pub(super) fn times_transposed(&self, other: &Self) -> Vec<f64> {
        let side = self.side;
        let mut product = vec![0.0; side * side];
        for ((row, target), number) in
            self.values.chunks_exact(side).zip(product.chunks_exact_mut(side)).zip(0..)
        {
            for ((column, target), other_number) in other.values.chunks_exact(side).zip(target).zip(0..) {
                let start = number.max(other_number);
                *target = dot(&row[start..], &column[start..]);
            }
        }
        product
    }
}

/// The sum of the singular values of a square matrix, off by no more than rounding of its largest one for each of them.
///
/// The matrix is reduced to its two diagonals by reflections from both sides (Golub and Kahan 1965). The singular values are then the
/// positive eigenvalues of the symmetric matrix whose only entries are these diagonals, interleaved, beside its own diagonal of zeros.
pub(super) fn nuclear_norm(mut matrix: Vec<f64>, side: usize) -> f64 {
    let mut beside = Vec::with_capacity(2 * side);
    let mut products = vec![0.0; side];
    for step in 0..side {
        beside.push(reflect_column(&mut matrix, side, step, &mut products));
        if step + 1 < side {
            beside.push(reflect_row(&mut matrix, side, step));
        }
    }
    let eigenvalues = symmetric_eigenvalues(beside);
    eigenvalues.iter().map(|value| value.abs()).sum::<f64>() / 2.0
}

/// Reflects the rows from `step` on so that only the first of them has an entry in column `step`, and returns that entry.
fn reflect_column(matrix: &mut [f64], side: usize, step: usize, products: &mut [f64]) -> f64 {
    let (upper, lower) = matrix.split_at_mut((step + 1) * side);
    let own = &mut upper[step * side + step..];
    let below: f64 = lower.iter().skip(step).step_by(side).map(|value| value * value).sum();
    if below < NOTHING {
        return own[0];
    }
    let length = (own[0] * own[0] + below).sqrt().copysign(-own[0]);
    let first = own[0] - length;
    let scale = 2.0 / (first * first + below);
    let own = &mut own[1..];
    let products = &mut products[..own.len()];
    products.iter_mut().zip(own.iter()).for_each(|(product, value)| *product = first * value);
    for row in lower.chunks_exact(side) {
        add(products, row[step], &row[step + 1..]);
    }
    add(own, -scale * first, products);
    for row in lower.chunks_exact_mut(side) {
        let (before, behind) = row.split_at_mut(step + 1);
        add(behind, -scale * before[step], products);
    }
    length
}

/// Reflects the columns behind `step` so that only the first of them has an entry in row `step`, and returns that entry.
fn reflect_row(matrix: &mut [f64], side: usize, step: usize) -> f64 {
    let (upper, lower) = matrix.split_at_mut((step + 1) * side);
    let own = &mut upper[step * side + step + 1..];
    let beyond: f64 = own[1..].iter().map(|value| value * value).sum();
    if beyond < NOTHING {
        return own[0];
    }
    let length = (own[0] * own[0] + beyond).sqrt().copysign(-own[0]);
    own[0] -= length;
    let scale = 2.0 / (own[0] * own[0] + beyond);
    for row in lower.chunks_exact_mut(side) {
        let row = &mut row[step + 1..];
        add(row, -scale * dot(row, own), own);
    }
    length
}

/// The eigenvalues of a symmetric tridiagonal matrix with zeros on its diagonal and these entries beside it, by the implicit QL method
/// with Wilkinson's shifts. Each is off by no more than a few roundings of the largest.
fn symmetric_eigenvalues(mut beside: Vec<f64>) -> Vec<f64> {
    let mut diagonal = vec![0.0; beside.len() + 1];
    let largest = beside.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    beside.push(0.0);
    for first in 0..diagonal.len() {
        for sweeps in 0.. {
            assert!(sweeps < MOST_SWEEPS, "the QL method converges for all finite matrices");
            // The block that begins here ends at an entry beside the diagonal that rounding could have made.
            let split = |place: &usize| beside[*place].abs() <= f64::EPSILON * largest;
            let last = (first..diagonal.len() - 1).find(split).unwrap_or(diagonal.len() - 1);
            if last == first {
                break;
            }
            sweep(&mut diagonal, &mut beside, first, last);
        }
    }
    diagonal
}

/// One implicit QL step on the block from `first` to `last`.
fn sweep(diagonal: &mut [f64], beside: &mut [f64], first: usize, last: usize) {
    let half = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
    let shift = half + half.hypot(1.0).copysign(half);
    let mut carried = diagonal[last] - diagonal[first] + beside[first] / shift;
    let (mut sine, mut cosine, mut taken) = (1.0, 1.0, 0.0);
    for place in (first..last).rev() {
        let (bulge, next) = (sine * beside[place], cosine * beside[place]);
        let length = bulge.hypot(carried);
        beside[place + 1] = length;
        if length == 0.0 {
            // The block has fallen apart here.
            diagonal[place + 1] -= taken;
            beside[last] = 0.0;
            return;
        }
        sine = bulge / length;
        cosine = carried / length;
        let moved = diagonal[place + 1] - taken;
        let turned = (diagonal[place] - moved) * sine + 2.0 * cosine * next;
        taken = sine * turned;
        diagonal[place + 1] = moved + taken;
        carried = cosine * turned - next;
    }
    diagonal[first] -= taken;
    beside[first] = carried;
    beside[last] = 0.0;
}

fn add(target: &mut [f64], factor: f64, values: &[f64]) {
    target.iter_mut().zip(values).for_each(|(target, value)| *target += factor * value);
}

/// The inner product, in eight sums that the processor adds up side by side.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let ((ones, rest), (others, other_rest)) = (one.as_chunks::<8>(), other.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (one, other) in ones.iter().zip(others) {
        for ((sum, one), other) in sums.iter_mut().zip(one).zip(other) {
            *sum += one * other;
        }
    }
    let rest: f64 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f64>() + rest
}
