//! Holds what is released to matrices, written down in the obvious way.

use dapple_data::{MasterKey, Purpose};
use dapple_engine::{ClippedVector, Clipping, ClippingRule, Layout, VectorSum};
use proptest::prelude::*;

use super::*;

const UNIT: f64 = 1.0 / 256.0;
const VALUES: usize = 5;

/// The sum of these vectors, each clipped to a norm of one.
fn total(vectors: &[[f32; VALUES]]) -> Total {
    let layout = Layout::of_vector(VALUES);
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, &layout).unwrap();
    let mut sum = VectorSum::new(&layout, Vec::new());
    for vector in vectors {
        sum.add(&ClippedVector::new(&rule, &layout, vector).unwrap()).unwrap();
    }
    sum.into_total()
}

/// Some vectors of a step; none in every fourth one.
fn vectors(step: usize) -> Vec<[f32; VALUES]> {
    let value = |record: usize, at: usize| ((step * 31 + record * 17 + at * 7) as f32 * 0.37).sin();
    (0..step % 4).map(|record| std::array::from_fn(|at| value(record, at))).collect()
}

fn noise_key(step: usize) -> StepKey {
    MasterKey::from_seed(7).purpose(Purpose::Noise).step(step as u64)
}

fn plain(total: &Total) -> Vec<f64> {
    let (counts, unit) = total.counts().unwrap();
    counts.map(|count| count as f64 * unit).collect()
}

/// The rows of the inverse of the Toeplitz matrix with these coefficients, by forward substitution.
fn inverse(coefficients: &[f64], steps: usize) -> Vec<Vec<f64>> {
    let mut inverse: Vec<Vec<f64>> = Vec::new();
    for t in 0..steps {
        let entry = |s: usize| {
            let before = inverse.iter().rev().zip(&coefficients[1..]).map(|(row, c)| c * row[s]);
            f64::from(u8::from(s == t)) - before.sum::<f64>()
        };
        inverse.push((0..steps).map(entry).collect());
    }
    inverse
}

/// `y = x + C^-1 Z`, where `Z` is what the same keys add to nothing.
#[test]
fn gradients_are_sums_with_the_noise_of_the_inverse() {
    let coefficients = [256, 128, 96, -40];
    let noise = Noise::new(3.0).unwrap();
    let mut correlated = CorrelatedSums::new(&coefficients, UNIT);
    let inverse = inverse(&coefficients.map(|c| f64::from(c) * UNIT), 12);
    let mut drawn: Vec<Vec<f64>> = Vec::new();
    for (step, row) in inverse.iter().enumerate() {
        let mut nothing = total(&[]);
        let own = nothing.make_plain(|bits, high, unit| noise.add(bits, high, unit, &noise_key(step)));
        drawn.push(own.unwrap().iter().map(|&value| f64::from(value)).collect());
        let mut sum = total(&vectors(step));
        let x = plain(&sum);
        let released = correlated.release(&mut sum, &noise, &noise_key(step)).unwrap();
        for (at, &y) in released.iter().enumerate() {
            let w: f64 = row.iter().zip(&drawn).map(|(d, drawn)| d * drawn[at]).sum();
            // Rounding to the lattice moves each release by at most a step of it, which is less than 3 / 1024, and the inverse adds up at
            // most twelve of them, less than 1.5 times each. Single precision adds far less.
            assert!((f64::from(y) - x[at] - w).abs() < 0.05, "{step} {at}: {y} {} {w}", x[at]);
        }
    }
}

/// What a plan without bands does, to the last bit.
#[test]
fn one_coefficient_changes_nothing() {
    let noise = Noise::new(0.7).unwrap();
    let mut correlated = CorrelatedSums::new(&[256], UNIT);
    for step in 0..9 {
        let mut own = total(&vectors(step));
        let mut other = total(&vectors(step));
        let key = noise_key(step);
        let expected = own.make_plain(|bits, high, unit| noise.add(bits, high, unit, &key)).unwrap().to_vec();
        assert_eq!(correlated.variance(), 1.0);
        assert_eq!(correlated.release(&mut other, &noise, &key).unwrap(), expected);
    }
}

proptest! {
    /// The price rests on this: a contribution more moves the releases from its step on by itself times the coefficients, in whole numbers,
    /// and no release beyond the last coefficient.
    #[test]
    fn a_contribution_moves_as_many_releases_as_there_are_bands(
        tail in prop::collection::vec(-256i32..=256, 0..6),
        at in 0usize..8,
        more in prop::array::uniform5(-2.0f32..2.0),
    ) {
        let coefficients: Vec<i32> = [256].into_iter().chain(tail).collect();
        let noise = Noise::new(1.0).unwrap();
        let [mut with, mut without] = [0; 2].map(|_| CorrelatedSums::new(&coefficients, UNIT));
        let whole = |total: &Total| total.counts().unwrap().0.collect::<Vec<i64>>();
        let own = whole(&total(&[more]));
        for step in 0..16 {
            let (mut one, mut other) = (vectors(step), total(&vectors(step)));
            one.extend((step == at).then_some(more));
            let mut one = total(&one);
            let together = |correlated: &CorrelatedSums, total: &Total| correlated.together(&whole(total)).unwrap();
            let (moved, still) = (together(&with, &one), together(&without, &other));
            let c = step.checked_sub(at).and_then(|back| coefficients.get(back)).copied().unwrap_or(0);
            for place in 0..VALUES {
                prop_assert_eq!(moved[place] - still[place], i64::from(c) * own[place]);
            }
            with.release(&mut one, &noise, &noise_key(step)).unwrap();
            without.release(&mut other, &noise, &noise_key(step)).unwrap();
        }
    }
}

#[test]
fn variances_are_those_of_the_inverse() {
    let coefficients = [256, 128, 96, -40];
    let mut correlated = CorrelatedSums::new(&coefficients, UNIT);
    for row in inverse(&coefficients.map(|c| f64::from(c) * UNIT), 12) {
        // A dozen squares in double precision.
        assert!((row.iter().map(|d| d * d).sum::<f64>() - correlated.variance()).abs() < 1e-13);
        correlated.release(&mut total(&[]), &Noise::new(1.0).unwrap(), &noise_key(0)).unwrap();
    }
}

/// An empty batch has a sum in any unit. What earlier steps added is released with it in theirs.
#[test]
fn a_step_that_draws_nobody_releases_what_others_added() {
    let noise = Noise::new(1e-3).unwrap();
    let mut correlated = CorrelatedSums::new(&[256, 128], UNIT);
    let mut first = total(&[[0.5, -0.5, 0.25, 0.0, 0.125]]);
    let x = plain(&first);
    correlated.release(&mut first, &noise, &noise_key(0)).unwrap();
    let mut empty = total(&[]);
    assert_ne!(empty.counts().unwrap().1, total(&[[1.0; VALUES]]).counts().unwrap().1);
    let y0: Vec<f64> = correlated.gradients[0].iter().map(|&y| f64::from(y)).collect();
    for ((&y, x), y0) in correlated.release(&mut empty, &noise, &noise_key(1)).unwrap().iter().zip(x).zip(y0)
    {
        // y = 0.5 x + z - 0.5 y0, with ten deviations of noise.
        assert!((f64::from(y) - 0.5 * x + 0.5 * y0).abs() < 1e-2, "{y} {x} {y0}");
    }
    // A sum in another unit is none of this run.
    let layout = Layout::of_vector(VALUES);
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1e-6 }, &layout).unwrap();
    let mut other = VectorSum::new(&layout, Vec::new());
    other.add(&ClippedVector::new(&rule, &layout, &[1.0; VALUES]).unwrap()).unwrap();
    assert!(correlated.release(&mut other.into_total(), &noise, &noise_key(2)).is_err());
}

#[test]
fn numbers_that_double_precision_does_not_hold_are_refused() {
    let correlated = CorrelatedSums::new(&[256, 256], UNIT);
    assert!(correlated.together(&[(1 << 44) - 1, -1]).is_ok());
    for own in [[1i64 << 44, 0], [0, -(1 << 44)]] {
        assert!(matches!(correlated.together(&own), Err(StepError::Engine(EngineError::Sum { .. }))));
    }
    // A rule knows how many samples stay below.
    let layout = Layout::of_vector(VALUES);
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, &layout).unwrap();
    assert_eq!(correlated.growth(), 512.0);
    assert!(rule.holds((1 << 22) - 1, 512.0) && !rule.holds(1 << 22, 512.0));
}
