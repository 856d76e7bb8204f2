//! The runs that the page shows, starts, stops and asks.

mod compare;
mod found;
mod predict;
mod process;
mod start;
mod state;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dapple_pages::RunPage;
use dapple_plan::PlanSpec;
use serde::Serialize;

use crate::error::ServeError;
use found::RunFolders;
use process::RunProcess;
use state::StateShelf;

pub(crate) use compare::ComparisonQuestion;
pub(crate) use start::{SpendingConsent, StartOrder};
pub(crate) use state::RunState;

/// What the server was given to train and to show. Nothing that a browser sends adds to it.
#[derive(Debug, Clone)]
pub struct RunSettings {
    /// The program that trains.
    pub program: PathBuf,
    /// The folder in which runs are found, and in which new ones begin.
    pub folder: PathBuf,
    /// The one run that is shown beside those that the server starts, by its name in the folder; all that are found without it.
    pub only: Option<String>,
    /// The plan to train, whose files are named by absolute paths; without it no run can be started.
    pub plan: Option<PlanSpec>,
    /// What new runs are called, before a number.
    pub name: String,
    /// Arguments of `train` beside the plan and the folder, such as those of a budget.
    pub arguments: Vec<OsString>,
}

/// The runs of a server.
///
/// # Guarantee
/// A run is asked for by a name, which is compared with the names that are found in the folder; nothing that a browser sends becomes a part
/// of a path. Runs are trained by processes of their own with the arguments of the command line, so that they promise, count and
/// stop as every other run does, and outlive the server.
#[derive(Debug)]
pub struct RunDesk {
    given: RunSettings,
    folders: RunFolders,
    shelf: StateShelf,
    processes: Mutex<BTreeMap<String, RunProcess>>,
    /// Held while a model is asked, which may take much memory.
    asking: Mutex<()>,
}

/// The runs, and whether another can be started.
#[derive(Debug, Serialize)]
pub(crate) struct RunList {
    runs: Vec<RunState>,
    can_start: bool,
}

impl RunDesk {
    /// A desk for these runs.
    #[must_use]
    pub fn new(given: RunSettings) -> Self {
        let folders = RunFolders::new(given.folder.clone(), given.only.clone());
        Self {
            given,
            folders,
            shelf: StateShelf::default(),
            processes: Mutex::default(),
            asking: Mutex::default(),
        }
    }

    /// All runs, by name.
    pub(crate) fn list(&self) -> Result<RunList, ServeError> {
        let names = self.folders.names()?;
        // A run that cannot be trusted hides no other.
        let told =
            |name: &String| self.state(name).unwrap_or_else(|error| RunState::unreadable(name, &error));
        let mut runs: Vec<RunState> = names.iter().map(told).collect();
        // A run that has just been started, or was refused, has no folder yet.
        runs.extend(self.processes().iter_mut().filter_map(|(name, process)| {
            (!names.contains(name)).then(|| RunState::without_folder(name, process))
        }));
        Ok(RunList { runs, can_start: self.given.plan.is_some() })
    }

    /// What can be said about a run now.
    pub(crate) fn state(&self, name: &str) -> Result<RunState, ServeError> {
        let mut processes = self.processes();
        let mut process = processes.get_mut(name);
        let folder = match (self.folders.folder(name), &mut process) {
            (Ok(folder), _) => folder,
            (Err(_), Some(process)) => return Ok(RunState::without_folder(name, process)),
            (Err(error), None) => return Err(error),
        };
        let (own, problem) = match process {
            Some(process) => (process.is_alive(), process.problem()),
            None => (false, None),
        };
        drop(processes);
        Ok(self.shelf.state(name, &folder, own)?.told(problem))
    }

    /// Asks a run to stop in order, as an interrupt does, whoever started it.
    pub(crate) fn stop(&self, name: &str) -> Result<RunState, ServeError> {
        let interrupted = match self.processes().get_mut(name) {
            Some(process) => process.is_alive() && process.interrupt(),
            None => false,
        };
        // What this server did not start, or cannot send a signal to, looks for a request in its folder.
        if !interrupted && !dapple_train::ask_to_stop(&self.folders.folder(name)?)? {
            return Err(ServeError::refused(format!("{name} does not run"), None));
        }
        self.state(name)
    }

    /// The page of a run.
    pub(crate) fn report(&self, name: &str) -> Result<String, ServeError> {
        let folder = self.folders.folder(name)?;
        let certificate = dapple_train::certify(&folder)?;
        Ok(RunPage::of(&folder, &certificate)?.page.to_html())
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<String, RunProcess>> {
        // What a panicking thread left is as good as before: every change is one insertion.
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
