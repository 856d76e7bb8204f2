//! Work over many values, on threads only where that pays.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use crate::error::StepError;

/// Work on fewer values than this is done before a sleeping thread would have woken up.
pub(crate) const WORTH_THREADS: usize = 1 << 16;
/// How many values a thread works on at once.
pub(crate) const PIECE: usize = 1 << 14;

/// Does the work on every piece, on threads if the `values` values that were cut into pieces are enough to be worth it.
pub(crate) fn for_each<T: Send>(values: usize, pieces: Vec<T>, work: impl Fn(T) + Sync + Send) {
    match values < WORTH_THREADS {
        true => pieces.into_iter().for_each(work),
        false => pieces.into_par_iter().for_each(work),
    }
}

/// The threads that noise and update parameters, started at the first step of a model that is large enough to be worth it.
#[derive(Debug)]
pub(crate) struct UpdateThreads {
    threads: usize,
    pool: Option<rayon::ThreadPool>,
}

impl UpdateThreads {
    /// As many threads as the machine has for 0.
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, pool: None }
    }

    /// Does work on so many values.
    ///
    /// # Errors
    /// That of the work, and threads that cannot be started.
    pub(crate) fn run<T: Send>(
        &mut self,
        values: usize,
        work: impl FnOnce() -> Result<T, StepError> + Send,
    ) -> Result<T, StepError> {
        if values < WORTH_THREADS {
            return work();
        }
        let pool = match &mut self.pool {
            Some(pool) => pool,
            none => {
                let threads = self.threads;
                let failed = |error: rayon::ThreadPoolBuildError| StepError::Threads {
                    threads,
                    reason: error.to_string(),
                };
                none.insert(ThreadPoolBuilder::new().num_threads(threads).build().map_err(failed)?)
            }
        };
        pool.install(work)
    }
}
