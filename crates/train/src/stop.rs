//! A request to stop a run, which any process may leave that may write into its folder.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::TrainError;
use crate::files::{self, Access};
use crate::folder::Folder;
use crate::observer::{Event, Observer};
use crate::results::is_held;

/// Time between two looks for a request.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Asks whichever process trains the run in a folder to end it in order, as an interrupt does. `false` if none does.
///
/// The request is a file in the private part of the folder, and no signal: it cannot reach another process that has got the number of one that
/// ended. A process that takes the run up removes requests that were meant for an earlier one.
///
/// # Errors
/// A folder without a run, or one that cannot be written to.
pub fn ask_to_stop(folder: &Path) -> Result<bool, TrainError> {
    if !is_held(folder)? {
        return Ok(false);
    }
    let path = Folder::new(folder).stop_request();
    files::refuse_link(&path)?;
    let written = files::options(Access::Owner).write(true).create(true).truncate(true).open(&path);
    written.map(|_| true).map_err(|source| TrainError::file(&path, source))
}

/// Removes a request that was meant for an earlier process. Whoever calls this holds the run.
pub(crate) fn forget_requests(folder: &Folder) -> Result<(), TrainError> {
    let path = folder.stop_request();
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(TrainError::file(&path, error)),
        _ => Ok(()),
    }
}

/// Listens to a run for another observer, and ends it once somebody asked for that.
pub(crate) struct StopWatch<'a> {
    observer: &'a mut dyn Observer,
    request: PathBuf,
    due: Instant,
    asked: bool,
}

impl<'a> StopWatch<'a> {
    pub(crate) fn new(observer: &'a mut dyn Observer, folder: &Folder) -> Self {
        Self { observer, request: folder.stop_request(), due: Instant::now(), asked: false }
    }
}

impl Observer for StopWatch<'_> {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let flow = self.observer.notice(event);
        let now = Instant::now();
        if !self.asked && now >= self.due {
            self.asked = self.request.symlink_metadata().is_ok();
            self.due = now + LOOK_EVERY;
        }
        if self.asked { ControlFlow::Break(()) } else { flow }
    }
}
