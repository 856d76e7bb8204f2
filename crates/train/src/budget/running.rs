//! Which entries of a budget a process holds, and how far their ledgers have come.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::digest;
use crate::error::TrainError;
use crate::files::{self, Access};

/// Bytes of a slot: a number, two hashes and the spaces between them.
const SLOT: usize = 160;

/// A file beside the budget, one for each run that has not ended in order.
///
/// It is locked as long as the process lives, so that no other process goes on with the entry in any copy of the run folder. The system
/// releases the lock when the process dies. The file also knows the last promise of the run's ledger, outside the run folder, so that
/// after a crash an older state of the folder does not pass for the run.
#[derive(Debug)]
pub(super) struct Running {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    /// Whether the file was there before, which means that a process held the entry and never ended in order.
    pub(super) was_there: bool,
}

impl Running {
    /// Takes an entry; `None` if another process holds it. The budget must be locked.
    pub(super) fn take(budget: &Path, entry: &str) -> Result<Option<Self>, TrainError> {
        let mut name = budget.as_os_str().to_owned();
        name.push(".running");
        let folder = PathBuf::from(name);
        // The first digits of the hash are enough to tell the entries of any budget apart.
        let path = folder.join(entry.get(..16).unwrap_or(entry));
        let failed = |source| TrainError::file(&path, source);
        files::create_folders(&folder)?;
        files::refuse_link(&path)?;
        let was_there = path.exists();
        let mut options = files::options(Access::Owner);
        let file = options.create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
        files::sync_folder(&folder)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { folder, path, file, was_there })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(TrainError::file(&path, source)),
        }
    }

    /// Keeps the number of lines and the last hash of a ledger. Returns once they would survive a crash. Of two slots the older one is
    /// written over, so that a write that is cut off leaves the other.
    pub(super) fn keep(&mut self, lines: usize, head: &str) -> Result<(), TrainError> {
        let text = format!("{lines} {head}");
        let slot =
            format!("{:<width$}\n", format!("{text} {}", digest::of(&[text.as_bytes()])), width = SLOT - 1);
        let place = SeekFrom::Start(((lines % 2) * SLOT) as u64);
        let written = self.file.seek(place).and_then(|_| self.file.write_all(slot.as_bytes()));
        written.and_then(|()| self.file.sync_data()).map_err(|source| TrainError::file(&self.path, source))
    }

    /// The number of lines and the last hash of the ledger as they were kept last; `None` if nothing was promised.
    pub(super) fn kept(&mut self) -> Result<Option<(usize, String)>, TrainError> {
        let mut bytes = Vec::new();
        let read = self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.read_to_end(&mut bytes));
        read.map_err(|source| TrainError::file(&self.path, source))?;
        let slots =
            bytes.chunks(SLOT).filter_map(|slot| std::str::from_utf8(slot).ok()).filter_map(read_slot);
        Ok(slots.max_by_key(|(lines, _)| *lines))
    }

    /// Releases the entry in order. The budget must be locked and know how far the ledger has come.
    pub(super) fn end(self) {
        // If this fails, the file that stays behind is taken again later.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The content of a slot, if it is intact.
fn read_slot(slot: &str) -> Option<(usize, String)> {
    let (text, digest) = slot.trim_end_matches(['\n', ' ', '\0']).rsplit_once(' ')?;
    let (lines, head) = text.split_once(' ')?;
    let lines = lines.trim_start_matches('\0').parse().ok()?;
    (digest::of(&[text.as_bytes()]) == digest).then(|| (lines, head.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_slot_counts_and_an_entry_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let budget = folder.path().join("some.budget");
        let entry = "0123456789abcdef".repeat(4);
        let mut running = Running::take(&budget, &entry).unwrap().unwrap();
        assert!(!running.was_there && Running::take(&budget, &entry).unwrap().is_none());
        assert_eq!(running.kept().unwrap(), None);
        for lines in [3, 4, 9, 10, 11] {
            running.keep(lines, &entry).unwrap();
            assert_eq!(running.kept().unwrap(), Some((lines, entry.clone())));
        }
        drop(running);
        let path = folder.path().join("some.budget.running").join(&entry[..16]);
        let whole = fs::read(&path).unwrap();
        for cut in 0..SLOT {
            // The slot of line 11 was being written when the power failed.
            let mut torn = whole.clone();
            torn[SLOT + cut..].fill(b'?');
            fs::write(&path, torn).unwrap();
            let mut running = Running::take(&budget, &entry).unwrap().unwrap();
            let blank = whole[SLOT + cut..].iter().all(|byte| b" \n".contains(byte));
            assert!(
                running.was_there && (blank || running.kept().unwrap() == Some((10, entry.clone()))),
                "{cut}"
            );
        }
        Running::take(&budget, &entry).unwrap().unwrap().end();
        assert!(!folder.path().join("some.budget.running").exists());
    }
}
