//! Exact draws from a stream of uniform bits.

use chacha20::rand_core::Rng;

/// A uniform integer below `bound`, or 0 if the bound is 0. It is the high half of a 128-bit product; words that would favour some
/// integers are drawn again.
///
/// # Guarantee
/// The result is exactly uniform, given uniform bits: of the words that are accepted, equally many lead to each integer.
pub fn below(random: &mut impl Rng, bound: u64) -> u64 {
    let product = |word: u64| u128::from(word) * u128::from(bound);
    let mut drawn = product(random.next_u64());
    if (drawn as u64) < bound {
        // 2^64 mod bound words are too many for all integers to get the same share.
        let surplus = bound.wrapping_neg() % bound;
        while (drawn as u64) < surplus {
            drawn = product(random.next_u64());
        }
    }
    (drawn >> 64) as u64
}

/// A uniform multiple of 2^-53 in [0, 1).
pub fn unit(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The binary digits of a double-precision number's significand.
const SIGNIFICAND: u32 = 53;

/// A coin that shows heads with this probability, which must lie in [0, 1].
///
/// # Guarantee
/// The probability is exact, given uniform bits: a double-precision number is a whole number of some power of two, and so many binary digits of
/// a uniform number are compared with it, all of them.
pub(crate) fn heads(random: &mut impl Rng, probability: f64) -> bool {
    let bits = probability.to_bits();
    // The probability is `significand / 2^digits`. Where the exponent is zero, no leading one is implied.
    let (significand, digits) = match (bits >> (SIGNIFICAND - 1)) as u32 {
        0 => (bits, 1074),
        exponent => (bits & ((1 << (SIGNIFICAND - 1)) - 1) | 1 << (SIGNIFICAND - 1), 1075 - exponent),
    };
    let mut zeros = digits.saturating_sub(SIGNIFICAND);
    while zeros > 0 {
        let now = zeros.min(64);
        if random.next_u64() >> (64 - now) != 0 {
            return false;
        }
        zeros -= now;
    }
    random.next_u64() >> (64 - digits.min(SIGNIFICAND)) < significand
}

/// The place of one of these weights, which must be positive and at least one in number, with a probability in proportion to it.
///
/// # Guarantee
/// The proportions are exactly those of the weights, given uniform bits: a place is drawn uniformly and kept with a probability of its weight
/// times a power of two. That rounds nothing, unless a weight is below 2^-1000 of the largest.
pub(crate) fn weighted(random: &mut impl Rng, weights: &[f64]) -> usize {
    let most = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut scale = 1.0;
    while most * scale > 1.0 {
        scale *= 0.5;
    }
    while most * scale <= 0.5 {
        scale *= 2.0;
    }
    loop {
        let place = below(random, weights.len() as u64) as usize;
        if heads(random, weights[place] * scale) {
            return place;
        }
    }
}

/// Draws a uniform subset of `count` of the integers below `bound` by Floyd's algorithm. `take` is told each candidate and returns
/// whether it is new; nothing may be taken before.
///
/// # Guarantee
/// Every subset of that size is equally likely. A `count` above `bound` takes all.
pub(crate) fn subset(random: &mut impl Rng, count: u64, bound: u64, mut take: impl FnMut(u64) -> bool) {
    for last in bound.saturating_sub(count)..bound {
        // If the candidate is taken already, `last` takes its place, which no earlier draw could take.
        if !take(below(random, last + 1)) {
            take(last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{MasterKey, Purpose};
    use crate::statistics::{ALPHA, Scripted, chi_square_accepts};
    use std::collections::BTreeSet;

    #[test]
    fn integers_below_a_bound_are_uniform() {
        let mut random = MasterKey::from_seed(1).purpose(Purpose::Split).step(0).stream(0);
        for bound in [2u64, 7, 100] {
            let mut counts = vec![0u64; bound as usize];
            for _ in 0..200_000 {
                counts[below(&mut random, bound) as usize] += 1;
            }
            let expected = vec![200_000.0 / bound as f64; bound as usize];
            assert!(chi_square_accepts(&counts, &expected, ALPHA), "{counts:?}");
        }
        // For this bound 2^63 - 1 of the 2^64 words are too many: those whose product has a low half below that.
        let bound = (1u64 << 63) + 1;
        assert!((0..1000).all(|_| below(&mut random, bound) < bound));
        let script = |words: &[u64]| below(&mut Scripted { byte: 0, words }, bound);
        assert_eq!(script(&[0, 2, 1 << 62, 5]), script(&[5]));
        assert_eq!(script(&[5]), 2);
        assert_eq!((below(&mut random, 1), below(&mut random, 0)), (0, 0));
    }

    /// A probability below one is `share / 2^64`, times a power of two: heads needs that many digits of zero, and then a word below the share.
    #[test]
    fn coins_are_exact() {
        let toss = |words: &[u64], probability| heads(&mut Scripted { byte: 0, words }, probability);
        for share in [0.5, 0.75, 0.3f64 / 0.5, 0.8, 0.5f64.next_up(), 1.0f64.next_down()] {
            let first_above = (share * 2f64.powi(64)) as u64;
            for word in [0, first_above - 1, first_above, first_above + 1, u64::MAX] {
                let below = word < first_above;
                assert_eq!(toss(&[word], share), below, "{share} {word}");
                assert_eq!(toss(&[u64::MAX >> 3, word], share / 8.0), below, "{share} {word}");
                assert_eq!(toss(&[0, u64::MAX >> 3, word], share * 2f64.powi(-67)), below, "{share} {word}");
                assert!(!toss(&[1 << 61, word], share / 8.0) && !toss(&[1, 0, word], share * 2f64.powi(-67)));
            }
        }
        assert!(toss(&[u64::MAX], 1.0) && !toss(&[0], 0.0));
        // The smallest number has 1074 digits, of which the last is one.
        let smallest = f64::from_bits(1);
        assert!(toss(&[0; 17], smallest) && !toss(&[[0; 16].as_slice(), &[1 << 11]].concat(), smallest));
    }

    #[test]
    fn places_are_drawn_by_their_weights() {
        let mut random = MasterKey::from_seed(3).purpose(Purpose::Split).step(0).stream(0);
        for weights in [[0.5, 0.3, 0.2], [1e-9, 3e-9, 2e-9], [5.0, 1.0, 3.0]] {
            let mut counts = [0u64; 3];
            (0..100_000).for_each(|_| counts[weighted(&mut random, &weights)] += 1);
            let sum: f64 = weights.iter().sum();
            let expected = weights.map(|weight| weight / sum * 1e5);
            assert!(chi_square_accepts(&counts, &expected, ALPHA), "{counts:?}");
        }
        assert_eq!(weighted(&mut random, &[0.7]), 0);
        assert!((0..1000).all(|_| weighted(&mut random, &[1e-300, 1.0]) == 1));
    }

    #[test]
    fn subsets_are_uniform() {
        let mut random = MasterKey::from_seed(2).purpose(Purpose::Split).step(0).stream(0);
        // 3 of 6: 20 subsets.
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..100_000 {
            let mut chosen = BTreeSet::new();
            subset(&mut random, 3, 6, |index| chosen.insert(index));
            assert_eq!(chosen.len(), 3);
            *counts.entry(chosen).or_insert(0u64) += 1;
        }
        let counts: Vec<u64> = counts.into_values().collect();
        assert!(chi_square_accepts(&counts, &[5000.0; 20], ALPHA), "{counts:?}");
    }
}
