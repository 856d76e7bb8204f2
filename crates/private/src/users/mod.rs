//! Private steps in which every contribution is what a user trained on its own records.

mod batch;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use dapple_engine::{
    ClippedVector, ClippingRule, CpuExecutor, CpuOptions, EngineError, Layout, StepStats, VectorSum,
};
use dapple_graph::{Graph, Parameters};

use crate::error::StepError;
use crate::executor::{Executor, Forward, Microbatches};
use crate::learned::{Learned, Update};
use crate::parallel::UpdateThreads;
use batch::UserBatch;
use worker::UserWorker;

/// How a user turns its records into an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalTraining {
    /// The number of steps, at least one, and their learning rate. `None` for one step alone, whose update is the mean gradient of the
    /// records that it sees.
    pub steps: Option<LocalSteps>,
    /// How many of the user's records each step sees; `None` for all that are shown.
    pub batch: Option<usize>,
}

/// Several steps of plain gradient descent on a user's own weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LocalSteps {
    /// How many there are.
    pub count: u64,
    /// By how much a step moves the weights against the mean gradient of the records that it sees.
    pub learning_rate: f32,
}

/// An executor on the processor whose batches each hold the records of one user.
///
/// Users are trained side by side, each by one thread from the step's weights, and their updates are added up as gradients are. A user's update
/// is the weights it began with less those it ended with, or, of a single step, the mean gradient. It is a function of the weights, of the
/// user's records as they are shown and of what the batch says about dropout, and has the same bits on any number of threads.
#[derive(Debug)]
pub struct UserProcessor {
    /// Answers, and trains nothing.
    whole: CpuExecutor,
    workers: Vec<UserWorker>,
    local: LocalTraining,
    threads: UpdateThreads,
    /// The sum of the step under way.
    sum: Option<VectorSum>,
    /// The memory of the last step's sum, to be used again.
    memory: Vec<f32>,
}

impl UserProcessor {
    /// Makes an executor with `threads` threads, or as many as the machine has if that is 0. Batches may belong to submodels of the graph.
    ///
    /// # Errors
    /// A graph that cannot be run, submodels of another graph, or threads that cannot be started.
    pub fn new(
        graph: &Graph,
        submodels: &[Graph],
        local: LocalTraining,
        threads: usize,
    ) -> Result<Self, StepError> {
        let whole = CpuExecutor::new(graph, CpuOptions { threads, ..CpuOptions::default() })?;
        let count = match threads {
            0 => thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let workers = (0..count).map(|_| UserWorker::new(graph, submodels)).collect::<Result<_, _>>()?;
        let threads = UpdateThreads::new(threads);
        Ok(Self { whole, workers, local, threads, sum: None, memory: Vec::new() })
    }
}

/// What the threads of a step share.
struct UserRound<'m> {
    users: &'m mut dyn Microbatches,
    /// How many users were handed out.
    taken: usize,
    /// Whether all were.
    ended: bool,
    sum: VectorSum,
    /// The number, the loss and the norm of each user whose update is in the sum.
    added: Vec<(usize, f32, f32)>,
    stats: StepStats,
    failed: Option<StepError>,
}

impl UserRound<'_> {
    /// The records of the next user, copied to `batch`, and the user's number in the step.
    fn next(&mut self, batch: &mut UserBatch) -> Option<usize> {
        while !self.ended && self.failed.is_none() {
            match self.users.next() {
                // An empty step is shown as a batch without records, which is nobody's.
                Ok(Some(shown)) if shown.inputs.is_empty() => {}
                Ok(Some(shown)) => {
                    batch.copy(&shown);
                    self.taken += 1;
                    return Some(self.taken - 1);
                }
                Ok(None) => self.ended = true,
                Err(error) => self.failed = Some(error),
            }
        }
        None
    }

    /// Adds the update of a user.
    fn add(&mut self, number: usize, loss: f32, update: &ClippedVector<'_>) -> Result<(), EngineError> {
        self.sum.add(update)?;
        self.added.push((number, loss, update.norm() as f32));
        self.stats.not_finite += usize::from(!update.is_added());
        self.stats.unclipped += usize::from(update.is_unclipped());
        Ok(())
    }
}

/// What one thread works with.
struct SharedRound<'s, 'm> {
    round: Mutex<UserRound<'m>>,
    /// Is told when an update was added, or will never be.
    added: Condvar,
    start: &'s Parameters,
    local: LocalTraining,
    rule: &'s ClippingRule,
    layout: &'s Layout,
}

impl<'m> SharedRound<'_, 'm> {
    /// The round. A thread that panics ends all with it, so that nobody sees what it left behind.
    fn round(&self) -> MutexGuard<'_, UserRound<'m>> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Trains users until there are no more.
    fn work(&self, worker: &mut UserWorker) {
        loop {
            let Some(number) = self.round().next(&mut worker.batch) else { return };
            let trained = worker.train(self.start, &self.local);
            let done = trained.and_then(|loss| {
                let update = ClippedVector::new(self.rule, self.layout, worker.update())?;
                let mut round = self.round();
                // Whole numbers have the same sum in every order. Plain ones are added in the order in which users were shown.
                while self.rule.unit().is_none() && round.added.len() < number && round.failed.is_none() {
                    round = self.added.wait(round).unwrap_or_else(PoisonError::into_inner);
                }
                Ok(round.add(number, loss, &update)?)
            });
            if let Err(error) = done {
                self.round().failed.get_or_insert(error);
            }
            self.added.notify_all();
        }
    }
}

impl Executor for UserProcessor {
    fn layout(&self) -> &Layout {
        self.whole.layout()
    }

    /// Adds up the clipped updates of all users of a step, and keeps the sum for [`Executor::update`].
    ///
    /// # Guarantee
    /// Each user adds one vector, which depends on no other user and whose norm is at most [`ClippingRule::sensitivity`], however many
    /// records and local steps it comes from; these vectors are added without rounding. With clipping, a user whose update is not finite adds
    /// nothing. A user of a submodel adds exactly zero to every parameter that the submodel does not read, because none of its local steps
    /// moves these; one with a mask of dropout layers, to every value that is split by a unit which the mask drops.
    fn clipped_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<StepStats, StepError> {
        let layout = self.whole.layout();
        let sum = VectorSum::new(layout, std::mem::take(&mut self.memory));
        let round = UserRound {
            users: microbatches,
            taken: 0,
            ended: false,
            sum,
            added: Vec::new(),
            stats: StepStats::default(),
            failed: None,
        };
        let shared = SharedRound {
            round: Mutex::new(round),
            added: Condvar::new(),
            start: &learned.parameters,
            local: self.local,
            rule,
            layout,
        };
        thread::scope(|scope| {
            for worker in &mut self.workers {
                scope.spawn(|| shared.work(worker));
            }
        });
        let UserRound { mut added, mut stats, sum, failed, .. } =
            shared.round.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed {
            return Err(error);
        }
        added.sort_unstable_by_key(|(number, _, _)| *number);
        stats.losses = added.iter().map(|(_, loss, _)| *loss).collect();
        stats.norms = added.iter().map(|(_, _, norm)| *norm).collect();
        self.sum = Some(sum);
        Ok(stats)
    }

    fn update(&mut self, learned: &mut Learned, update: &Update<'_>) -> Result<(), StepError> {
        let mut total = self.sum.take().ok_or(EngineError::Parameters)?.into_total();
        self.threads.run(self.whole.layout().len(), || learned.update(&mut total, None, update))?;
        self.memory = self.whole.recycle(total);
        Ok(())
    }

    /// There is nothing to bring back: the processor works on what the host holds.
    fn fetch(&mut self, _: &mut Learned) -> Result<(), StepError> {
        Ok(())
    }

    fn load<'e>(&'e mut self, parameters: &'e Parameters) -> Result<Box<dyn Forward + 'e>, StepError> {
        Ok(Box::new(self.whole.load(parameters)?))
    }
}
