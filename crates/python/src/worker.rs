//! Runs long calls without the interpreter's lock, so that interrupts can end them.

use std::convert::Infallible;
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

    pub(crate) fn drop_it(&self) {
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

/// What comes back from a job: words on the way, and the answer at the end.
enum Spoken<M, T> {
    Word(M),
    Answer(T),
}

/// How a job tells the calling thread something on its way.
pub(crate) struct Teller<M, T>(Sender<Spoken<M, T>>);

impl<M, T> Teller<M, T> {
    /// Tells it. The answer is false if nobody listens any more.
    pub(crate) fn tell(&self, word: M) -> bool {
        self.0.send(Spoken::Word(word)).is_ok()
    }
}

/// What an interrupt does to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    /// It is raised at once.
    AtOnce,
    /// The job is asked to end in order and waited for; the second interrupt is raised at once.
    InOrder,
}

/// Runs a job on a thread of its own while other Python threads go on. An interrupt is raised within [`POLL`]. The job then ends by
/// itself or at the next place where it asks whether it is still wanted, and its thread ends with it.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&Wanted) -> T + Send + 'static,
) -> PyResult<T> {
    listen(py, Interrupt::AtOnce, move |wanted, _| job(wanted), |_, word: Infallible| match word {})
}

/// As [`run`], for a job that tells things on its way and must end in order. After an interrupt, or an error of whoever hears it, the job
/// is asked to end and waited for, and only then is the interrupt or the error raised.
pub(crate) fn run_in_order<T: Send + 'static, M: Send + 'static>(
    py: Python<'_>,
    job: impl FnOnce(&Wanted, &Teller<M, T>) -> T + Send + 'static,
    hear: impl FnMut(Python<'_>, M) -> PyResult<()>,
) -> PyResult<T> {
    listen(py, Interrupt::InOrder, job, hear)
}

fn listen<T: Send + 'static, M: Send + 'static>(
    py: Python<'_>,
    interrupt: Interrupt,
    job: impl FnOnce(&Wanted, &Teller<M, T>) -> T + Send + 'static,
    mut hear: impl FnMut(Python<'_>, M) -> PyResult<()>,
) -> PyResult<T> {
    let (sender, mut receiver) = mpsc::channel();
    let wanted = Wanted::default();
    let asked = wanted.clone();
    let worker = CallWorker::take()?;
    let ended = || PyRuntimeError::new_err("the call ended without an answer; please report this");
    let job: WorkerJob = Box::new(move || {
        let teller = Teller(sender);
        let answer = job(&asked, &teller);
        // After an interrupt, nobody listens any more.
        let _ = teller.0.send(Spoken::Answer(answer));
    });
    worker.jobs.send(job).map_err(|_| ended())?;
    let mut failed: Option<PyErr> = None;
    loop {
        let (spoken, back) = py.detach(move || {
            let spoken = soon(&receiver).map_or_else(|| receiver.recv_timeout(POLL), Ok);
            (spoken, receiver)
        });
        receiver = back;
        match spoken {
            Ok(Spoken::Answer(answer)) => {
                worker.give_back();
                return failed.map_or(Ok(answer), Err);
            }
            // Whoever failed to hear one word hears no other.
            Ok(Spoken::Word(word)) if failed.is_none() => {
                if let Err(error) = hear(py, word) {
                    wanted.drop_it();
                    failed = Some(error);
                }
            }
            Ok(Spoken::Word(_)) => {}
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(ended()),
        }
        if let Err(error) = py.check_signals() {
            wanted.drop_it();
            if interrupt == Interrupt::AtOnce || failed.is_some() {
                return Err(error);
            }
            failed = Some(error);
        }
    }
}
