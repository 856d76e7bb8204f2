//! A budget across runs: one file for one set of records, in which every run is counted before it begins.
//!
//! Like a run's ledger, the file is a chain of hashes that only grows. A run reserves the price of its whole plan before its ledger
//! begins, so that a crash never counts too little. A process that ends in order settles its entry to the steps that the ledger counts. A
//! run folder keeps the hash of the last line about its run, which tells whether it may go on under its entry: a copy of a folder whose
//! run has gone on elsewhere counts as another run. `docs/budget.md` says what is composed, and what cannot be seen.

mod account;
mod entry;
mod error;
mod file;
mod link;
mod reserve;
mod running;
mod share;
mod statement;

use std::path::{Path, PathBuf};

pub use error::BudgetError;
pub(crate) use reserve::Reservation;
pub(crate) use share::Share;
pub use statement::{BudgetStatement, CountedStatement};

use crate::error::TrainError;
use crate::run::open_run;
use file::BudgetFile;
use link::BudgetLink;

/// The budget that a run is to be counted in.
#[derive(Debug, Clone, PartialEq)]
pub struct Within {
    /// The file, which is made with its first run, or a folder that has a file for each set of records.
    pub file: PathBuf,
    /// The most that everything in the budget may cost together. If it is left out, what was stated before holds.
    pub total: Option<f64>,
}

/// What a budget counts, or every budget in a folder.
///
/// # Errors
/// No budget there, or one that was edited.
pub fn budgets(path: &Path) -> Result<Vec<BudgetStatement>, TrainError> {
    let files = if path.is_dir() { files_in(path)? } else { vec![path.to_owned()] };
    if files.is_empty() {
        return Err(BudgetError::Missing.at(path));
    }
    files.iter().map(|file| BudgetStatement::of(&BudgetFile::lock(file, false)?)).collect()
}

/// The budget that counts the run in a folder, if any does.
///
/// # Errors
/// A link that cannot be read.
pub fn budget_of_run(run: &Path) -> Result<Option<PathBuf>, TrainError> {
    Ok(BudgetLink::read(run)?.map(|link| link.budget))
}

/// States the most that everything in a budget may cost together, or changes it.
///
/// # Errors
/// No budget there, or a number that is no epsilon.
pub fn state_total(path: &Path, epsilon: f64) -> Result<(), TrainError> {
    let mut file = BudgetFile::lock(path, false)?;
    let total = reserve::total(epsilon).map_err(|error| error.at(path))?;
    let draft = file.draft([total])?;
    file.write(draft)
}

/// Counts the whole plan of a run that was begun without a budget, and links its folder. What the run costs is spent already, so no total
/// refuses it.
///
/// # Errors
/// As [`certify`](crate::certify), a run without privacy or on other records, a run that is in the budget already.
pub fn add_run(within: &Within, run: &Path) -> Result<(), TrainError> {
    let (prepared, history) = open_run(run)?;
    if BudgetLink::read(run)?.is_some() {
        return Err(BudgetError::Known.at(&within.file));
    }
    let mut share = Reservation::spent(within, &prepared)?.write(run, history.id())?;
    match history.finished() {
        true => share.settle(&history),
        // From here on the budget knows how far the run came, so it may go on.
        false => share.promised(&history),
    }
}

/// The budgets in a folder, in the order of their names.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let failed = |source| TrainError::file(folder, source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "budget") && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
