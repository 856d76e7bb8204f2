//! The record of what a run has spent, from which alone epsilon is computed.
//!
//! Every line holds the hash of the line before it, so nothing can be changed, removed or moved but the end. Steps are promised in
//! blocks *before* they are taken, and the promise is on the disk before the first noisy gradient is used: whenever the machine
//! stops, the ledger counts every step whose result can have been seen, and at most one block and the steps since the last checkpoint
//! too many.

mod entry;
mod error;
mod history;

use std::path::{Path, PathBuf};

use dapple_data::Event;

use crate::error::TrainError;
use crate::files;
use crate::lines::Lines;

pub use entry::{Entry, Start};
pub use error::LedgerError;
pub use history::{History, UsedMachine};

/// A ledger that is being written.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    lines: Lines,
    history: History,
}

impl Ledger {
    /// Begins a ledger; its first line is whole or not there.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn create(path: &Path, start: Start) -> Result<Self, TrainError> {
        let (line, _) = Entry::Start(start).to_line(entry::ROOT);
        files::write_atomic(path, line.as_bytes())?;
        Self::open(path)
    }

    /// Opens a ledger to go on writing. A line that a crash cut off becomes an entry that counts as the largest promise.
    ///
    /// # Errors
    /// A file that cannot be read or written, a ledger that was edited.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        let mut bytes = files::read(path)?;
        let wrong = |source| TrainError::Ledger { path: path.to_owned(), source };
        let mut history = History::read(&bytes).map_err(wrong)?;
        if let Some((entry, whole)) = history.torn_entry(&bytes) {
            // The whole file is replaced at once, so that the cut line is never gone without its entry.
            bytes.truncate(whole);
            bytes.extend_from_slice(entry.to_line(history.head()).0.as_bytes());
            files::write_atomic(path, &bytes)?;
            history = History::read(&bytes).map_err(wrong)?;
        }
        Ok(Self { path: path.to_owned(), lines: Lines::open(path)?, history })
    }

    /// What has happened so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Promises steps. Returns once the promise outlives a crash.
    ///
    /// # Guarantee
    /// When this returns, every later reading of the ledger counts these steps as taken.
    ///
    /// # Errors
    /// A file that cannot be written; then none of the steps may be taken.
    pub fn promise(&mut self, first: u64, steps: u64, event: Event) -> Result<(), TrainError> {
        self.append(&Entry::Promise { first, steps, event })
    }

    /// Adds an entry. Returns once it outlives a crash.
    ///
    /// # Errors
    /// A file that cannot be written, or an entry that cannot stand here; the ledger is then as before.
    pub fn append(&mut self, entry: &Entry) -> Result<(), TrainError> {
        let wrong = |source| TrainError::Ledger { path: self.path.clone(), source };
        self.history.check(entry).map_err(wrong)?;
        let (line, hash) = entry.to_line(self.history.head());
        // Half a line that cannot be taken back will count as a whole block.
        self.lines.add_lasting(&line)?;
        self.history
            .accept(entry, hash)
            .map_err(|source| TrainError::Ledger { path: self.path.clone(), source })
    }
}

#[cfg(test)]
mod tests;
