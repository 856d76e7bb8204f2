//! The processor, which works on what the host holds.

use dapple_engine::{CpuExecutor, GradientSum, Layout, Loaded, Options};
use dapple_graph::{Graph, Parameters};

use crate::error::TrainError;
use crate::learned::{Learned, Update};
use crate::parallel::WORTH_THREADS;

/// An executor on the processor.
#[derive(Debug)]
pub(crate) struct Processor {
    executor: CpuExecutor,
    /// Memory of the last gradient.
    gradient: Vec<f32>,
    /// Steps after which it fails, as a device may.
    #[cfg(test)]
    pub(super) fails_after: Option<u64>,
}

impl Processor {
    pub(crate) fn new(graph: &Graph, threads: usize) -> Result<Self, TrainError> {
        Ok(Self {
            executor: CpuExecutor::new(graph, Options { threads, ..Options::default() })?,
            gradient: Vec::new(),
            #[cfg(test)]
            fails_after: None,
        })
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.executor.layout()
    }

    pub(crate) fn sum(&mut self) -> GradientSum {
        self.executor.gradient_sum_in(std::mem::take(&mut self.gradient))
    }

    pub(crate) fn load<'e, 'p>(
        &'e mut self,
        parameters: &'p Parameters,
    ) -> Result<Loaded<'e, 'p>, TrainError> {
        Ok(self.executor.load(parameters)?)
    }

    pub(crate) fn train<'e, 'p>(&'e mut self, learned: &'p Learned) -> Result<Loaded<'e, 'p>, TrainError> {
        #[cfg(test)]
        if let Some(steps) = &mut self.fails_after {
            let problem = "out of memory, for a test".to_owned();
            let failed = TrainError::Device { device: "cpu".to_owned(), problem, hint: None };
            *steps = steps.checked_sub(1).ok_or(failed)?;
        }
        self.load(&learned.parameters)
    }

    pub(crate) fn update(
        &mut self,
        sum: GradientSum,
        learned: &mut Learned,
        update: &Update<'_>,
        pool: &rayon::ThreadPool,
    ) -> Result<(), TrainError> {
        let small = self.layout().len() < WORTH_THREADS;
        let mut total = self.executor.load(&learned.parameters)?.total(sum)?;
        match small {
            true => learned.update(&mut total, update)?,
            false => pool.install(|| learned.update(&mut total, update))?,
        }
        self.gradient = self.executor.recycle(total);
        Ok(())
    }
}
