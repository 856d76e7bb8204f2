//! The CUDA executor, which runs batches with cuDNN, cuBLAS and kernels that are compiled when a card is opened.
//!
//! A batch is split into microbatches of one size, the last of which is filled up. Each microbatch runs forward and backward once. A sample's
//! weight gradient is written down if that is cheap; otherwise only an upper bound on its norm is computed, from inner products. Once the
//! clipping factors are known, every sample adds whole numbers to the sum, which are made from its written gradient or from the inputs and
//! output gradients of the layer. Memory is planned from the graph, and does not grow with the batch.
//!
//! Nothing of CUDA is needed to build: the driver, NVRTC, cuBLAS and cuDNN are looked for when [`CudaExecutor::new`] runs.
#![allow(unsafe_code, reason = "calls into the driver and its libraries")]

pub(crate) mod arrange;
pub(crate) mod backward;
pub(crate) mod clip;
mod convolution;
mod correlated;
pub(crate) mod cudnn;
pub(crate) mod device;
pub(crate) mod error;
pub(crate) mod geometry;
mod ghost;
mod group;
pub(crate) mod halved;
mod image_window;
pub(crate) mod kernels;
mod launch;
mod loaded;
pub(crate) mod lower;
pub(crate) mod memory;
pub(crate) mod moved;
mod narrow;
mod nccl;
pub(crate) mod norm;
pub(crate) mod operation;
mod options;
mod place;
pub(crate) mod product;
pub(crate) mod program;
mod programs;
pub(crate) mod run;
mod sharing;
pub(crate) mod slice;
mod sources;
mod staging;
mod step;
mod sum;
pub(crate) mod tabled;
pub(crate) mod tile;
mod update;
mod ways;
mod weights;

use dapple_graph::{Graph, Node, Op, Parameters, op};

use crate::clipping::HELD;
use crate::error::EngineError;
use crate::layout::Layout;
use convolution::{ConvolutionChoices, OpenCard};
use device::Device;
pub use device::{card_identities, device_count};
pub use error::CudaError;
use error::call;
pub use group::{CudaAddition, CudaGroup, CudaGroupError, CudaGroupState, CudaGroupSum};
use kernels::SHARED_LIMIT;
pub use loaded::CudaLoaded;
use memory::{CardModel, CardWork, WORKSPACE};
pub use nccl::CudaLink;
pub use options::{Convolutions, CudaOptions, Precision};
use program::CardProgram;
use programs::CardPrograms;
use run::Marks;
use staging::Staging;
pub use sum::CudaGradientSum;
use sum::{SumMemory, sum_bytes};
pub use update::{CudaState, CudaUpdate, LatticeNoise, StateValues};

/// The most samples in a microbatch, since more would not fit an axis of a grid of blocks.
const MOST_SAMPLES: usize = 1 << 15;
/// How many bytes a step works in unless told otherwise.
const POOL: usize = 4000 << 20;
/// If fewer than 64 samples fit, the step may use a sixteenth of the free memory, if fewer than 56 fit, an eighth, and if fewer than 32 fit, a
/// quarter, because with few samples the card would wait for the host.
const GROWTH: [(usize, usize); 3] = [(64, 16), (56, 8), (32, 4)];

/// Runs one graph on one card, and the submodels of it.
#[derive(Debug)]
pub struct CudaExecutor {
    graph: Graph,
    layout: Layout,
    options: CudaOptions,
    model: CardModel,
    inference: CardProgram,
    training: CardPrograms,
    work: Option<CardWork>,
    inference_work: Option<CardWork>,
    choices: ConvolutionChoices,
    marks: Marks,
    shares: Vec<(&'static str, f64)>,
    peak: usize,
    /// How many bytes the optimiser's state takes.
    held: usize,
    /// Whether there are parameters on the card.
    filled: bool,
    /// The memory of the last sum, for the next one.
    spare: Option<SumMemory>,
    /// Page-locked memory for the inputs of two microbatches, for targets, and for parameters and gradients.
    inputs: [Staging; 2],
    targets: Staging,
    whole: Staging,
    // The device comes last, so that it outlives the memory on it.
    device: Device,
}

impl Drop for CudaExecutor {
    /// Waits, because memory and handles are freed after this, on this thread, and the card must no longer be using them.
    fn drop(&mut self) {
        let _ = self.device.bind();
        self.device.settle();
    }
}

impl CudaExecutor {
    /// Makes an executor for a graph.
    ///
    /// # Errors
    /// If there is no such card, a library is missing or too old, the card has too little memory for the model, or a layer is too large for
    /// the kernels.
    pub fn new(graph: &Graph, options: CudaOptions) -> Result<Self, CudaError> {
        Self::with_submodels(graph, Vec::new(), options)
    }

    /// Makes an executor for a graph and for submodels of it, as [`Graph::submodels`] makes them. They share the parameters and the sum, and
    /// run one after the other in the same memory.
    ///
    /// # Errors
    /// Those of [`CudaExecutor::new`], and submodels that are not of this graph.
    pub fn with_submodels(
        graph: &Graph,
        submodels: Vec<Graph>,
        options: CudaOptions,
    ) -> Result<Self, CudaError> {
        let too_wide = |op: &Op, channels: usize| match op {
            Op::GroupNorm(op::GroupNorm { groups, .. }) => 16 * channels / groups > SHARED_LIMIT,
            _ => false,
        };
        if let Some(node) = graph.nodes().iter().find(|node| too_wide(&node.op, node.shape[0])) {
            let op = "a norm of more than 6336 channels in a group";
            return Err(CudaError::Unsupported { node: node.name.clone(), op });
        }
        let of_subset = |node: &&Node| match node.op {
            Op::Attention(_) => node.inputs.len() == 2,
            Op::PooledAttention(_) => node.inputs.len() == 4,
            _ => false,
        };
        if let Some(node) = graph.nodes().iter().find(of_subset) {
            let op = "attention of a subset of the tokens";
            return Err(CudaError::Unsupported { node: node.name.clone(), op });
        }
        within_32_bits(graph, 1)?;
        let layout = Layout::new(graph);
        if submodels.iter().any(|submodel| Layout::new(submodel) != layout) {
            return Err(EngineError::Parameters.into());
        }
        let mut device = Device::open(options.device, options.precision)?;
        let inference = CardProgram::inference(graph, options.precision);
        for graph in std::iter::once(graph).chain(&submodels) {
            device.load_for(&CardProgram::inference(graph, options.precision).steps)?;
        }
        let model = CardModel::new(&device, &inference.steps)?;
        Ok(Self {
            graph: graph.clone(),
            layout,
            options,
            peak: model.bytes,
            held: 0,
            filled: false,
            spare: None,
            model,
            inference,
            training: CardPrograms::new(submodels),
            work: None,
            inference_work: None,
            choices: ConvolutionChoices::new(options.precision != Precision::F32, options.convolutions),
            marks: None,
            shares: Vec::new(),
            inputs: Default::default(),
            targets: Staging::default(),
            whole: Staging::default(),
            device,
        })
    }

    /// Where the trainable parameters lie in a gradient.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The name of the card.
    pub fn device_name(&self) -> String {
        self.device.name()
    }

    /// The most bytes on the card that were in use at once, for the model, the steps' memory, the optimiser's state and sums.
    pub fn peak_bytes(&self) -> usize {
        self.peak
    }

    /// Waits until everything that was started has run.
    ///
    /// # Errors
    /// If any of it failed.
    pub fn synchronize(&mut self) -> Result<(), CudaError> {
        call("waiting for the GPU", self.device.stream.synchronize())
    }

    /// How many samples ran together in the last step.
    pub fn microbatch(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.samples)
    }

    /// The milliseconds that each kind of operation took since the executor was made, if it was asked to measure.
    pub fn shares(&self) -> &[(&'static str, f64)] {
        &self.shares
    }

    /// How each convolution runs: its name, its direction, and the way that was chosen for it.
    pub fn choices(&self) -> Vec<String> {
        let direction = |code: u8| ["forward", "data gradient", "weight gradient"][usize::from(code.min(2))];
        let list = self.choices.list();
        list.map(|(node, code, choice, time)| {
            format!("{} {}: {choice:?}, {time:.3} ms", self.graph.nodes()[node].name, direction(code))
        })
        .collect()
    }

    /// Puts parameters on the card and arranges them for the kernels.
    ///
    /// # Errors
    /// If the parameters belong to another graph, or the card fails.
    pub fn load<'e>(&'e mut self, parameters: &Parameters) -> Result<CudaLoaded<'e>, CudaError> {
        if !parameters.fit(&self.graph) {
            return Err(EngineError::Parameters.into());
        }
        self.device.bind()?;
        // No earlier copy may still be reading the memory in which the parameters are staged.
        call("waiting for the GPU", self.device.stream.synchronize())?;
        // SAFETY: everything was just waited for, and an executor settles everything before its staging memory is freed.
        unsafe { self.whole.send(&self.device.stream, parameters.values(), self.model.parameters())? };
        self.filled = true;
        self.arrange()?;
        Ok(CudaLoaded { executor: self })
    }

    /// Arranges the parameters on the card for the kernels.
    fn arrange(&self) -> Result<(), CudaError> {
        let steps = &self.inference.steps;
        for operation in steps.operations.iter().flatten() {
            operation.arrange(&self.device, &self.model, &steps.parameters)?;
        }
        Ok(())
    }

    /// Keeps account of the most memory in use, with `more` bytes beside what the executor holds.
    fn count(&mut self, more: usize) {
        let work =
            [&self.work, &self.inference_work].into_iter().flatten().map(|work| work.bytes).sum::<usize>();
        self.peak = self.peak.max(self.model.bytes + self.held + work + more);
    }

    /// How many samples run together: as many as were asked for or as fit into memory, up to a limit, and so that `samples` divide into
    /// equal parts rather than leaving a small one at the end.
    fn group(&self, program: &CardProgram, samples: usize, limit: usize) -> usize {
        let held = self.work.as_ref().map_or(0, |work| work.bytes);
        let free = self.device.context.mem_get_info().map_or(POOL, |(free, _)| free + held);
        let fixed = CardWork::bytes(program, 0, WORKSPACE);
        let each = (CardWork::bytes(program, 64, WORKSPACE) - fixed) / 64;
        let most = match self.options.microbatch {
            0 => {
                let grown = GROWTH.map(|(enough, part)| (fixed + enough * each).min(free / part));
                let pool = grown.into_iter().fold(POOL, usize::max).min(free / 10 * 8);
                pool.saturating_sub(fixed) / each.max(1)
            }
            microbatch => microbatch,
        };
        // Kernels count a tensor's values in 32 bits.
        let largest = program.steps.lens.iter().max().copied().unwrap_or(1) * program.views;
        let most = most.min((i32::MAX as usize) / largest.max(1)).clamp(1, limit);
        samples.div_ceil(samples.div_ceil(most).max(1)).max(1)
    }

    /// Adds the times between events to the account of each kind of operation.
    fn settle(&mut self) -> Result<(), CudaError> {
        let Some(marks) = &mut self.marks else { return Ok(()) };
        call("waiting for the GPU", self.device.stream.synchronize())?;
        for pair in marks.windows(2) {
            let [(_, start), (name, end)] = pair else { continue };
            let time = f64::from(call("timing", start.elapsed_ms(end))?);
            match self.shares.iter_mut().find(|(known, _)| known == name) {
                Some((_, total)) => *total += time,
                None => self.shares.push((name, time)),
            }
        }
        self.marks = None;
        Ok(())
    }
}

impl CudaExecutor {
    /// Plans a step of the whole model or of a submodel with this many views, and allocates and measures if that is new. How many samples run
    /// together follows from the options, from the whole model and from the memory at the first step, and not from any batch. Whole numbers
    /// of 32 bits can hold the sum of that many.
    fn plan(&mut self, views: usize, submodel: Option<usize>) -> Result<(), CudaError> {
        if !self.training.are_for(views) {
            within_32_bits(&self.graph, views)?;
            let whole = CardProgram::training(&self.graph, &self.layout, views, self.options.precision);
            self.work = None;
            let samples = if self.options.batch == 0 { MOST_SAMPLES } else { self.options.batch };
            let together = self.group(&whole, samples, HELD);
            self.choices.forget();
            self.training.begin(whole, together);
        }
        let whole = (&self.graph, &self.layout, &self.inference.steps);
        let changed = self.training.choose(whole, submodel, self.options.precision)?;
        if changed || self.work.is_none() {
            let (program, together) = self.training.chosen();
            let work = CardWork::instead_of(self.work.take(), &self.device, program, together, WORKSPACE)?;
            let card = OpenCard { device: &self.device, model: &self.model, work: &work };
            self.choices.measure(card, program)?;
            self.work = Some(work);
        }
        self.count(sum_bytes(self.layout.len()));
        Ok(())
    }
}

/// Refuses a graph with a layer in which a single sample has more values than the kernels can count in 32 bits.
fn within_32_bits(graph: &Graph, views: usize) -> Result<(), CudaError> {
    let values = |shape: &[usize]| shape.iter().fold(views, |product, &side| product.saturating_mul(side));
    match graph.nodes().iter().find(|node| values(&node.shape) > i32::MAX as usize) {
        Some(node) => {
            let op = "a layer of 2^31 values a sample or more";
            Err(CudaError::Unsupported { node: node.name.clone(), op })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::zoo;

    #[test]
    fn a_sample_that_32_bits_cannot_count_is_refused_by_name() {
        let mut builder = dapple_graph::GraphBuilder::new(&[64, 8192, 4096]);
        let x = builder.add("huge", op::Activation::Relu, &[builder.input()]).unwrap();
        let graph = builder.finish(x, dapple_graph::Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap();
        let error = CudaExecutor::new(&graph, CudaOptions::default()).unwrap_err();
        assert!(error.to_string().contains("(a layer of 2^31 values a sample or more)"), "{error}");
        // All views of a sample count together.
        let small = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let largest = small.nodes().iter().map(|node| node.shape.iter().product::<usize>()).max().unwrap();
        let most = i32::MAX as usize / largest;
        assert!(within_32_bits(&small, most).is_ok() && within_32_bits(&small, most + 1).is_err());
    }

    /// On a machine without a card, its driver or a library, one line says what is missing, and a hint says how to get it. No card has the
    /// number 99, so something is always missing.
    #[test]
    fn what_a_machine_lacks_is_said_with_a_way_out() {
        let graph = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let error =
            CudaExecutor::new(&graph, CudaOptions { device: 99, ..CudaOptions::default() }).unwrap_err();
        assert!(
            matches!(error, CudaError::Library { .. } | CudaError::NoDevice { ordinal: 99, .. }),
            "{error}"
        );
        assert!(error.hint().is_some(), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }

    #[test]
    fn a_norm_over_too_many_channels_is_refused_by_name() {
        let mut builder = dapple_graph::GraphBuilder::new(&[7000, 1, 1]);
        let x = builder.group_norm("wide", builder.input(), 1).unwrap();
        let x = builder.add("flat", op::Reshape(vec![7000]), &[x]).unwrap();
        let graph = builder.finish(x, dapple_graph::Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap();
        let error = CudaExecutor::new(&graph, CudaOptions::default()).unwrap_err();
        assert!(
            error.to_string().starts_with("wide (a norm of more than 6336 channels in a group)"),
            "{error}"
        );
    }
}
