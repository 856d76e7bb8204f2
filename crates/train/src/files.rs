//! Files that are either whole or not there, and stay once they are.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::TrainError;

/// What the name of a file ends in until it is whole.
const PARTIAL: &str = ".partial";

/// Writes a file so that, whenever the machine stops, either the old content or the new one is there, and the new one once this
/// returns.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let failed = |source| TrainError::file(path, source);
    let mut partial = path.as_os_str().to_owned();
    partial.push(PARTIAL);
    let partial = PathBuf::from(partial);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(source) = written.and_then(|()| fs::rename(&partial, path)) {
        // What is half-written must not fill the disk; that it cannot be removed is no news then.
        let _ = fs::remove_file(&partial);
        return Err(failed(source));
    }
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes the names in a folder last.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), TrainError> {
    // Elsewhere a folder cannot be opened, and renames last by themselves.
    if cfg!(unix) {
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| TrainError::file(folder, source))?;
    }
    Ok(())
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TrainError> {
    fs::read(path).map_err(|source| TrainError::file(path, source))
}

pub(crate) fn read_text(path: &Path) -> Result<String, TrainError> {
    fs::read_to_string(path).map_err(|source| TrainError::file(path, source))
}

/// Keeps other processes out of a run folder for as long as it lives; the system lets go of it when the process dies.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(folder: &Path) -> Result<Self, TrainError> {
        let path = folder.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|source| TrainError::file(&path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(fs::TryLockError::WouldBlock) => Err(TrainError::Locked { folder: folder.to_owned() }),
            Err(fs::TryLockError::Error(source)) => Err(TrainError::file(&path, source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.json");
        write_atomic(&path, b"one").unwrap();
        write_atomic(&path, b"two").unwrap();
        assert_eq!(read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write_atomic(&folder.path().join("nowhere/file"), b"x").unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

    #[test]
    fn a_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::take(folder.path()).unwrap();
        assert!(matches!(Lock::take(folder.path()), Err(TrainError::Locked { .. })));
        drop(first);
        Lock::take(folder.path()).unwrap();
    }
}
