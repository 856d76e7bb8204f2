//! Long calls: off the interpreter's lock, and open to interrupts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long an interrupt may wait to be heard.
const POLL: Duration = Duration::from_millis(50);

/// Whether the answer is still wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    pub(crate) fn still(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    fn drop_it(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a job on a thread of its own while other Python threads go on. An interrupt is raised within [`POLL`]; the job then ends at
/// the next place where it asks whether it is still wanted, or by itself, and its answer is dropped.
///
/// A new thread a call, because a pool would not survive the forks by which data loaders make their workers.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&Wanted) -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let wanted = Wanted::default();
    let asked = wanted.clone();
    thread::Builder::new().name("dapple".to_owned()).spawn(move || {
        // Nobody listens any more after an interrupt.
        let _ = sender.send(job(&asked));
    })?;
    loop {
        let (answer, back) = py.detach(move || (receiver.recv_timeout(POLL), receiver));
        receiver = back;
        match answer {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| wanted.drop_it())?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err(
                    "the accountant ended without an answer; please report this",
                ));
            }
        }
    }
}
