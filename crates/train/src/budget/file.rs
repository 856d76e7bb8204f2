//! The file of a budget, which one process holds at a time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::account::Account;
use super::entry::{BudgetEntry, Open};
use super::error::BudgetError;
use crate::error::TrainError;
use crate::files::{self, Access};
use crate::lines::Lines;

/// A locked budget: no other process reads or writes it as long as this value lives.
#[derive(Debug)]
pub(super) struct BudgetFile {
    path: PathBuf,
    _lock: File,
    /// `None` if nothing is written yet.
    account: Option<Account>,
    /// The first line, while it is still to be written.
    first: String,
}

/// Lines that are made but not yet written.
pub(super) struct Draft {
    text: String,
    account: Account,
    /// Hash of the last of them.
    pub(super) hash: String,
}

impl BudgetFile {
    /// Waits for the lock of the budget. If there is no budget and `create` is set, an empty one is made.
    pub(super) fn lock(path: &Path, create: bool) -> Result<Self, TrainError> {
        let path = std::path::absolute(path).map_err(|source| TrainError::file(path, source))?;
        let failed = |source| TrainError::file(&path, source);
        let lock = loop {
            // Devices and pipes are refused, because they have no end.
            if path.exists() != path.is_file() || !(create || path.exists()) {
                return Err(BudgetError::Missing.at(&path));
            }
            files::refuse_link(&path)?;
            let mut options = files::options(Access::Owner);
            let file = options.read(true).append(true).create(create).open(&path).map_err(failed)?;
            file.lock().map_err(failed)?;
            // Whoever held the lock may have removed the file again, because it never got a first line.
            if files::is_at(&file, &path) {
                break file;
            }
        };
        let account = Account::read(&files::read(&path)?).map_err(|error| error.at(&path))?;
        Ok(Self { path, _lock: lock, account, first: String::new() })
    }

    /// The full path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The account of a budget that has begun.
    pub(super) fn begun(&self) -> Result<&Account, TrainError> {
        self.account.as_ref().ok_or_else(|| BudgetError::Missing.at(&self.path))
    }

    /// The account, if one has begun.
    pub(super) fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Begins an account. Its first line is written together with its first entry.
    pub(super) fn begin(&mut self, open: Open) {
        let (account, line) = Account::begin(open);
        (self.account, self.first) = (Some(account), line);
    }

    /// Makes the lines of some entries, without writing them.
    pub(super) fn draft(&self, entries: impl IntoIterator<Item = BudgetEntry>) -> Result<Draft, TrainError> {
        let mut account = self.begun()?.clone();
        let (mut text, mut last) = (self.first.clone(), String::new());
        for entry in entries {
            let (line, hash) = entry.to_line(&account.head);
            account
                .accept(entry, &hash)
                .map_err(|problem| BudgetError::Entry { line: 0, problem }.at(&self.path))?;
            text.push_str(&line);
            last = hash;
        }
        Ok(Draft { text, account, hash: last })
    }

    /// Writes lines. Returns once they would survive a crash.
    pub(super) fn write(&mut self, draft: Draft) -> Result<(), TrainError> {
        // A last line that was cut off is dropped, because nobody acted upon it.
        Lines::open(&self.path, Access::Owner)?.add_lasting(&draft.text)?;
        files::sync_folder(files::folder_of(&self.path))?;
        (self.account, self.first) = (Some(draft.account), String::new());
        Ok(())
    }
}

impl Drop for BudgetFile {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|file| file.len() == 0) {
            // An empty file that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}
