//! The CPU executor, which runs samples in parallel and plans every buffer before the first sample arrives.

mod accumulate;
pub(crate) mod affine;
mod arranged;
mod backward;
mod form;
mod forward;
pub(crate) mod functions;
mod gemm;
pub(crate) mod kernel;
pub(crate) mod matrix;
mod memory;
pub(crate) mod operation;
mod plan;
pub(crate) mod pointwise;
mod program;
mod programs;
mod resample;
mod schedule;
mod scheduler;
mod segments;
mod share;
mod step;
mod sum;
pub(crate) mod summand;
#[cfg(test)]
mod tests;
mod together;
mod transfers;
mod values;
mod vectors;
mod worker;

use dapple_graph::{Graph, Parameters};
use rayon::prelude::*;

use crate::batch::{self, Batch};
use crate::clipping::{ClippingRule, FRACTION};
use crate::error::EngineError;
use crate::layout::Layout;
use crate::stats::StepStats;
use accumulate::Pending;
use arranged::ArrangedWeights;
pub(crate) use form::{Form, Transfer};
pub(crate) use gemm::{Gemm, PreparedWeights, reversed_pairs, window_pairs};
use kernel::Lanes;
use program::CpuProgram;
use programs::StepPrograms;
pub(crate) use resample::ResampleKernel;
use sum::Numbers;
pub use sum::{GradientSum, JointNumbers, Total};
use together::Together;
pub(crate) use transfers::TransferKernel;
pub use vectors::{ClippedVector, VectorSum};
use worker::{CpuWorker, ItemWork};

/// How an executor uses the machine. Nothing changes a result by a single bit, except whether activations are computed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuOptions {
    /// The number of threads; zero takes one for each core.
    pub threads: usize,
    /// The number of samples that a thread works on together; zero chooses by the memory they need.
    pub group: usize,
    /// How many bytes the activations and gradients of samples may take for all threads together. Zero takes 64 MiB for each thread, or
    /// 2 GiB if that is more. If fewer samples fit than there are threads, fewer run at a time, each on several threads.
    pub memory: usize,
    /// Computes activations twice rather than keeping them all, for samples that are too large to hold, which changes results by rounding.
    /// If `memory` is zero, samples that take more than 2 GiB are treated so in any case.
    pub checkpoints: bool,
}

/// Runs one graph on the processor, and the submodels of it.
#[derive(Debug)]
pub struct CpuExecutor {
    graph: Graph,
    layout: Layout,
    options: CpuOptions,
    lanes: Lanes,
    pool: rayon::ThreadPool,
    training: StepPrograms,
    weights: ArrangedWeights,
    inference: CpuProgram,
    inference_weights: ArrangedWeights,
    workers: Vec<CpuWorker>,
    inference_workers: Vec<CpuWorker>,
    together: Together,
    pending: Pending,
    /// Memory for a parameter's sum while it is put into the parameter's order.
    spare: Vec<i64>,
    /// Memory for what a sum carries over.
    carried: Vec<i64>,
}

/// How the kernels of this machine lay numbers out, in words. Sums from machines on which it differs lie in different orders.
pub fn arrangement() -> String {
    let Lanes { lanes, panel } = Lanes::detect();
    format!("{lanes} lanes, panels of {panel}")
}

/// How many bytes the activations and the gradient of one sample take while a thread computes them, as executors for this machine plan it.
/// The weights come on top, and what all samples share.
pub fn sample_bytes(graph: &Graph) -> u64 {
    CpuProgram::training(graph, &Layout::new(graph), 1, &CpuOptions::default(), None).sample_bytes()
}

/// An executor with a set of parameters arranged for it.
#[derive(Debug)]
pub struct Loaded<'e, 'p> {
    executor: &'e mut CpuExecutor,
    parameters: &'p Parameters,
}

impl CpuExecutor {
    /// Makes an executor for a graph.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub fn new(graph: &Graph, options: CpuOptions) -> Result<Self, EngineError> {
        Self::with_submodels(graph, Vec::new(), options)
    }

    /// Makes an executor for a graph and for submodels of it, as [`Graph::submodels`] makes them. Submodels run one after the other in the
    /// same memory, and share the arranged weights, so that they take no more memory than the whole model does.
    ///
    /// # Errors
    /// If the threads cannot be started, or a submodel has other parameters than the graph.
    pub fn with_submodels(
        graph: &Graph,
        submodels: Vec<Graph>,
        options: CpuOptions,
    ) -> Result<Self, EngineError> {
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|error| EngineError::Threads { threads, reason: error.to_string() })?;
        let options = CpuOptions { threads, ..options };
        let layout = Layout::new(graph);
        Ok(Self {
            graph: graph.clone(),
            training: StepPrograms::new(&layout, submodels)?,
            layout,
            options,
            lanes: Lanes::detect(),
            pool,
            weights: ArrangedWeights::new(graph, true),
            inference: CpuProgram::inference(graph, &options),
            inference_weights: ArrangedWeights::new(graph, false),
            workers: Vec::new(),
            inference_workers: Vec::new(),
            together: Together::default(),
            pending: Pending::default(),
            spare: Vec::new(),
            carried: Vec::new(),
        })
    }

    /// Where the trainable parameters lie in a gradient.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// An empty sum for [`Loaded::clipped_sum`] to add to.
    pub fn gradient_sum(&self) -> GradientSum {
        self.gradient_sum_in(Vec::new())
    }

    /// An empty sum in the memory of an earlier gradient.
    pub fn gradient_sum_in(&self, buffer: Vec<f32>) -> GradientSum {
        GradientSum::new(&self.layout, buffer)
    }

    /// Takes a total's memory back for the next sum. The numbers in the memory that is returned are those of the total.
    pub fn recycle(&mut self, total: Total) -> Vec<f32> {
        let (memory, carried) = total.into_memory();
        if carried.len() > self.carried.len() {
            self.carried = carried;
        }
        memory
    }

    /// The number of floating-point operations in the matrix products of one sample, forward and backward.
    pub fn operations(&self) -> usize {
        program::operations(&step::lower(&self.graph, true))
    }

    /// Arranges parameters for the kernels. They cannot change while they are loaded.
    ///
    /// # Errors
    /// If the parameters belong to another graph.
    pub fn load<'e, 'p>(&'e mut self, parameters: &'p Parameters) -> Result<Loaded<'e, 'p>, EngineError> {
        if !parameters.fit(&self.graph) {
            return Err(EngineError::Parameters);
        }
        self.weights.expire();
        self.inference_weights.expire();
        Ok(Loaded { executor: self, parameters })
    }
}

impl Loaded<'_, '_> {
    /// The outputs of all samples, one after the other in row-major order, with dropout off.
    ///
    /// # Errors
    /// If the inputs have a wrong length or a value that is not finite.
    pub fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, EngineError> {
        let executor = &mut *self.executor;
        let samples = batch::samples(&executor.graph, inputs, 1)?;
        let sharing = executor.inference.sharing(&executor.options);
        let CpuExecutor {
            graph,
            layout,
            lanes,
            pool,
            inference: program,
            inference_weights: weights,
            inference_workers: workers,
            together,
            ..
        } = executor;
        pool.install(|| weights.arrange(program, *lanes, self.parameters));
        let shared = program.shared(graph, layout, *lanes, self.parameters, weights);
        let len: usize = graph.output_shape().iter().product();
        let mut outputs = vec![0.0; samples * len];
        let mut start = 0;
        for outputs in outputs.chunks_mut((sharing.chunk() * len).max(1)) {
            let shares = sharing.shares(outputs.len() / len);
            let parallel = shares.parallel;
            workers.resize_with(workers.len().max(shares.workers), CpuWorker::default);
            let active = &mut workers[..shares.workers];
            let scratch = program.scratch(*lanes, 1, parallel);
            let work = |index: usize| {
                let (first, items) = (start + index * shares.each, shares.of(index));
                ItemWork { inputs, batch: None, views: 1, first, items, parallel, norms: false }
            };
            pool.install(|| {
                shared.run(active, scratch, work, |_| {}, together);
                let parts = active.par_iter().zip(outputs.par_chunks_mut((shares.each * len).max(1)));
                parts.for_each(|(worker, outputs)| program.collect(worker, outputs));
            });
            start += outputs.len() / len;
        }
        Ok(outputs)
    }

    /// Adds every sample's clipped gradient to a sum.
    ///
    /// # Errors
    /// If the batch does not fit the graph or the sum, or the sum began with another rule. Then the sum stays as it was.
    ///
    /// # Guarantee
    /// Each sample adds a vector whose norm is at most [`ClippingRule::sensitivity`], and no bit of which depends on another sample. With
    /// clipping, a sample whose gradient is not finite adds nothing, and the result is the same to the last bit for every number of
    /// threads, every order of samples and every way of splitting the batch into calls. A sample that goes through a submodel adds exactly
    /// zero to every parameter that the submodel does not read.
    pub fn clipped_sum(
        &mut self,
        batch: &Batch<'_>,
        rule: &ClippingRule,
        sum: &mut GradientSum,
    ) -> Result<StepStats, EngineError> {
        let executor = &mut *self.executor;
        let samples = batch.check(&executor.graph)?;
        sum.check(&executor.layout)?;
        let views = batch.views;
        let whole = (&executor.graph, &executor.layout);
        if executor.training.choose(whole, batch.submodel, views, &executor.options)? {
            executor.workers.clear();
        }
        let CpuExecutor {
            graph,
            options,
            lanes,
            pool,
            layout,
            training,
            weights,
            workers,
            together,
            pending,
            carried,
            ..
        } = executor;
        if let Some(whole) = training.whole().filter(|_| batch.submodel.is_some() && workers.is_empty()) {
            // Weights, too, find their place before there are buffers.
            pool.install(|| weights.arrange(whole, *lanes, self.parameters));
        }
        let (graph, program) = training.chosen(graph);
        let sharing = program.sharing(&training.options(options));
        let mut stats = StepStats {
            losses: Vec::with_capacity(samples),
            norms: Vec::with_capacity(samples),
            ..StepStats::default()
        };
        pending.clear();
        // Everything is done in one visit to the pool, because a short step would mostly wait for the pool to wake up.
        pool.install(|| {
            sum.reserve(rule, samples)?;
            weights.arrange(program, *lanes, self.parameters);
            let shared = program.shared(graph, layout, *lanes, self.parameters, weights);
            let mut start = 0;
            while start < samples {
                let chunk = (samples - start).min(sharing.chunk()).min(sum.room());
                let shares = sharing.shares(chunk);
                let parallel = shares.parallel;
                workers.resize_with(workers.len().max(shares.workers), CpuWorker::default);
                let active = &mut workers[..shares.workers];
                let scratch = program.scratch(*lanes, views, parallel);
                let work = |index: usize| {
                    let (first, items) = ((start + index * shares.each) * views, shares.of(index) * views);
                    let (inputs, batch, norms) = (batch.inputs, Some(batch), rule.unit().is_some());
                    ItemWork { inputs, batch, views, first, items, parallel, norms }
                };
                let clip = |worker: &mut CpuWorker| program.clip(worker, (rule, layout), weights, views);
                shared.run(active, scratch, work, clip, together);
                program.report(active, rule, views, &mut stats);
                if sum.is_full_for(chunk) {
                    // The pending samples were counted as held by the memory, so they must be there before it is carried over.
                    program.settle(layout, views, sum, pending);
                    sum.carry(carried, 0);
                }
                sum.hold(chunk);
                program.accumulate(active, layout, views, sum, pending);
                start += chunk;
            }
            program.settle(layout, views, sum, pending);
            Ok::<(), EngineError>(())
        })?;
        Ok(stats)
    }

    /// The numbers of a sum as those of other processes must be added to them, whose sums hold `others` samples together. The processes must
    /// have the same program, graph, clipping rule, parameters and [`arrangement`](crate::arrangement); a process without samples has added an empty batch.
    ///
    /// # Guarantee
    /// All processes prepare numbers of the same kind. Once each has the sum over all of them in their place, [`Loaded::total`] gives every
    /// process the total that one process would have come to with all samples: to the last bit where gradients are clipped, because whole
    /// numbers add up without rounding and nothing overflows.
    ///
    /// # Errors
    /// More samples together than a sum holds.
    pub fn joint<'s>(
        &mut self,
        sum: &'s mut GradientSum,
        rule: &ClippingRule,
        others: usize,
    ) -> Result<JointNumbers<'s>, EngineError> {
        let CpuExecutor { pool, lanes, layout, training, weights, carried, .. } = &mut *self.executor;
        sum.check(layout)?;
        // Others may have added to parameters by which this process multiplied nothing; a total needs the order of these, too.
        let whole = training.whole().ok_or(EngineError::Parameters)?;
        pool.install(|| {
            weights.arrange(whole, *lanes, self.parameters);
            sum.joint(rule, others, carried)
        })
    }

    /// Turns the sum into a total in the order of [`CpuExecutor::layout`], in the sum's own memory.
    ///
    /// # Errors
    /// If the sum belongs to another graph.
    pub fn total(&mut self, mut sum: GradientSum) -> Result<Total, EngineError> {
        let CpuExecutor { pool, layout, training, weights, spare, carried, .. } = &mut *self.executor;
        sum.check(layout)?;
        // A projection is rounded to a fraction of a unit.
        let digits = if layout.standardised() { FRACTION } else { 0 };
        let whole = matches!(sum.numbers(), Numbers::Whole(_));
        pool.install(|| {
            let wide = whole && (digits > 0 || !sum.carried().is_empty());
            if wide {
                sum.carry(carried, digits);
            }
            training.export(layout, weights, (&mut sum, wide), spare);
        });
        Ok(sum.into_total(digits))
    }

    /// Like [`Loaded::total`], but in single precision.
    ///
    /// # Errors
    /// Those of [`Loaded::total`].
    pub fn gradient(&mut self, sum: GradientSum) -> Result<Vec<f32>, EngineError> {
        let mut total = self.total(sum)?;
        self.executor.pool.install(|| _ = total.to_single());
        Ok(self.executor.recycle(total))
    }
}
