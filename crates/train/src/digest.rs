//! SHA-256 in hexadecimal digits.

use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

/// The digest of some parts, taken one after the other.
pub(crate) fn of(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    digits(hash)
}

/// The digest of numbers in single precision.
pub(crate) fn of_values(values: &[f32]) -> String {
    let mut hash = Sha256::new();
    for chunk in values.chunks(1024) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|value| value.to_le_bytes()).collect();
        hash.update(&bytes);
    }
    digits(hash)
}

fn digits(hash: Sha256) -> String {
    hexadecimal(&hash.finalize())
}
