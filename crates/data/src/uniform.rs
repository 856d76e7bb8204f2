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
