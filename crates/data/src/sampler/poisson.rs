//! Poisson sampling: one coin for each record.

use chacha20::rand_core::Rng;

/// The ratio `batch / records`, compared with uniform numbers digit by digit in base 2^16.
///
/// # Guarantee
/// A coin shows heads with probability exactly `batch / records`, given uniform bits: a uniform real number is below the ratio if the
/// first digit in which they differ is smaller, and digits are drawn until one differs. Two bytes decide all coins but one in 65536.
/// Every record's coin is tossed, whatever the rate: skipping ahead by geometric gaps would take logarithms, whose rounding changes the
/// distribution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    first_digit: u32,
    rest: u64,
    records: u64,
}

const BASE: u128 = 1 << 16;
/// Coins tossed from one piece of the stream.
const PIECE: usize = 4096;

impl Rate {
    /// The rate batch / records; a batch of all records or more is a rate of 1.
    pub(super) fn new(batch: u64, records: u64) -> Self {
        let (first_digit, rest) = digit(batch.min(records), records);
        Self { first_digit, rest, records }
    }

    /// Tosses that many coins and lists those that show heads, in growing order.
    pub(super) fn toss(&self, coins: u64, random: &mut impl Rng) -> Vec<usize> {
        let mut indices = Vec::new();
        let mut bytes = [0; 2 * PIECE];
        let mut first = 0;
        while first < coins {
            let tossed = (coins - first).min(PIECE as u64) as usize;
            let piece = &mut bytes[..2 * tossed];
            random.fill_bytes(piece);
            for (record, pair) in (first as usize..).zip(piece.chunks_exact(2)) {
                let drawn = u32::from(u16::from_le_bytes([pair[0], pair[1]]));
                if drawn < self.first_digit || (drawn == self.first_digit && self.tie(random)) {
                    indices.push(record);
                }
            }
            first += tossed as u64;
        }
        indices
    }

    /// Compares further digits where the first ones agree.
    #[cold]
    fn tie(&self, random: &mut impl Rng) -> bool {
        let mut rest = self.rest;
        // Once the rest is zero, so are all further digits of the ratio, and no number is below it.
        while rest != 0 {
            let (expected, next) = digit(rest, self.records);
            let drawn = random.next_u32() >> 16;
            if drawn != expected {
                return drawn < expected;
            }
            rest = next;
        }
        false
    }
}

/// The next digit of `rest / records`, and what is left of it.
fn digit(rest: u64, records: u64) -> (u32, u64) {
    let scaled = u128::from(rest) * BASE;
    let records = u128::from(records.max(1));
    ((scaled / records) as u32, (scaled % records) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{MasterKey, Purpose};
    use crate::statistics::Scripted;

    #[test]
    fn digits_are_those_of_long_division() {
        // 1/3 = 0.5555... in base 16.
        assert_eq!(digit(1, 3), (0x5555, 1));
        assert_eq!(digit(1, 65536), (1, 0));
        assert_eq!(digit(3, 3), (65536, 0));
        // Products of numbers near 2^64 do not overflow.
        assert_eq!(digit(u64::MAX - 1, u64::MAX).0, 65535);
    }

    #[test]
    fn ties_are_resolved_by_the_rest() {
        let heads = |rate: Rate, byte: u8, words: &[u64]| rate.toss(1, &mut Scripted { byte, words }).len();
        // The digits of 1/200000, by long division in whole numbers.
        let digit = |place: u32| ((1u128 << (16 * place)) / 200_000 % 65536) as u64;
        let [second, third] = [digit(2), digit(3)].map(|digit| digit << 16);
        assert!(digit(1) == 0 && second > 0 && third > 0);
        let one = 1 << 16;
        for (words, below) in [
            (&[second - one][..], true),
            (&[second + one], false),
            (&[second, third - one], true),
            (&[second, third + one], false),
        ] {
            let rate = Rate::new(1, 200_000);
            assert_eq!(heads(rate, 0, words), usize::from(below), "{words:?}");
            assert_eq!(heads(rate, 1, words), 0);
        }
        // The digits of 2^-8 end: a number that equals it is not below it, and one just below it is.
        let rate = Rate::new(1, 256);
        assert_eq!((rate.first_digit, rate.rest), (256, 0));
        assert_eq!(heads(rate, 0, &[0]), 1);
        let even = Rate::new(257, 65536);
        assert_eq!((even.first_digit, heads(even, 1, &[0])), (257, 0));
        // A rate of one accepts even the largest number.
        assert_eq!(heads(Rate::new(10, 10), 0xff, &[u64::MAX]), 1);
    }

    #[test]
    fn an_empty_draw_is_a_draw() {
        let mut random = MasterKey::from_seed(1).purpose(Purpose::Sampling).step(0).stream(0);
        assert!(Rate::new(0, 10).toss(10, &mut random).is_empty());
    }
}
