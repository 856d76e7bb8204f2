//! Decides how each convolution runs: by cuDNN, by a matrix product or by a kernel of our own, whichever was measured to be fastest.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::CUevent_flags;

use super::Convolutions;
use super::cudnn::{Algorithm, ConvolutionDirection, Descriptors, Tensors};
use super::device::Device;
use super::error::{CudaError, call};
use super::memory::{CardModel, CardWork};
use super::program::CardProgram;
use super::slice::DeviceSlice;
use super::ways::{run_own, run_product, run_subsampled, subsamples, tiled};
use super::weights::{filter_gradients, sample_gradients, unfolds};
use crate::op::conv::CudaConvKernel;

/// For how many batch sizes descriptors are kept.
const KEPT_SIZES: usize = 8;
/// How many runs are timed together.
const RUNS: usize = 3;
/// With at least this many positions, one sample alone may keep the card busy.
const LARGE: usize = 1000;

/// A card with a model and memory to work in.
#[derive(Clone, Copy)]
pub(crate) struct OpenCard<'c> {
    pub(crate) device: &'c Device,
    pub(crate) model: &'c CardModel,
    pub(crate) work: &'c CardWork,
}

/// The way one direction of a convolution runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvolutionChoice {
    Own,
    Cudnn(Algorithm),
    /// A matrix product, for a window of one position that reads every position.
    Product,
    /// A matrix product over the positions that are read, for a window of one position that skips others.
    Subsampled,
    /// A matrix product with the unfolded image.
    Unfolded,
}

/// All choices of a program, and descriptors for the batch sizes seen so far.
#[derive(Debug, Default)]
pub(crate) struct ConvolutionChoices {
    /// The choice for each node and direction, with the milliseconds that a microbatch took.
    chosen: BTreeMap<(usize, u8), (ConvolutionChoice, f32)>,
    /// The descriptors for each node and number of items.
    descriptors: BTreeMap<(usize, usize), Descriptors>,
    /// Whether factors may be rounded.
    rounds: bool,
    who: Convolutions,
}

impl ConvolutionChoices {
    pub(crate) fn new(rounds: bool, who: Convolutions) -> Self {
        Self { rounds, who, ..Self::default() }
    }

    /// Whether our kernels may run a direction.
    fn allows_own(&self, conv: &CudaConvKernel, direction: ConvolutionDirection) -> bool {
        !tiled(conv, direction).is_empty() && self.who != Convolutions::Cudnn
    }

    /// Whether matrix products may take the place of convolutions.
    fn multiplies(&self) -> bool {
        matches!(self.who, Convolutions::Fastest | Convolutions::Products)
    }

    /// Whether a matrix product may take the place of this convolution.
    fn allows_product(&self, conv: &CudaConvKernel) -> bool {
        conv.geometry.is_pointwise() && self.multiplies()
    }

    /// All that was chosen, for reports: node, direction, choice and milliseconds.
    pub(crate) fn list(&self) -> impl Iterator<Item = (usize, u8, ConvolutionChoice, f32)> + '_ {
        self.chosen.iter().map(|(&(node, direction), &(choice, time))| (node, direction, choice, time))
    }

    fn descriptors(
        &mut self,
        node: usize,
        conv: &CudaConvKernel,
        items: usize,
    ) -> Result<&Descriptors, CudaError> {
        if self.descriptors.keys().filter(|(other, _)| *other == node).count() > KEPT_SIZES {
            self.descriptors.retain(|(other, _), _| *other != node);
        }
        let made = match self.descriptors.remove(&(node, items)) {
            Some(made) => made,
            None => Descriptors::new(&conv.geometry, items, self.rounds)?,
        };
        Ok(self.descriptors.entry((node, items)).or_insert(made))
    }

    /// Forgets what was measured.
    pub(crate) fn forget(&mut self) {
        self.chosen.clear();
    }

    /// Measures the ways in which every convolution of a program can run that was not measured yet, in memory that holds nothing yet. The executors of a process
    /// measure one after the other, because each would otherwise time what the others put on the card, and cuDNN has failed when many
    /// searched at once.
    pub(crate) fn measure(&mut self, card: OpenCard<'_>, program: &CardProgram) -> Result<(), CudaError> {
        static MEASURING: Mutex<()> = Mutex::new(());
        let _alone = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
        let OpenCard { model, work, .. } = card;
        let items = work.samples * program.views;
        let steps = &program.steps;
        // A node on which no output depends does not run, and has no memory.
        for node in (0..steps.operations.len()).filter(|&node| program.runs[node]) {
            let Some(operation) = &steps.operations[node] else { continue };
            let Some(conv) = operation.convolution() else { continue };
            let input = steps.inputs[node][0];
            let buffer = |slot| work.buffer(slot).expect("the plan gives every node that runs its buffers");
            let value = |node: usize| match &steps.operations[node] {
                Some(operation) if operation.is_input() => work.inputs(0),
                _ => buffer(program.buffers[node].value),
            };
            let weight = weight(steps.parameters[conv.weight.index()], conv, model);
            let (forward, back) = match operation.transposes() {
                false => (ConvolutionDirection::Forward, ConvolutionDirection::Data),
                true => (ConvolutionDirection::Data, ConvolutionDirection::Forward),
            };
            // What the convolution itself reads and makes. A step that transposes it reads what the convolution makes.
            let sides = |read, made| if operation.transposes() { (made, read) } else { (read, made) };
            let tensors = |(input, output)| Tensors { input, weight, output };
            self.choose(card, node, conv, forward, tensors(sides(value(input), value(node))), items)?;
            if !steps.needs_gradient[node] {
                continue;
            }
            let gradient = buffer(program.buffers[node].gradient);
            if steps.needs_gradient[input] {
                let target = buffer(program.buffers[input].gradient);
                self.choose(card, node, conv, back, tensors(sides(target, gradient)), items)?;
            }
            let written = !program.deferred[node] && program.written >= conv.geometry.weight_len();
            if written && self.who != Convolutions::Own {
                let target = (work.written(), program.written);
                let sizes = (work.samples, program.views);
                self.choose_gradients(card, (node, conv), sides(value(input), gradient), target, sizes)?;
            }
        }
        Ok(())
    }

    /// Measures the ways in which every sample's weight gradient can be computed.
    fn choose_gradients(
        &mut self,
        card: OpenCard<'_>,
        (node, conv): (usize, &CudaConvKernel),
        sides: (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        target: (DeviceSlice<'_, f32>, usize),
        sizes: (usize, usize),
    ) -> Result<(), CudaError> {
        if self.chosen.contains_key(&(node, ConvolutionDirection::Filter as u8)) {
            return Ok(());
        }
        let OpenCard { device, work, .. } = card;
        let (rounds, who, pointwise) = (self.rounds, self.who, conv.geometry.is_pointwise());
        let mut best = (ConvolutionChoice::Own, f32::INFINITY);
        for choice in [ConvolutionChoice::Own, ConvolutionChoice::Product, ConvolutionChoice::Unfolded] {
            let possible = match choice {
                ConvolutionChoice::Product => pointwise && self.multiplies(),
                ConvolutionChoice::Unfolded => {
                    (who == Convolutions::Fastest || who == Convolutions::Products && !pointwise)
                        && unfolds(card, conv)
                }
                _ => true,
            };
            if possible {
                let taken = time(device, || sample_gradients(choice, card, conv, sides, target, sizes))?;
                let wanted = who == Convolutions::Products && choice != ConvolutionChoice::Own;
                best = if wanted || taken < best.1 { (choice, taken) } else { best };
            }
        }
        // One call for each sample pays only if a sample keeps a large part of the card busy.
        let large = who == Convolutions::Fastest && conv.geometry.positions() >= LARGE;
        if large || who == Convolutions::Cudnn {
            let descriptors = self.descriptors(node, conv, 1)?;
            let tensors = Tensors { input: sides.0, weight: target.0, output: sides.1 };
            let workspace = (work.workspace(), work.workspace_bytes());
            if let Some((algorithm, _, bytes)) =
                device.cudnn.measure(ConvolutionDirection::Filter, descriptors, tensors, workspace, rounds)
            {
                let way = (algorithm, descriptors, bytes);
                let taken = time(device, || filter_gradients(card, conv, way, sides, target, sizes))?;
                if taken < best.1 || who == Convolutions::Cudnn {
                    best = (ConvolutionChoice::Cudnn(algorithm), taken);
                }
            }
        }
        self.chosen.insert((node, ConvolutionDirection::Filter as u8), best);
        Ok(())
    }

    fn choose(
        &mut self,
        card: OpenCard<'_>,
        node: usize,
        conv: &CudaConvKernel,
        direction: ConvolutionDirection,
        tensors: Tensors<'_>,
        items: usize,
    ) -> Result<(), CudaError> {
        if self.chosen.contains_key(&(node, direction as u8)) {
            return Ok(());
        }
        let OpenCard { device, work, .. } = card;
        let (rounds, who) = (self.rounds, self.who);
        let workspace = (work.workspace(), work.workspace_bytes());
        let descriptors = self.descriptors(node, conv, items)?;
        // With our own kernels nothing is left to measured times, so that every process chooses alike.
        let measured = match who {
            Convolutions::Own => None,
            _ => device.cudnn.measure(direction, descriptors, tensors, workspace, rounds),
        };
        let theirs = measured
            .map_or((Algorithm::plain(direction), f32::INFINITY), |(algorithm, time, _)| (algorithm, time));
        let (mut choice, mut best) = (ConvolutionChoice::Cudnn(theirs.0), theirs.1);
        if self.allows_own(conv, direction) {
            let ours = time(device, || run_own(card, conv, direction, tensors, items, false))?;
            if ours < best || who == Convolutions::Own {
                (choice, best) = (ConvolutionChoice::Own, ours);
            }
        }
        if self.allows_product(conv) {
            let product = time(device, || run_product(card, conv, direction, tensors, items, false))?;
            if product < best || who == Convolutions::Products {
                (choice, best) = (ConvolutionChoice::Product, product);
            }
        }
        if self.multiplies() && subsamples(card, conv, items) {
            let product = time(device, || run_subsampled(card, conv, direction, tensors, items, false))?;
            if product < best || who == Convolutions::Products {
                (choice, best) = (ConvolutionChoice::Subsampled, product);
            }
        }
        self.chosen.insert((node, direction as u8), (choice, best));
        Ok(())
    }

    /// Writes down every sample's weight gradient.
    pub(crate) fn weight_gradient(
        &mut self,
        card: OpenCard<'_>,
        (node, conv): (usize, &CudaConvKernel),
        sides: (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
        target: (DeviceSlice<'_, f32>, usize),
        sizes: (usize, usize),
    ) -> Result<(), CudaError> {
        let choice = self
            .chosen
            .get(&(node, ConvolutionDirection::Filter as u8))
            .map_or(ConvolutionChoice::Own, |(choice, _)| *choice);
        if let ConvolutionChoice::Cudnn(algorithm) = choice {
            let descriptors = self.descriptors(node, conv, 1)?;
            let bytes = card.device.cudnn.workspace(algorithm, descriptors);
            if let Some(bytes) = bytes.filter(|&bytes| bytes <= card.work.workspace_bytes()) {
                let way = (algorithm, descriptors, bytes);
                return filter_gradients(card, conv, way, sides, target, sizes);
            }
        }
        sample_gradients(choice, card, conv, sides, target, sizes)
    }

    /// Runs one direction of a convolution.
    pub(crate) fn run(
        &mut self,
        card: OpenCard<'_>,
        node: usize,
        conv: &CudaConvKernel,
        direction: ConvolutionDirection,
        tensors: Tensors<'_>,
        items: usize,
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let OpenCard { device, work, .. } = card;
        let ours = || run_own(card, conv, direction, tensors, items, accumulate);
        let allows_own = self.allows_own(conv, direction);
        let algorithm = match self.chosen.get(&(node, direction as u8)).map(|(choice, _)| choice) {
            Some(ConvolutionChoice::Own | ConvolutionChoice::Unfolded) => return ours(),
            Some(ConvolutionChoice::Product) => {
                return run_product(card, conv, direction, tensors, items, accumulate);
            }
            Some(ConvolutionChoice::Subsampled) if subsamples(card, conv, items) => {
                return run_subsampled(card, conv, direction, tensors, items, accumulate);
            }
            Some(ConvolutionChoice::Subsampled) if allows_own => return ours(),
            Some(ConvolutionChoice::Subsampled) => Algorithm::plain(direction),
            // Nothing was measured, as in a forward pass before any training.
            None if allows_own => return ours(),
            None => Algorithm::plain(direction),
            Some(ConvolutionChoice::Cudnn(algorithm)) => *algorithm,
        };
        let descriptors = self.descriptors(node, conv, items)?;
        // It was measured with a training step's microbatch. For another size, or in inference, the workspace may be too small.
        let fits = |algorithm| {
            device.cudnn.workspace(algorithm, descriptors).filter(|&bytes| bytes <= work.workspace_bytes())
        };
        let (algorithm, bytes) = match fits(algorithm) {
            Some(bytes) => (algorithm, bytes),
            None if allows_own => return ours(),
            None => {
                let plain = Algorithm::plain(direction);
                (plain, fits(plain).unwrap_or(0))
            }
        };
        device.cudnn.run(algorithm, descriptors, tensors, (work.workspace(), bytes), accumulate)
    }
}

/// How many milliseconds a run takes, after another to warm up.
fn time(device: &Device, run: impl Fn() -> Result<(), CudaError>) -> Result<f32, CudaError> {
    run()?;
    let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
    let start = call("timing", device.stream.record_event(flags))?;
    (0..RUNS).try_for_each(|_| run())?;
    let end = call("timing", device.stream.record_event(flags))?;
    Ok(call("timing", start.elapsed_ms(&end))? / RUNS as f32)
}

/// The weights that a convolution multiplies by.
pub(crate) fn weight<'m>(start: usize, conv: &CudaConvKernel, model: &'m CardModel) -> DeviceSlice<'m, f32> {
    match conv.used {
        Some((used, _)) => model.used().after(used),
        None => model.parameters().after(start),
    }
}
