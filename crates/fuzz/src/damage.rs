//! Ways to damage a file.

use dapple_data::rand_core::{Rng, SeedableRng};
use dapple_data::{ChaCha20Rng, uniform::below};

/// Bytes and numbers at which parsers go wrong.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];
/// Numbers and words at which parsers of text go wrong.
const WORDS: [&str; 16] = [
    "-1",
    "0",
    "1e308",
    "1e-320",
    "nan",
    "inf",
    "18446744073709551615",
    "4294967296",
    "\"",
    "[",
    "{",
    "}",
    "\n",
    "\u{0}",
    "é",
    "[[[[[[[[[[[[[[[[",
];
/// No file grows beyond this.
const LONGEST: usize = 1 << 16;

/// A stream of damaged files, the same for the same seed.
pub struct Damage {
    random: ChaCha20Rng,
}

impl Damage {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha20Rng::seed_from_u64(seed) }
    }

    fn below(&mut self, bound: usize) -> usize {
        below(&mut self.random, bound as u64) as usize
    }

    /// One of the files with one to eight damages; now and then a mixture of two.
    pub fn next(&mut self, files: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.pick(files);
        if self.below(16) == 0 {
            let other = self.pick(files);
            let (keep, from) = (self.below(bytes.len() + 1), self.below(other.len() + 1));
            bytes.truncate(keep);
            bytes.extend_from_slice(&other[from..]);
        }
        for _ in 0..=self.below(8) {
            self.damage(&mut bytes);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn pick(&mut self, files: &[Vec<u8>]) -> Vec<u8> {
        let chosen = self.below(files.len().max(1));
        files.get(chosen).cloned().unwrap_or_default()
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let length = (1 + self.below(16)).min(bytes.len() - at);
        let number = NUMBERS[self.below(NUMBERS.len())].wrapping_add(self.random.next_u64() & 3);
        let width = 1 << self.below(4);
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.random.next_u64() as u8,
            2 => overwrite(bytes, at, &number.to_le_bytes()[..width]),
            3 => overwrite(bytes, at, &number.to_be_bytes()[8 - width..]),
            4 => drop(bytes.drain(at..at + length)),
            5 => {
                let piece = bytes[at..at + length].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            6 => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(at..at + length, word.bytes());
            }
            7 => self.renumber(bytes, at, number),
            _ if self.below(4) == 0 => bytes.truncate(at),
            _ => {}
        }
    }

    /// Writes another number in the place of the next one in a text.
    fn renumber(&mut self, bytes: &mut Vec<u8>, at: usize, number: u64) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else {
            return;
        };
        let end =
            bytes[start..].iter().position(|byte| !byte.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
        bytes.splice(start..end, number.to_string().into_bytes());
    }
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (byte, new) in bytes.iter_mut().skip(at).zip(with) {
        *byte = *new;
    }
}
