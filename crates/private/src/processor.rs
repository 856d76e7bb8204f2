//! Private steps on the processor, which works on what the host holds.

use std::sync::Arc;

use dapple_engine::{
    ClippingRule, CpuExecutor, CpuOptions, EngineError, GradientSum, Layout, Loaded, StepStats, Total,
};
use dapple_graph::{Graph, Parameters};

use crate::error::StepError;
use crate::executor::{Executor, Forward, Microbatches};
use crate::learned::{Learned, Update};
use crate::parallel::UpdateThreads;
use crate::peers::{self, Peers};

/// An executor that takes private steps on the processor.
#[derive(Debug)]
pub struct Processor {
    executor: CpuExecutor,
    threads: UpdateThreads,
    /// The sum of the step under way.
    sum: Option<GradientSum>,
    /// The sum of the public parts of records, and the weight of what has no bound, if the step under way has any.
    public: Option<(Total, f32)>,
    /// The memory of the last step's sum, to be used again.
    gradient: Vec<f32>,
    /// The processes that take the steps together with this one.
    peers: Option<Arc<dyn Peers>>,
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
        let threads = UpdateThreads::new(threads);
        Ok(Self { executor, threads, sum: None, public: None, gradient: Vec::new(), peers: None })
    }

    /// The same executor, which takes every step together with other processes that have the same graph and parameters, and the same
    /// [`arrangement`](dapple_engine::arrangement): each is shown a part of the records, and all come to the sum of all.
    #[must_use]
    pub fn among(self, peers: Arc<dyn Peers>) -> Self {
        Self { peers: Some(peers), ..self }
    }

    /// Adds up the gradients of all microbatches, in this memory if it is large enough.
    fn sum_in(
        &mut self,
        memory: Vec<f32>,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
    ) -> Result<(GradientSum, StepStats), StepError> {
        let mut sum = self.executor.gradient_sum_in(memory);
        let mut loaded = self.executor.load(&learned.parameters)?;
        let own = add_up(&mut loaded, microbatches, rule, &mut sum).map(|stats| (sum, stats));
        match &self.peers {
            None => own,
            Some(peers) => {
                let mark = peers::mark(learned.parameters.values(), rule);
                peers::join(&**peers, own, &mut loaded, rule, mark)
            }
        }
    }
}

/// Adds the clipped gradients of all microbatches to a sum.
fn add_up(
    loaded: &mut Loaded<'_, '_>,
    microbatches: &mut dyn Microbatches,
    rule: &ClippingRule,
    sum: &mut GradientSum,
) -> Result<StepStats, StepError> {
    let mut stats = StepStats::default();
    while let Some(batch) = microbatches.next()? {
        stats.join(loaded.clipped_sum(&batch, rule, sum)?);
    }
    Ok(stats)
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
        let memory = std::mem::take(&mut self.gradient);
        let (sum, stats) = self.sum_in(memory, learned, microbatches, rule)?;
        (self.sum, self.public) = (Some(sum), None);
        Ok(stats)
    }

    fn public_sum(
        &mut self,
        learned: &Learned,
        microbatches: &mut dyn Microbatches,
        rule: &ClippingRule,
        weight: f32,
    ) -> Result<StepStats, StepError> {
        if rule.unit().is_some() && weight != 1.0 {
            return Err(EngineError::Clipping(format!("a bounded sum has no weight of {weight}")).into());
        }
        let (sum, stats) = self.sum_in(Vec::new(), learned, microbatches, rule)?;
        self.public = Some((self.executor.load(&learned.parameters)?.total(sum)?, weight));
        Ok(stats)
    }

    fn update(&mut self, learned: &mut Learned, update: &Update<'_>) -> Result<(), StepError> {
        let sum = self.sum.take().ok_or(EngineError::Parameters)?;
        let mut total = self.executor.load(&learned.parameters)?.total(sum)?;
        let mut behind = match self.public.take() {
            // What is bounded is hidden by the noise on the sum, so it must be there before.
            Some((public, _)) if public.counts().is_some() && total.counts().is_some() => {
                total.join(&public)?;
                None
            }
            public => public,
        };
        let behind = behind.as_mut().map(|(total, weight)| (&*total.to_single(), *weight));
        let values = self.executor.layout().len();
        self.threads.run(values, || learned.update(&mut total, behind, update))?;
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
