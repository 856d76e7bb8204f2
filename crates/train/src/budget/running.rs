//! Which entries of a budget are in a process's hands.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::TrainError;
use crate::files::{self, Access};

/// Keeps other processes from going on with an entry for as long as it lives, in whichever copy of the run folder they do; the system
/// lets go of it when the process dies.
#[derive(Debug)]
pub(super) struct Running {
    folder: PathBuf,
    path: PathBuf,
    _file: File,
}

impl Running {
    /// Takes an entry; none where another process has it. The budget must be locked.
    pub(super) fn take(budget: &Path, entry: &str) -> Result<Option<Self>, TrainError> {
        let mut name = budget.as_os_str().to_owned();
        name.push(".running");
        let folder = PathBuf::from(name);
        // The first digits tell apart more entries than any budget has.
        let path = folder.join(entry.get(..16).unwrap_or(entry));
        let failed = |source| TrainError::file(&path, source);
        files::create_folders(&folder)?;
        files::refuse_link(&path)?;
        let file = files::options(Access::Owner)
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { folder, path, _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(TrainError::file(&path, source)),
        }
    }

    /// Lets go in order. The budget must be locked.
    pub(super) fn end(self) {
        // Files that stay behind are empty, and are taken again.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(&self.folder);
    }
}
