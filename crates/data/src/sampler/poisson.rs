//! Poisson sampling: one coin a record.

use chacha20::rand_core::Rng;

/// The ratio `numerator / denominator`, compared with uniform numbers digit by digit in base 2^16.
///
/// # Guarantee
/// A coin shows heads with probability exactly `numerator / denominator`, given uniform bits: a uniform real number is below the
/// ratio if its first differing digit is smaller, and digits are drawn until one differs. Two bytes decide all coins but one in
/// 65536. All `records` coins are tossed, whatever the rate: skipping ahead by geometric gaps would take logarithms, whose rounding
/// moves the law.
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

    /// The records whose coin shows heads, in growing order.
    pub(super) fn draw(&self, random: &mut impl Rng) -> Vec<usize> {
        let mut indices = Vec::new();
        let mut bytes = [0; 2 * PIECE];
        let mut first = 0;
        while first < self.records {
            let coins = (self.records - first).min(PIECE as u64) as usize;
            let piece = &mut bytes[..2 * coins];
            random.fill_bytes(piece);
            for (record, pair) in (first as usize..).zip(piece.chunks_exact(2)) {
                let drawn = u32::from(u16::from_le_bytes([pair[0], pair[1]]));
                if drawn < self.first_digit || (drawn == self.first_digit && self.tie(random)) {
                    indices.push(record);
                }
            }
            first += coins as u64;
        }
        indices
    }

    /// Compares further digits after the first ones agreed.
    #[cold]
    fn tie(&self, random: &mut impl Rng) -> bool {
        let mut rest = self.rest;
        // All further digits of the ratio are zero: no number is below it.
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
        // A stream whose words are all zero ties with every zero digit and is below any other.
        struct Constant(u8);
        impl chacha20::rand_core::TryRng for Constant {
            type Error = std::convert::Infallible;
            fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
                Ok(u32::from_le_bytes([self.0; 4]))
            }
            fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
                Ok(u64::from_le_bytes([self.0; 8]))
            }
            fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
                bytes.fill(self.0);
                Ok(())
            }
        }
        let all = |rate: Rate, byte| rate.draw(&mut Constant(byte)).len();
        // Below 2^-16: the first digit is zero, the second is not.
        assert_eq!(all(Rate::new(1, 100_000), 0), 100_000);
        assert_eq!(all(Rate::new(1, 100_000), 1), 0);
        // Exactly 2^-16: a number that equals it is not below it.
        assert_eq!(all(Rate { first_digit: 0x0101, rest: 0, records: 10 }, 1), 0);
        // 1/255 = 0.010101... in base 256 never ends; every digit ties, so draw with another byte.
        assert_eq!(all(Rate::new(1, 255), 2), 0);
        // A rate of one takes the largest number too.
        assert_eq!(all(Rate::new(10, 10), 0xff), 10);
    }

    #[test]
    fn an_empty_draw_is_a_draw() {
        let mut random = MasterKey::from_seed(1).purpose(Purpose::Sampling).step(0).stream(0);
        assert!(Rate::new(0, 10).draw(&mut random).is_empty());
    }
}
