//! The noise is Gaussian, has the stated variance, is independent and lies on its lattice, and pairs called certain are right.

use dapple_data::rand_core::Rng;
use dapple_data::{MasterKey, Purpose};

use super::*;

/// The error rate of each statistical test over the choice of seed: the seeds below are fixed, so a test that passes once passes always.
const ALPHA: f64 = 1e-6;

fn key(seed: u64, step: u64) -> StepKey {
    MasterKey::from_seed(seed).purpose(Purpose::Noise).step(step)
}

fn noise_of(deviation: f64, len: usize, key: &StepKey) -> Vec<f64> {
    let mut values = vec![0.0; len];
    Noise::new(deviation).unwrap().add(&mut values, &[], 1.0, key).unwrap();
    values.into_iter().map(f64::from).collect()
}

/// A whole number in the form in which sums hold it.
fn bits(whole: i32) -> f32 {
    f32::from_bits(whole as u32)
}

/// The distribution function of the standard normal.
fn normal(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

#[test]
fn fast_and_exact_paths_agree() {
    let noise = Noise::new(1.7).unwrap();
    let key = key(1, 0);
    let mut block = NoiseBlock::new();
    for index in 0..200 {
        let mut random = key.stream(index);
        block.draw(&mut random);
        for offset in &mut block.offset {
            offset.fill_with(|| (random.next_u64() >> 12) as f64 / (1u64 << 52) as f64 - 0.5);
        }
        block.round(noise.deviation);
        let doubtful: Vec<usize> = block.doubtful().collect();
        assert!(doubtful.len() < PAIRS / 50);
        for pair in 0..PAIRS {
            let more = key.stream(FURTHER_BITS | pair as u64);
            let bits = Bits { radius: block.radius[pair], angle: block.angle[pair], more };
            let exact = bits.round([block.offset[0][pair], block.offset[1][pair]], noise.deviation);
            let fast = [block.rounded[0][pair], block.rounded[1][pair]];
            assert!(doubtful.contains(&pair) || exact == fast, "{exact:?} {fast:?}");
        }
    }
}

#[test]
fn what_is_released_lies_on_the_lattice_whatever_the_gradient() {
    for deviation in [0.003, 1.0, 700.0] {
        let noise = Noise::new(deviation).unwrap();
        assert_eq!(noise.step().log2().fract(), 0.0);
        assert!((1024.0..2048.0).contains(&(deviation / noise.step())));
        // Whole numbers of a unit far finer than the lattice, and far coarser.
        for unit in [2f64.powi(-30), 2f64.powi(9)] {
            let mut values: Vec<f32> = (0..5000).map(|i| bits(i * 7919 - 20_000_000)).collect();
            noise.add(&mut values, &[], unit, &key(2, 0)).unwrap();
            for value in values {
                assert_eq!((f64::from(value) / noise.step()).fract(), 0.0, "{value}");
            }
        }
    }
}

#[test]
fn the_noise_is_normal_with_the_stated_variance() {
    let n = 200_000;
    let mut sample = noise_of(3.0, n, &key(3, 0));
    let mean = sample.iter().sum::<f64>() / n as f64;
    let variance = sample.iter().map(|x| x * x).sum::<f64>() / n as f64;
    // With so many values both are as good as normal, and exceed 4.9 deviations either way with probability 1e-6.
    assert!(mean.abs() < 4.9 * 3.0 / (n as f64).sqrt(), "{mean}");
    assert!((variance / 9.0 - 1.0).abs() < 4.9 * (2.0 / n as f64).sqrt(), "{variance}");

    // The distance of Kolmogorov and Smirnov has P(D > d) <= 2 exp(-2 n d^2) (Massart 1990). Half a lattice step moves the distribution
    // function by less than 0.4 / 2048.
    sample.sort_by(f64::total_cmp);
    let distance = sample
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let f = normal(x / 3.0);
            (f - i as f64 / n as f64).abs().max((f - (i + 1) as f64 / n as f64).abs())
        })
        .fold(0.0, f64::max);
    let bound = ((2.0 / ALPHA).ln() / (2.0 * n as f64)).sqrt() + 0.4 / 2048.0;
    assert!(distance < bound, "{distance} {bound}");
}

#[test]
fn the_tails_are_those_of_the_normal() {
    let n = 1_000_000;
    let sample = noise_of(1.0, n, &key(4, 0));
    for level in [2.0, 3.0, 4.0] {
        let beyond = sample.iter().filter(|x| x.abs() > level).count() as f64;
        let expected = 2.0 * normal(-level) * n as f64;
        // A count of rare events is skewed: of the 63 expected beyond 4, more than 5.5 deviations too many come at a rate of about 1e-6.
        assert!((beyond - expected).abs() < 5.5 * expected.sqrt(), "{level}: {beyond} {expected}");
    }
}

#[test]
fn coordinates_steps_and_halves_of_a_pair_are_uncorrelated() {
    let n = 100_000;
    let first = noise_of(1.0, n, &key(5, 0));
    let second = noise_of(1.0, n, &key(5, 1));
    let correlation =
        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64;
    let squares = |a: &[f64]| a.iter().map(|x| (x * x - 1.0) / 2f64.sqrt()).collect::<Vec<_>>();
    let (first_squares, second_squares) = (squares(&first), squares(&second));
    // These are means of products of independent standardised values, held to 4.9 deviations; squares have heavier tails and get 6.
    for (lag, width) in [(1, 4.9), (2, 4.9), (PAIRS, 4.9), (CHUNK, 4.9)] {
        let bound = width / ((n - lag) as f64).sqrt();
        assert!(correlation(&first[lag..], &first[..n - lag]).abs() < bound, "{lag}");
        assert!(
            correlation(&first_squares[lag..], &first_squares[..n - lag]).abs() < 6.0 / 4.9 * bound,
            "{lag}"
        );
    }
    assert!(correlation(&first, &second).abs() < 4.9 / (n as f64).sqrt());
    assert!(correlation(&first_squares, &second_squares).abs() < 6.0 / (n as f64).sqrt());
}

#[test]
fn the_sum_is_kept() {
    let noise = Noise::new(1.0).unwrap();
    let mut far = vec![bits(2_000_000); 3000];
    let mut near = vec![bits(0); 3000];
    noise.add(&mut far, &[], 0.5, &key(6, 0)).unwrap();
    noise.add(&mut near, &[], 0.5, &key(6, 0)).unwrap();
    // The same whole number of steps is added; single precision holds a million to 1/16.
    for (far, near) in far.iter().zip(&near) {
        assert!((far - near - 1.0e6).abs() <= 0.0625, "{far} {near}");
    }
}

/// It does not matter how a sum is divided between the bits and what was carried over, and even the largest sums are not rounded before
/// they are noised.
#[test]
fn what_was_carried_over_is_part_of_the_sum() {
    let noise = Noise::new(1.0).unwrap();
    let len = WORTH_THREADS + 700;
    for unit in [2f64.powi(-33), 2f64.powi(-10), 4.0] {
        let whole = |i: usize| i as i32 * 7919 - 1_000_000_000;
        let mut bits_alone: Vec<f32> = (0..len).map(|i| bits(whole(i))).collect();
        noise.add(&mut bits_alone, &[], unit, &key(10, 0)).unwrap();
        for taken in [0, 12_345, -1_000_000_000] {
            let mut divided: Vec<f32> = (0..len).map(|i| bits(taken / (1 + i as i32 % 3))).collect();
            let carried: Vec<i64> =
                (0..len).map(|i| i64::from(whole(i)) - i64::from(taken / (1 + i as i32 % 3))).collect();
            noise.add(&mut divided, &carried, unit, &key(10, 0)).unwrap();
            assert_eq!(divided, bits_alone);
        }
    }
    // An odd number of half steps, just below 2^53 of them: the odd half decides which multiple the sum is rounded to.
    let half = noise.step() / 2.0;
    let largest = (1i64 << 53) - 1;
    for high in [largest, -largest] {
        let (mut far, mut near) = (vec![bits(0); 3000], vec![bits(high.signum() as i32); 3000]);
        noise.add(&mut far, &vec![high; 3000], half, &key(11, 0)).unwrap();
        noise.add(&mut near, &[], half, &key(11, 0)).unwrap();
        for (far, near) in far.iter().zip(&near) {
            // The exact sum is `rest` whole steps more than the near one, so that many whole steps more are released, in single precision.
            let rest = ((high - high.signum()) / 2) as f64;
            let want = ((rest + f64::from(*near) / noise.step()) * noise.step()) as f32;
            assert_eq!(*far, want);
        }
    }
}

#[test]
fn threads_and_length_do_not_change_it() {
    let long = noise_of(1.0, 2 * WORTH_THREADS, &key(7, 0));
    assert_eq!(noise_of(1.0, 3 * CHUNK, &key(7, 0)), long[..3 * CHUNK]);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    assert_eq!(pool.install(|| noise_of(1.0, 2 * WORTH_THREADS, &key(7, 0))), long);
    assert_ne!(noise_of(1.0, CHUNK, &key(8, 0)), long[..CHUNK]);
}

#[test]
fn what_cannot_be_noised_is_refused() {
    for deviation in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
        assert!(Noise::new(deviation).is_err());
    }
    assert!(Noise::new(1.0).unwrap().add(&mut [0.0; 3], &[0; 2], 1.0, &key(9, 0)).is_err());
    for unit in [0.0, -1.0, 3.0, f64::NAN, f64::INFINITY] {
        assert!(Noise::new(1.0).unwrap().add(&mut [0.0], &[], unit, &key(9, 0)).is_err());
    }
}
