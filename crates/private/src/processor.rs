//! Private steps on the processor, which works on what the host holds.

use dapple_engine::{
    ClippingRule, CpuExecutor, CpuOptions, EngineError, GradientSum, Layout, Loaded, StepStats,
};
use dapple_graph::{Graph, Parameters};

use crate::error::StepError;
use crate::executor::{Executor, Forward, Microbatches};
use crate::learned::{Learned, Update};
use crate::parallel::WORTH_THREADS;

/// An executor that takes private steps on the processor.
#[derive(Debug)]
pub struct Processor {
    executor: CpuExecutor,
    threads: usize,
    /// The threads that noise and update the parameters, started at the first step of a model that is large enough to be worth it.
    pool: Option<rayon::ThreadPool>,
    /// The sum of the step under way.
    sum: Option<GradientSum>,
    /// The memory of the last step's sum, to be used again.
    gradient: Vec<f32>,
}

impl Processor {
    /// Makes an executor with `threads` threads, or as many as the machine has if that is 0.
    ///
    /// # Errors
    /// A graph that cannot be run, or threads that cannot be started.
    pub fn new(graph: &Graph, threads: usize) -> Result<Self, StepError> {
        Self::with_submodels(graph, &[], threads)
    }

    /// Makes an executor as [`Processor::new`] does, whose batches may belong to submodels of the graph.
    ///
    /// # Errors
    /// As [`Processor::new`], and submodels of another graph.
    pub fn with_submodels(graph: &Graph, submodels: &[Graph], threads: usize) -> Result<Self, StepError> {
        let options = CpuOptions { threads, ..CpuOptions::default() };
        let executor = CpuExecutor::with_submodels(graph, submodels.to_vec(), options)?;
        Ok(Self { executor, threads, pool: None, sum: None, gradient: Vec::new() })
    }

    fn pool(&mut self) -> Result<rayon::ThreadPool, StepError> {
        let threads = self.threads;
        self.pool
            .take()
            .map_or_else(|| rayon::ThreadPoolBuilder::new().num_threads(threads).build(), Ok)
            .map_err(|error| StepError::Threads { threads, reason: error.to_string() })
    }
}

impl Executor for Processor {
    fn layout(&self) -> &Layout {
        self.executor.layout()
    }

    fn clipped_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<StepStats, StepError> {
        let mut sum = self.executor.gradient_sum_in(std::mem::take(&mut self.gradient));
        let mut loaded = self.executor.load(&learned.parameters)?;
        let mut stats = StepStats::default();
        while let Some(batch) = microbatches.next()? {
            stats.join(loaded.clipped_sum(&batch, rule, &mut sum)?);
        }
        self.sum = Some(sum);
        Ok(stats)
    }

    fn update(&mut self, learned: &mut Learned, update: &Update<'_>) -> Result<(), StepError> {
        let sum = self.sum.take().ok_or(EngineError::Parameters)?;
        let mut total = self.executor.load(&learned.parameters)?.total(sum)?;
        if self.layout().len() < WORTH_THREADS {
            learned.update(&mut total, update)?;
        } else {
            let pool = self.pool()?;
            pool.install(|| learned.update(&mut total, update))?;
            self.pool = Some(pool);
        }
        self.gradient = self.executor.recycle(total);
        Ok(())
    }

    /// There is nothing to bring back: the processor works on what the host holds.
    fn fetch(&mut self, _: &mut Learned) -> Result<(), StepError> {
        Ok(())
    }

    fn load<'e>(&'e mut self, parameters: &'e Parameters) -> Result<Box<dyn Forward + 'e>, StepError> {
        Ok(Box::new(self.executor.load(parameters)?))
    }
}

impl Forward for Loaded<'_, '_> {
    fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, StepError> {
        Ok(Loaded::forward(self, inputs)?)
    }
}
