//! The CUDA executor: batched, with cuDNN, cuBLAS and kernels compiled when a card is opened.
//!
//! A batch is split into microbatches of one size, the last of them filled up. Each runs forward and backward once. A sample's weight
//! gradient is either written down, where that is cheap, or only an upper bound on its norm is made, from inner products; then the clipping
//! factors are known, and every sample adds whole numbers to the sum, made of what was written or of the factors of what was not. Memory
//! is one pool, planned from the graph, flat in the batch.
//!
//! Nothing here is needed to build: the driver, NVRTC, cuBLAS and cuDNN are looked for when [`CudaExecutor::new`] runs.
#![allow(unsafe_code, reason = "calls into the driver and its libraries")]

pub(crate) mod arrange;
pub(crate) mod backward;
pub(crate) mod clip;
mod convolution;
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
mod nccl;
pub(crate) mod norm;
pub(crate) mod operation;
mod options;
mod place;
pub(crate) mod product;
pub(crate) mod program;
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

use dapple_graph::{Graph, Op, Parameters, op};

use crate::clipping::HELD;
use crate::error::EngineError;
use crate::layout::Layout;
use convolution::{ConvolutionChoices, OpenCard};
use device::Device;
pub use device::device_count;
pub use error::CudaError;
use error::call;
pub use group::{CudaAddition, CudaGroup, CudaGroupError, CudaGroupState, CudaGroupSum};
use kernels::SHARED_LIMIT;
pub use loaded::CudaLoaded;
use memory::{CardModel, CardWork, WORKSPACE};
pub use options::{Convolutions, CudaOptions, Precision};
use program::CardProgram;
use run::Marks;
use staging::Staging;
pub use sum::CudaGradientSum;
use sum::sum_bytes;
pub use update::{CudaState, CudaUpdate, LatticeNoise, StateValues};

/// More samples than this do not fit an axis of a grid of blocks.
const MOST_SAMPLES: usize = 1 << 15;
/// Bytes a step works in unless told otherwise. Where fewer than so many samples fit it, it may grow to a part of what is free: few samples
/// leave the card waiting for the host.
const POOL: usize = 4000 << 20;
const GROWTH: [(usize, usize); 2] = [(64, 16), (32, 4)];

/// Runs one graph on one card.
#[derive(Debug)]
pub struct CudaExecutor {
    graph: Graph,
    layout: Layout,
    options: CudaOptions,
    model: CardModel,
    inference: CardProgram,
    training: Option<CardProgram>,
    work: Option<CardWork>,
    inference_work: Option<CardWork>,
    choices: ConvolutionChoices,
    marks: Marks,
    shares: Vec<(&'static str, f64)>,
    peak: usize,
    /// Bytes of an optimiser's state.
    held: usize,
    /// Whether there are parameters on the card.
    filled: bool,
    /// Page-locked memory for the inputs of this microbatch and of the next, for targets, and for parameters and gradients.
    inputs: [Staging; 2],
    targets: Staging,
    whole: Staging,
    // Last, so that it outlives the memory it holds.
    device: Device,
}

impl Drop for CudaExecutor {
    /// Memory and handles go after this, on this thread, and nothing may be at work with them.
    fn drop(&mut self) {
        let _ = self.device.bind();
        self.device.settle();
    }
}

impl CudaExecutor {
    /// An executor for a graph.
    ///
    /// # Errors
    /// If there is no such card, a library is missing or too old, or the card has too little memory for the model.
    pub fn new(graph: &Graph, options: CudaOptions) -> Result<Self, CudaError> {
        let too_wide = |op: &Op, channels: usize| match op {
            Op::GroupNorm(op::GroupNorm { groups, .. }) => 16 * channels / groups > SHARED_LIMIT,
            _ => false,
        };
        if let Some(node) = graph.nodes().iter().find(|node| too_wide(&node.op, node.shape[0])) {
            let op = "a norm of more than 6336 channels in a group";
            return Err(CudaError::Unsupported { node: node.name.clone(), op });
        }
        within_32_bits(graph, 1)?;
        let device = Device::open(options.device, options.precision)?;
        let inference = CardProgram::inference(graph, options.precision);
        let model = CardModel::new(&device, &inference.steps)?;
        Ok(Self {
            graph: graph.clone(),
            layout: Layout::new(graph),
            options,
            peak: model.bytes,
            held: 0,
            filled: false,
            model,
            inference,
            training: None,
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

    /// Name of the card.
    pub fn device_name(&self) -> String {
        self.device.name()
    }

    /// Most bytes on the card that were in use at once: model, pool and sums.
    pub fn peak_bytes(&self) -> usize {
        self.peak
    }

    /// Waits until everything that was started has run.
    ///
    /// # Errors
    /// If it failed.
    pub fn synchronize(&mut self) -> Result<(), CudaError> {
        call("waiting for the GPU", self.device.stream.synchronize())
    }

    /// Samples that ran together in the last step.
    pub fn microbatch(&self) -> usize {
        self.work.as_ref().map_or(0, |work| work.samples)
    }

    /// Milliseconds of each kind of operation since the executor was made, where it was asked to measure.
    pub fn shares(&self) -> &[(&'static str, f64)] {
        &self.shares
    }

    /// How each convolution runs: its name, direction, and what was measured to be the fastest way.
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
    /// If they belong to another graph, or the card fails.
    pub fn load<'e>(&'e mut self, parameters: &Parameters) -> Result<CudaLoaded<'e>, CudaError> {
        if !parameters.fit(&self.graph) {
            return Err(EngineError::Parameters.into());
        }
        self.device.bind()?;
        // Nothing may still be read from where the parameters are staged.
        call("waiting for the GPU", self.device.stream.synchronize())?;
        // SAFETY: everything was just waited for, and an executor settles everything before its staging memory goes.
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

    /// Keeps account of the most memory in use.
    fn count(&mut self, more: usize) {
        let work =
            [&self.work, &self.inference_work].into_iter().flatten().map(|work| work.bytes).sum::<usize>();
        self.peak = self.peak.max(self.model.bytes + self.held + work + more);
    }

    /// Samples that run together, up to a limit: what was asked for or what fits the pool, in equal parts of so many samples rather than
    /// with a small one at the end.
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

    /// Adds up the time between events.
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
    /// Plans a step of this many views, and allocates and measures where that is new. How many samples run together follows from the
    /// options and the memory at the first step, and not from any batch; whole numbers of 32 bits hold them.
    fn plan(&mut self, views: usize) -> Result<(), CudaError> {
        if self.training.as_ref().is_none_or(|program| program.views != views) {
            within_32_bits(&self.graph, views)?;
            self.training =
                Some(CardProgram::training(&self.graph, &self.layout, views, self.options.precision));
            self.work = None;
        }
        let program = self.training.as_ref().expect("planned above");
        if self.work.is_none() {
            let samples = if self.options.batch == 0 { MOST_SAMPLES } else { self.options.batch };
            let work = CardWork::new(&self.device, program, self.group(program, samples, HELD), WORKSPACE)?;
            let card = OpenCard { device: &self.device, model: &self.model, work: &work };
            self.choices.measure(card, program)?;
            self.work = Some(work);
        }
        self.count(sum_bytes(self.layout.len()));
        Ok(())
    }
}

/// Kernels count a tensor's values in 32 bits: a single sample must not have more, in any layer.
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
        // All views of a sample count.
        let small = zoo::small_cnn(&[1, 28, 28], 10).unwrap();
        let largest = small.nodes().iter().map(|node| node.shape.iter().product::<usize>()).max().unwrap();
        let most = i32::MAX as usize / largest;
        assert!(within_32_bits(&small, most).is_ok() && within_32_bits(&small, most + 1).is_err());
    }

    /// On a machine without a card, its driver or a library: what is missing, in one line, and the way to get it. No card has number 99.
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
