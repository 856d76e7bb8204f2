//! What a budget has set aside for a run. It is taken again when the run goes on and settled when it ends.

use std::path::{Path, PathBuf};

use dapple_plan::Release;

use super::Within;
use super::entry::BudgetEntry;
use super::error::BudgetError;
use super::file::BudgetFile;
use super::link::BudgetLink;
use super::reserve::{Reservation, fits_beside, reserved_of, stated};
use super::running::Running;
use crate::error::TrainError;
use crate::ledger::History;
use crate::prepare::Prepared;

/// What a budget has set aside for a run that this process holds.
#[derive(Debug)]
pub(crate) struct Share {
    pub(super) run: PathBuf,
    pub(super) link: BudgetLink,
    pub(super) running: Option<Running>,
}

impl Share {
    /// A run goes on: the whole plan of its entry counts again. If the run has gone on elsewhere from this folder's state, the folder is
    /// a copy and is counted anew. Returns `None` if no budget counts the run. Nothing is written before everything is checked.
    ///
    /// # Guarantee
    /// Once this returns, the budget counts every step that any copy of the run has taken or will take.
    ///
    /// # Errors
    /// A total that would be exceeded, a copy that no theorem prices beside the other.
    pub(crate) fn again(
        run: &Path,
        within: Option<&Within>,
        prepared: &Prepared,
        history: &History,
    ) -> Result<Option<Self>, TrainError> {
        let link = BudgetLink::read(run)?;
        let Some(link) = link else {
            let new = |within| Reservation::check(within, prepared)?.write(run, history.id());
            return within.map(new).transpose();
        };
        // A folder of budgets is not searched again, because the run knows which of them counts it.
        let named = within.map(|within| within.file.as_path()).filter(|path| !path.is_dir());
        let path = named.unwrap_or(&link.budget);
        let total = within.and_then(|within| within.total);
        let mut file = BudgetFile::lock(path, false)?;
        let account = file.begun()?;
        let counted = account.find(&link.entry).ok_or_else(|| BudgetError::Unknown.at(path))?;
        let mut running = Running::take(file.path(), &link.entry)?;
        let kept = running.as_mut().map(Running::kept).transpose()?.flatten();
        let knows = |seen: &Option<(usize, String)>| {
            seen.as_ref().is_none_or(|(lines, head)| history.has_seen(*lines, head))
        };
        // A process that never settled has left its file. Without that file nobody knows how far the run came.
        let told = |running: &Running| counted.settled.is_some() || running.was_there;
        let is_it = link.is_at(&counted.turn) && knows(&counted.seen) && knows(&kept);
        let link = BudgetLink { budget: file.path().to_owned(), ..link };
        let running = match running {
            Some(running) if is_it && told(&running) => running,
            other => {
                // Remove a file that was made just now, because the next time it would pass for one that a process left.
                if let Some(running) = other
                    && !running.was_there
                {
                    running.end();
                }
                return Self::copy(run, file, total, prepared, history).map(Some);
            }
        };
        let mut entries = Vec::from_iter(stated(&file, total)?);
        if counted.settled.is_some() {
            // The rest of the plan was given back, and other runs may have taken it since.
            let mut others = account.clone();
            others.counted.retain(|other| other.id != link.entry);
            let whole = others.restate(&reserved_of(prepared), None)?.map(Release::from);
            fits_beside(&others, path, total.or(account.total), whole)?;
        }
        entries.push(BudgetEntry::Again { entry: link.entry.clone() });
        let link = written(&mut file, run, link, entries)?;
        Ok(Some(Self { run: run.to_owned(), link, running: Some(running) }))
    }

    /// Counts a copy of a run folder as a run of its own.
    fn copy(
        run: &Path,
        file: BudgetFile,
        total: Option<f64>,
        prepared: &Prepared,
        history: &History,
    ) -> Result<Self, TrainError> {
        if prepared.plan().draws_ahead() {
            return Err(BudgetError::SharedAllocation.at(file.path()));
        }
        Reservation::of_copy(file, total, prepared)?.write(run, history.id())
    }

    /// Notes the steps that the ledger has promised, so that the budget's side knows of them before the first is taken.
    ///
    /// # Errors
    /// A file that cannot be written. None of the steps may be taken then.
    pub(crate) fn promised(&mut self, history: &History) -> Result<(), TrainError> {
        let (lines, head) = history.position();
        self.running.as_mut().map_or(Ok(()), |running| running.keep(lines, head))
    }

    /// Ends this process's part of the run in order: from now on the entry counts the steps that the ledger counts.
    ///
    /// # Guarantee
    /// The number comes from the run's own ledger, read as a whole, which knows every promise that was made for this entry. Until then,
    /// and if a process never gets here, the whole plan is counted.
    ///
    /// # Errors
    /// A budget that cannot be written. The whole plan stays counted then.
    pub(crate) fn settle(self, history: &History) -> Result<(), TrainError> {
        let mut file = BudgetFile::lock(&self.link.budget, false)?;
        let (lines, head) = history.position();
        let entry = BudgetEntry::Settled {
            entry: self.link.entry.clone(),
            steps: history.spent(),
            lines,
            head: head.to_owned(),
        };
        written(&mut file, &self.run, self.link, vec![entry])?;
        if let Some(running) = self.running {
            running.end();
        }
        Ok(())
    }
}

/// Writes entries about a run that is counted already. Until the new line is whole, the folder knows both it and the last one, so that a
/// crash in between does not turn the folder into a copy.
fn written(
    file: &mut BudgetFile,
    run: &Path,
    mut link: BudgetLink,
    entries: Vec<BudgetEntry>,
) -> Result<BudgetLink, TrainError> {
    let draft = file.draft(entries)?;
    // After a crash, the line that the folder calls the next one may already be the last.
    if let Some(counted) = file.account().and_then(|account| account.find(&link.entry)) {
        counted.turn.clone_into(&mut link.turn);
    }
    link.next = Some(draft.hash.clone());
    link.write(run)?;
    let turn = draft.hash.clone();
    file.write(draft)?;
    link = BudgetLink { turn, next: None, ..link };
    link.write(run)?;
    Ok(link)
}
