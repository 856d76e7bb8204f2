//! Which runs there are.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::error::ServeError;

/// The most runs that are shown.
const MOST: usize = 200;

/// The folders of runs in one folder.
#[derive(Debug)]
pub(super) struct RunFolders {
    root: PathBuf,
    /// The names that are shown, if not all are.
    only: Option<Mutex<BTreeSet<String>>>,
}

impl RunFolders {
    pub(super) fn new(root: PathBuf, only: Option<String>) -> Self {
        Self { root, only: only.map(|name| Mutex::new(BTreeSet::from([name]))) }
    }

    /// Shows a run of this name, too.
    pub(super) fn show(&self, name: &str) {
        if let Some(only) = &self.only {
            only.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        }
    }

    fn is_shown(&self, name: &str) -> bool {
        let Some(only) = &self.only else { return true };
        only.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// The folder that holds them.
    pub(super) fn root(&self) -> &PathBuf {
        &self.root
    }

    /// The names of the folders that hold a ledger, in order. Links are not followed.
    pub(super) fn names(&self) -> Result<Vec<String>, ServeError> {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            // The folder is made with the first run.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(ServeError::Folder { source }),
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let is_run = entry.file_type().ok()?.is_dir() && entry.path().join("ledger.jsonl").is_file();
                let name = entry.file_name().into_string().ok()?;
                (is_run && self.is_shown(&name)).then_some(name)
            })
            .collect();
        names.sort();
        names.truncate(MOST);
        Ok(names)
    }

    /// The folder of the run with this name, if a run with exactly this name was found.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, ServeError> {
        let found = self.names()?.into_iter().find(|found| found == name).ok_or(ServeError::NoRun)?;
        Ok(self.root.join(found))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_taken_for_paths() {
        let root = tempfile::tempdir().unwrap();
        for name in ["runs/one", "runs/two", "runs/plain", "secret"] {
            std::fs::create_dir_all(root.path().join(name)).unwrap();
            if name != "runs/plain" {
                std::fs::write(root.path().join(name).join("ledger.jsonl"), "").unwrap();
            }
        }
        let folders = RunFolders::new(root.path().join("runs"), None);
        assert_eq!(folders.names().unwrap(), ["one", "two"]);
        for wrong in ["plain", "../secret", "one/", "./one", "", "..", "/", "one/../two"] {
            assert!(matches!(folders.folder(wrong), Err(ServeError::NoRun)), "{wrong:?}");
        }
        assert!(folders.folder("one").unwrap().ends_with("runs/one"));
        let only = RunFolders::new(root.path().join("runs"), Some("two".to_owned()));
        assert_eq!(only.names().unwrap(), ["two"]);
        only.show("one");
        assert_eq!(only.names().unwrap(), ["one", "two"]);
        assert!(RunFolders::new(root.path().join("none"), None).names().unwrap().is_empty());
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(root.path().join("secret"), root.path().join("runs/link")).unwrap();
            assert!(matches!(folders.folder("link"), Err(ServeError::NoRun)));
        }
    }
}
