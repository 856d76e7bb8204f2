//! Readers of the files of a run folder as functions of bytes, so that tests can give them damaged files.

use crate::checkpoint::{self, Checkpoint};
use crate::description::ModelDescription;

/// Reads a checkpoint.
///
/// # Errors
/// What is wrong with it.
pub fn checkpoint(bytes: &[u8]) -> Result<(), String> {
    Checkpoint::from_bytes(bytes).map(|_| ())
}

/// Reads a checkpoint after correcting its checksum, so that damage must be found by the content.
///
/// # Errors
/// What is wrong with it.
pub fn sealed_checkpoint(mut bytes: Vec<u8>) -> Result<(), String> {
    checkpoint::seal(&mut bytes);
    checkpoint(&bytes)
}

/// Reads the description of a model.
///
/// # Errors
/// What is wrong with it.
pub fn description(bytes: &[u8]) -> Result<(), String> {
    ModelDescription::parse(bytes).map(|_| ())
}
