//! Where randomness comes from, and how one key serves many uses without any two of them sharing a number.
//!
//! A [`MasterKey`] gives one [`PurposeKey`] for each use, a [`PurposeKey`] gives one [`StepKey`] for each step, and a [`StepKey`] gives
//! one independent stream for each record. Each of the three types can do only this one thing, so no stream is ever read both as random
//! numbers and as a key. Every derivation is ChaCha20 with the parent as key and the child's number as nonce. Telling any two streams
//! from independent uniform ones is as hard as breaking ChaCha20.

use std::fmt;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use zeroize::Zeroize;

use crate::DataError;

/// A use of randomness. No two uses share a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Which records a step sees.
    Sampling,
    /// Where crops lie and which views are mirrored.
    Views,
    /// Which units dropout drops.
    Dropout,
    /// The noise on the gradient.
    Noise,
    /// Which records are split off for evaluation.
    Split,
    /// Initial weights.
    Weights,
    /// The coins that decide what each canary of an audit shows.
    Canaries,
    /// The noise on the number of gradients within the clip norm.
    CountNoise,
    /// Which records of a step are clipped together.
    ClipGroups,
    /// Which submodel a record updates.
    Submodels,
    /// Which units of split dropout layers a record keeps.
    DropoutUnits,
    /// Which records a step sees the public part of.
    PublicSampling,
    /// Where crops of public parts lie and which of them are mirrored.
    PublicViews,
    /// Which of a user's records a round sees, and in which order.
    UserRecords,
    /// Which steps may draw a record, where noise cancels across steps.
    Groups,
}

impl Purpose {
    /// The nonce of a use. Changing one changes every deterministic run.
    fn number(self) -> u64 {
        match self {
            Self::Sampling => 1,
            Self::Views => 2,
            Self::Dropout => 3,
            Self::Noise => 4,
            Self::Split => 5,
            Self::Weights => 6,
            Self::Canaries => 7,
            Self::CountNoise => 8,
            Self::ClipGroups => 9,
            Self::Submodels => 10,
            Self::DropoutUnits => 11,
            Self::PublicSampling => 12,
            Self::PublicViews => 13,
            Self::UserRecords => 14,
            Self::Groups => 15,
        }
    }
}

/// The secret from which all randomness of a run follows.
///
/// # Guarantee
/// [`MasterKey::from_os`] holds 256 random bits from the operating system. The key is neither printed nor written, so nobody can
/// compute the noise again from a file; only processes that share a run give it to each other ([`MasterKey::to_bytes`]). [`MasterKey::from_seed`] hides nothing from anyone who knows the seed.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// A fresh key from the operating system.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn from_os() -> Result<Self, DataError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|source| DataError::Randomness { source })?;
        Ok(Self(key))
    }

    /// The key that follows from a seed, for tests and for whatever need not be secret.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut key = *b"________dapple deterministic run";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(key)
    }

    /// The bytes of the key, for the processes that take the same steps together. They may be given to nobody else, and written nowhere.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// The key of bytes that [`MasterKey::to_bytes`] gave.
    #[must_use]
    pub fn from_bytes(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// The key of one use.
    #[must_use]
    pub fn purpose(&self, purpose: Purpose) -> PurposeKey {
        PurposeKey(child(&self.0, purpose.number()))
    }
}

/// The key of one use of randomness, for all steps.
#[derive(Clone)]
pub struct PurposeKey([u8; 32]);

impl PurposeKey {
    /// The key of one step (or of one epoch, where a use counts epochs).
    #[must_use]
    pub fn step(&self, step: u64) -> StepKey {
        StepKey(child(&self.0, step))
    }

    /// The bytes of the key. What is drawn once for a whole run needs its key again after a crash: that of the allocation of balanced sampling,
    /// and that of the groups in which noise cancels across steps, are written down. No other key may be written anywhere.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// The key of bytes that [`PurposeKey::to_bytes`] gave.
    #[must_use]
    pub fn from_bytes(key: [u8; 32]) -> Self {
        Self(key)
    }
}

/// The key of one step.
#[derive(Clone)]
pub struct StepKey([u8; 32]);

impl StepKey {
    /// The stream of random numbers with this number, independent of all others.
    #[must_use]
    pub fn stream(&self, number: u64) -> ChaCha20Rng {
        stream(&self.0, number)
    }

    /// The bytes of the key, for a card that makes the streams itself: stream `number` is ChaCha20 under this key with the number as
    /// nonce. They may be written nowhere.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

fn stream(key: &[u8; 32], nonce: u64) -> ChaCha20Rng {
    let mut random = ChaCha20Rng::from_seed(*key);
    random.set_stream(nonce);
    random
}

fn child(key: &[u8; 32], nonce: u64) -> [u8; 32] {
    let mut child = [0; 32];
    stream(key, nonce).fill_bytes(&mut child);
    child
}

/// Keys are wiped from memory when they are dropped, and show nothing of themselves.
macro_rules! secret {
    ($($name:ident),*) => {$(
        impl Drop for $name {
            fn drop(&mut self) {
                self.0.zeroize();
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(concat!(stringify!($name), "(secret)"))
            }
        }
    )*};
}

secret!(MasterKey, PurposeKey, StepKey);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_streams_are_the_same() {
        let mut seen = BTreeSet::new();
        let purposes = [
            Purpose::Sampling,
            Purpose::Views,
            Purpose::Dropout,
            Purpose::Noise,
            Purpose::Split,
            Purpose::Weights,
            Purpose::Canaries,
            Purpose::CountNoise,
            Purpose::ClipGroups,
            Purpose::Submodels,
            Purpose::DropoutUnits,
            Purpose::PublicSampling,
            Purpose::PublicViews,
            Purpose::UserRecords,
            Purpose::Groups,
        ];
        for seed in 0..3 {
            for purpose in purposes {
                for step in 0..4 {
                    for number in 0..4 {
                        let mut random =
                            MasterKey::from_seed(seed).purpose(purpose).step(step).stream(number);
                        assert!(seen.insert(random.next_u64()));
                    }
                }
            }
        }
    }

    #[test]
    fn keys_are_kept_and_never_printed() {
        let key = MasterKey::from_os().unwrap().purpose(Purpose::Sampling);
        let again = PurposeKey::from_bytes(key.to_bytes());
        assert_eq!(key.step(3).stream(5).next_u64(), again.step(3).stream(5).next_u64());
        assert_eq!(format!("{key:?}"), "PurposeKey(secret)");
        let other = MasterKey::from_os().unwrap().purpose(Purpose::Sampling);
        assert_ne!(key.to_bytes(), other.to_bytes());
    }
}
