use super::*;

/// A matrix by rows, in the obvious way.
type Matrix = Vec<Vec<f64>>;

fn below(steps: usize, entry: impl Fn(usize, usize) -> f64) -> Matrix {
    (0..steps).map(|t| (0..steps).map(|s| if s <= t { entry(t, s) } else { 0.0 }).collect()).collect()
}

fn product(one: &Matrix, other: &Matrix) -> Matrix {
    let entry = |t: usize, s: usize| (0..one.len()).map(|k| one[t][k] * other[k][s]).sum();
    (0..one.len()).map(|t| (0..one.len()).map(|s| entry(t, s)).collect()).collect()
}

/// By forward substitution, row by row.
fn inverted(matrix: &Matrix) -> Matrix {
    let mut inverse: Matrix = Vec::new();
    for (t, row) in matrix.iter().enumerate() {
        let entry = |s: usize| {
            let known: f64 = inverse.iter().zip(row).map(|(before, c)| before[s] * c).sum();
            (f64::from(u8::from(t == s)) - known) / row[t]
        };
        inverse.push((0..matrix.len()).map(entry).collect());
    }
    inverse
}

fn banded(coefficients: &[f64], steps: usize) -> Matrix {
    below(steps, |t, s| coefficients.get(t - s).copied().unwrap_or(0.0))
}

/// What an optimiser makes of gradients, written down as it is defined.
fn iterates(steps: usize, momentum: f64, rate: impl Fn(u64) -> f64) -> Matrix {
    let momenta = below(steps, |s, r| momentum.powi((s - r) as i32));
    let sums = below(steps, |_, s| rate(s as u64));
    product(&sums, &momenta)
}

fn falling(step: u64) -> f64 {
    1.0 - step as f64 / 80.0
}

/// The relative error, by matrices.
fn by_matrices(coefficients: &[f64], steps: usize, momentum: f64, measured: MeasuredAt) -> f64 {
    let learned = iterates(steps, momentum, falling);
    let noisy = product(&learned, &inverted(&banded(coefficients, steps)));
    let norm = |matrix: &Matrix| {
        let rows = match measured {
            MeasuredAt::AllIterates => &matrix[..],
            MeasuredAt::LastIterate => &matrix[steps - 1..],
        };
        rows.iter().flatten().map(|value| value * value).sum::<f64>().sqrt()
    };
    norm(&noisy) / norm(&learned)
}

#[test]
fn square_roots_multiply_to_sums() {
    // The binomial coefficients that the formula is about.
    let printed = [1.0, 0.5, 3.0 / 8.0, 5.0 / 16.0, 35.0 / 128.0, 63.0 / 256.0];
    assert_eq!(square_root(6), printed);
    let root = banded(&square_root(40), 40);
    for (t, row) in product(&root, &root).iter().enumerate() {
        for (s, &value) in row.iter().enumerate() {
            // Forty products, each rounded by at most 2^-53.
            assert!((value - f64::from(u8::from(s <= t))).abs() < 1e-14);
        }
    }
}

#[test]
fn errors_are_those_of_matrices() {
    for measured in [MeasuredAt::AllIterates, MeasuredAt::LastIterate] {
        for (bands, momentum) in [(1, 0.0), (2, 0.0), (5, 0.0), (5, 0.9), (40, 0.5)] {
            let coefficients = square_root(bands);
            let found = relative_error(&coefficients, &Iterates::new(60, momentum, measured, falling));
            let expected = by_matrices(&coefficients, 60, momentum, measured);
            // Sums of a few thousand products in double precision.
            assert!((found / expected - 1.0).abs() < 1e-10, "{bands} {momentum}: {found} {expected}");
        }
    }
}

/// A long run is judged by some of its steps, and nearly as by all of them.
#[test]
fn some_steps_stand_for_all() {
    for momentum in [0.0, 0.9] {
        let iterates = Iterates::new(400, momentum, MeasuredAt::AllIterates, |step| falling(step / 5));
        let coefficients = square_root(12);
        let learned = self::iterates(400, momentum, |step| falling(step / 5));
        let noisy = product(&learned, &inverted(&banded(&coefficients, 400)));
        let norm = |matrix: &Matrix| matrix.iter().flatten().map(|value| value * value).sum::<f64>().sqrt();
        let (found, expected) = (relative_error(&coefficients, &iterates), norm(&noisy) / norm(&learned));
        // 64 of 400 sources; an estimate of utility needs no more than two digits.
        assert!((found / expected - 1.0).abs() < 0.01, "{momentum}: {found} {expected}");
    }
}

#[test]
fn slopes_are_differences() {
    for measured in [MeasuredAt::AllIterates, MeasuredAt::LastIterate] {
        let iterates = Iterates::new(50, 0.7, measured, falling);
        let tail = [0.4, 0.3, 0.1, -0.2];
        let (_, slope) = CoefficientSeries::new(&tail, &iterates).slope();
        for (at, &slope) in slope.iter().enumerate() {
            let h = 1e-5;
            let moved = |by: f64| {
                let mut tail = tail;
                tail[at] += by;
                CoefficientSeries::new(&tail, &iterates).slope().0
            };
            let difference = (moved(h) - moved(-h)) / (2.0 * h);
            // The error of a central difference is of the order of h^2 times third derivatives.
            assert!((slope / difference - 1.0).abs() < 1e-6, "{at}: {slope} {difference}");
        }
    }
}

#[test]
fn optimised_coefficients_are_better_and_stay() {
    for measured in [MeasuredAt::AllIterates, MeasuredAt::LastIterate] {
        for momentum in [0.0, 0.9] {
            let iterates = Iterates::new(60, momentum, measured, falling);
            let cost = |coefficients: &[f64]| {
                let norm = coefficients.iter().map(|c| c * c).sum::<f64>().sqrt();
                norm * by_matrices(coefficients, 60, momentum, measured)
            };
            let found = optimised(6, &iterates);
            assert!(cost(&found) < cost(&square_root(6)), "{found:?}");
            // Nowhere near is better by more than the search leaves.
            for at in 1..6 {
                for by in [-0.01, 0.01] {
                    let mut near = found.clone();
                    near[at] += by;
                    assert!(cost(&near) > cost(&found) * (1.0 - 1e-9), "{at} {by}");
                }
            }
            assert_eq!(found, optimised(6, &iterates));
        }
    }
}

/// One band cannot cancel anything.
#[test]
fn one_band_is_independent_noise() {
    let iterates = Iterates::new(100, 0.0, MeasuredAt::AllIterates, |_| 1.0);
    assert_eq!((optimised(1, &iterates), relative_error(&[1.0], &iterates)), (vec![1.0], 1.0));
}
