//! The record of what a run has spent, from which alone epsilon is computed.
//!
//! Every line holds the hash of the line before it, so nothing but the end can be changed, removed or moved unnoticed. Steps are promised
//! in blocks *before* they are taken, and the promise is on disk before the first noisy gradient is used. So whenever the machine stops,
//! the ledger counts every step whose result may have been seen, and at most one block and the steps since the last checkpoint too many.

pub(crate) mod chain;
mod entry;
mod error;
mod history;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::TrainError;
use crate::files::{self, Access};
use crate::lines::Lines;

pub use entry::{LedgerEntry, Start};
pub use error::LedgerError;
pub use history::{History, UsedMachine};

/// A ledger that this process alone is writing. The file itself is locked, and the system releases the lock when the process dies.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    lines: Lines,
    history: History,
}

/// A folder that this process holds and in which a run may begin: the file that will be its ledger is there under another name, and
/// locked. A process that dies before the first line leaves that file behind, which tells that everything beside it belongs to a run.
#[derive(Debug)]
pub(crate) struct LedgerClaim {
    path: PathBuf,
    file: File,
}

impl LedgerClaim {
    /// Takes the place of a ledger that does not exist yet.
    pub(crate) fn take(path: &Path) -> Result<Self, TrainError> {
        let exists = || TrainError::Exists { folder: files::folder_of(path).to_owned() };
        if path.exists() {
            return Err(exists());
        }
        let partial = files::partial_of(path);
        files::refuse_link(&partial)?;
        let file = files::options(Access::Shared)
            .create(true)
            .read(true)
            .append(true)
            .open(&partial)
            .map_err(|source| TrainError::file(path, source))?;
        lock(&file, path)?;
        // Another process may have begun and ended the run in the meantime.
        if !files::is_at(&file, &partial) || path.exists() {
            return Err(exists());
        }
        files::sync_folder(files::folder_of(path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Whether a process that died left its file behind.
    pub(crate) fn was_left(path: &Path) -> bool {
        fs::symlink_metadata(files::partial_of(path)).is_ok_and(|found| found.is_file())
    }

    /// Begins the ledger. Its first line is either complete or not there.
    pub(crate) fn begin(mut self, start: Start) -> Result<Ledger, TrainError> {
        let (line, _) = LedgerEntry::Start(start).to_line(chain::ROOT);
        let written = self.file.set_len(0).and_then(|()| {
            self.file.write_all(line.as_bytes())?;
            self.file.sync_all()
        });
        if let Err(source) = written.and_then(|()| fs::rename(files::partial_of(&self.path), &self.path)) {
            // The file stays as a mark, and half a line in it would mean nothing.
            let _ = self.file.set_len(0);
            return Err(TrainError::file(&self.path, source));
        }
        files::sync_folder(files::folder_of(&self.path))?;
        Ledger::of(self.path, self.file, line.as_bytes())
    }
}

/// Locks a file for this process, or says that another process has it.
fn lock(file: &File, path: &Path) -> Result<(), TrainError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(fs::TryLockError::WouldBlock) => {
            Err(TrainError::Locked { folder: files::folder_of(path).to_owned() })
        }
        Err(fs::TryLockError::Error(source)) => Err(TrainError::file(path, source)),
    }
}

impl Ledger {
    /// Begins a ledger. Its first line is either complete or not there.
    ///
    /// # Errors
    /// A file that cannot be written, or a ledger that exists already.
    pub fn create(path: &Path, start: Start) -> Result<Self, TrainError> {
        LedgerClaim::take(path)?.begin(start)
    }

    /// Opens a ledger to go on writing it, for this process alone. A line that a crash cut off is replaced by an entry that counts as the
    /// largest promise.
    ///
    /// # Errors
    /// A file that cannot be read or written, a ledger that was edited or that another process writes.
    pub fn open(path: &Path) -> Result<Self, TrainError> {
        let failed = |source| TrainError::file(path, source);
        files::refuse_link(path)?;
        let mut file = File::options().read(true).append(true).open(path).map_err(failed)?;
        lock(&file, path)?;
        if !files::is_at(&file, path) {
            return Err(TrainError::Locked { folder: files::folder_of(path).to_owned() });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let wrong = |source| TrainError::Ledger { path: path.to_owned(), source };
        let history = History::read(&bytes).map_err(wrong)?;
        let Some((entry, whole)) = history.torn_entry(&bytes) else {
            return Self::of(path.to_owned(), file, &bytes);
        };
        // The whole file is replaced at once, so that the cut line is never gone without its entry. The new file is locked before it gets
        // its name, and the old one stays locked until then.
        bytes.truncate(whole);
        bytes.extend_from_slice(entry.to_line(history.head()).0.as_bytes());
        let partial = files::partial_of(path);
        if fs::symlink_metadata(&partial).is_ok() {
            fs::remove_file(&partial).map_err(failed)?;
        }
        let mended =
            File::options().read(true).append(true).create_new(true).open(&partial).map_err(failed)?;
        lock(&mended, path)?;
        (&mended)
            .write_all(&bytes)
            .and_then(|()| mended.sync_all())
            .and_then(|()| fs::rename(&partial, path))
            .map_err(failed)?;
        files::sync_folder(files::folder_of(path))?;
        Self::of(path.to_owned(), mended, &bytes)
    }

    /// A ledger whose file this process has locked and read.
    fn of(path: PathBuf, file: File, bytes: &[u8]) -> Result<Self, TrainError> {
        let history =
            History::read(bytes).map_err(|source| TrainError::Ledger { path: path.clone(), source })?;
        let lines = Lines::of(&path, file, bytes.len() as u64);
        Ok(Self { path, lines, history })
    }

    /// What has happened so far.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Refuses to go on if somebody else wrote to the file or put another in its place.
    pub(crate) fn check_own(&self) -> Result<(), TrainError> {
        match self.lines.is_untouched() {
            true => Ok(()),
            false => Err(TrainError::Ledger { path: self.path.clone(), source: LedgerError::Touched }),
        }
    }

    /// Adds an entry. Returns once it would survive a crash.
    ///
    /// # Guarantee
    /// Once a promise is added, every later reading of the ledger counts its steps as taken. If it is not, none of them may be taken.
    ///
    /// # Errors
    /// A file that cannot be written or that somebody else touched, or an entry that may not come next. The ledger is then as before.
    pub fn append(&mut self, entry: &LedgerEntry) -> Result<(), TrainError> {
        let wrong = |source| TrainError::Ledger { path: self.path.clone(), source };
        self.history.check(entry).map_err(wrong)?;
        self.check_own()?;
        let (line, hash) = entry.to_line(self.history.head());
        // Half a line that cannot be taken back will count as the largest block.
        self.lines.add_lasting(&line)?;
        self.history
            .accept(entry, hash)
            .map_err(|source| TrainError::Ledger { path: self.path.clone(), source })
    }
}

#[cfg(test)]
mod tests;
