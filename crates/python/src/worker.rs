//! Runs long calls without the interpreter's lock, so that interrupts can end them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How long an interrupt may wait before it is noticed.
const POLL: Duration = Duration::from_millis(50);

/// How long a thread looks for a message before it sleeps: about as long as it takes to wake one up.
const LOOK: Duration = Duration::from_micros(50);

/// A message, if it comes within [`LOOK`].
fn soon<T>(receiver: &Receiver<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < LOOK {
        if let Ok(message) = receiver.try_recv() {
            return Some(message);
        }
        thread::yield_now();
    }
    None
}

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

type WorkerJob = Box<dyn FnOnce() + Send>;

/// A thread that waits for its next job.
struct CallWorker {
    /// The process it lives in. After a fork, the child has a copy of the memory but not the thread.
    process: u32,
    jobs: Sender<WorkerJob>,
}

/// Threads without a job. The list is locked only while the interpreter's lock is held, which a fork in Python also takes, so that no
/// child inherits the list locked.
static IDLE: Mutex<Vec<CallWorker>> = Mutex::new(Vec::new());

impl CallWorker {
    /// Takes a thread that was used before, because its memory is warm, or else starts a new one.
    fn take() -> PyResult<Self> {
        let process = std::process::id();
        if let Ok(mut idle) = IDLE.lock() {
            idle.retain(|worker| worker.process == process);
            if let Some(worker) = idle.pop() {
                return Ok(worker);
            }
        }
        let (jobs, received) = mpsc::channel::<WorkerJob>();
        let work = move || {
            while let Some(job) = soon(&received).or_else(|| received.recv().ok()) {
                job();
            }
        };
        thread::Builder::new().name("dapple".to_owned()).spawn(work)?;
        Ok(Self { process, jobs })
    }

    fn give_back(self) {
        if let Ok(mut idle) = IDLE.lock() {
            idle.push(self);
        }
    }
}

/// Runs a job on a thread of its own while other Python threads go on. An interrupt is raised within [`POLL`]. The job then ends by
/// itself or at the next place where it asks whether it is still wanted, and its thread ends with it.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&Wanted) -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let wanted = Wanted::default();
    let asked = wanted.clone();
    let worker = CallWorker::take()?;
    let ended = || PyRuntimeError::new_err("the accountant ended without an answer; please report this");
    let job: WorkerJob = Box::new(move || {
        // After an interrupt, nobody listens any more.
        let _ = sender.send(job(&asked));
    });
    worker.jobs.send(job).map_err(|_| ended())?;
    loop {
        let (answer, back) = py.detach(move || {
            let answer = soon(&receiver).map_or_else(|| receiver.recv_timeout(POLL), Ok);
            (answer, receiver)
        });
        receiver = back;
        match answer {
            Ok(answer) => {
                worker.give_back();
                return Ok(answer);
            }
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| wanted.drop_it())?;
            }
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
        }
    }
}
