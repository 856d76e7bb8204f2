//! The order of work and the buffers it uses, settled before the first sample arrives.

use super::kernel::Lanes;
use super::memory::{Buffer, Planner, Value};
use super::pool::MaxPool;
use super::segments::Segments;
use super::share::Bytes;
use super::step::{Kernel, Step, Steps};

/// One piece of work with the buffers it reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) step: usize,
    pub(crate) kind: ActionKind,
    /// Buffers of the inputs' values.
    pub(crate) inputs: Vec<usize>,
    /// Buffer of the step's own value.
    pub(crate) output: usize,
    /// Buffer of what the forward pass keeps for the backward pass.
    pub(crate) saved: Option<usize>,
    /// Buffer of the gradient of the step's value.
    pub(crate) gradient: Option<usize>,
    /// Buffers of the inputs' gradients, and whether they already hold a part.
    pub(crate) input_gradients: Vec<Option<(usize, bool)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionKind {
    Forward,
    Loss,
    /// Of a vast layer, all but the data gradient.
    Backward,
    /// The data gradient of a vast layer.
    VastData,
}

/// Actions that run one after the other in the same way.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) actions: std::ops::Range<usize>,
    pub(crate) turn: Turn,
}

/// Whose turn it is in a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// All actions for one item, then for the next.
    Item,
    /// Each action for all items of a worker.
    Group,
    /// Each action for all items of all workers, by all threads.
    Together,
}

/// The whole plan of one pass.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) actions: Vec<Action>,
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) buffers: Vec<Buffer>,
}

/// What to plan for.
pub(crate) struct Purpose<'a> {
    pub(crate) training: bool,
    /// Whether activations are computed a second time rather than kept.
    pub(crate) checkpoints: bool,
    /// Whether a worker holds one item at a time: then every item is the last, and values of all stretches may share memory.
    pub(crate) single: bool,
    /// Steps whose input and gradient are read after the backward pass, for the deferred weight gradient.
    pub(crate) deferred: &'a [bool],
}

impl Schedule {
    pub(crate) fn new(steps: &Steps, purpose: &Purpose<'_>) -> Self {
        let count = steps.steps.len();
        let segments = if purpose.training && purpose.checkpoints {
            Segments::choose(steps)
        } else {
            Segments::whole(steps)
        };
        let Segments { ranges: segments, kept } = segments;
        let last = segments.len() - 1;
        // The last segment is not repeated: its backward pass follows at once.
        let repeated = |step: usize| step < segments[last].start && !kept[step];
        let mut order: Vec<(usize, ActionKind, bool)> = Vec::new();
        order.extend((0..count).map(|step| (step, ActionKind::Forward, false)));
        if purpose.training {
            order.extend(steps.outputs().map(|output| (output, ActionKind::Loss, false)));
            for (index, segment) in segments.iter().enumerate().rev() {
                if index < last {
                    let again = segment.clone().filter(|&step| !kept[step]);
                    order.extend(again.map(|step| (step, ActionKind::Forward, true)));
                }
                for step in segment.clone().rev().filter(|&step| steps.steps[step].needs_gradient) {
                    order.push((step, ActionKind::Backward, true));
                    let data =
                        steps.steps[step].inputs.iter().any(|&input| steps.steps[input].needs_gradient);
                    if data && vast(&steps.steps[step].kernel) {
                        order.push((step, ActionKind::VastData, true));
                    }
                }
            }
        }
        // In a repeated pass everything but what was kept is made anew.
        let activation = |step: usize, again: bool| Value::Activation(step, again && repeated(step));
        let saved = |step: usize, again: bool| Value::Saved(step, again && repeated(step));
        let alias = aliases(steps);
        let mut planner = Planner::default();
        let mut written = vec![false; count];
        let mut actions = Vec::new();
        for (time, &(index, kind, again)) in order.iter().enumerate() {
            let step = &steps.steps[index];
            let reads = reads(&step.kernel, purpose.deferred[index]);
            let mut action = Action {
                step: index,
                kind,
                inputs: Vec::new(),
                output: usize::MAX,
                saved: None,
                gradient: None,
                input_gradients: Vec::new(),
            };
            match kind {
                ActionKind::Forward => {
                    action.inputs = step
                        .inputs
                        .iter()
                        .map(|&i| planner.touch(activation(i, again), &steps.steps[i], time))
                        .collect();
                    action.output = planner.touch(activation(index, again), step, time);
                    if saved_len(&step.kernel, step) > 0 {
                        action.saved = Some(planner.touch(saved(index, again), step, time));
                    }
                }
                ActionKind::Loss => {
                    action.output = planner.touch(activation(index, false), step, time);
                    action.gradient = Some(planner.touch(Value::Gradient(alias[index]), step, time));
                    written[alias[index]] = true;
                }
                ActionKind::Backward => {
                    for &i in &step.inputs {
                        let value = activation(i, true);
                        action.inputs.push(if reads.inputs {
                            planner.touch(value, &steps.steps[i], time)
                        } else {
                            usize::MAX
                        });
                        if purpose.deferred[index] {
                            planner.keep(value);
                        }
                    }
                    if reads.output {
                        action.output = planner.touch(activation(index, true), step, time);
                        // The norm is taken with the last view, when the others' backward passes are over.
                        if purpose.deferred[index] {
                            planner.keep(activation(index, true));
                        }
                    }
                    if saved_len(&step.kernel, step) > 0 {
                        action.saved = Some(planner.touch(saved(index, true), step, time));
                    }
                    action.gradient = Some(planner.touch(Value::Gradient(alias[index]), step, time));
                    if purpose.deferred[index] {
                        planner.keep(Value::Gradient(alias[index]));
                    }
                }
                ActionKind::VastData => {
                    action.gradient = Some(planner.touch(Value::Gradient(alias[index]), step, time));
                }
            }
            let makes_data = match kind {
                ActionKind::Forward | ActionKind::Loss => false,
                ActionKind::Backward => !vast(&step.kernel),
                ActionKind::VastData => true,
            };
            for &i in step.inputs.iter().filter(|_| makes_data) {
                let input = &steps.steps[i];
                action.input_gradients.push(match input.needs_gradient {
                    false => None,
                    // An aliased gradient needs no copy.
                    true if alias[i] == alias[index] => {
                        written[alias[i]] = true;
                        None
                    }
                    true => {
                        let buffer = planner.touch(Value::Gradient(alias[i]), input, time);
                        Some((buffer, std::mem::replace(&mut written[alias[i]], true)))
                    }
                });
            }
            actions.push(action);
        }
        if !purpose.training {
            planner.keep(Value::Activation(steps.output, false));
        }
        let stretches = stretches(steps, &actions);
        let passing: &[Stretch] = if purpose.single { &[] } else { &stretches };
        let (assignment, buffers) = planner.assign(order.len(), passing);
        for action in &mut actions {
            let settle = |buffer: &mut usize| {
                if *buffer != usize::MAX {
                    *buffer = assignment[*buffer];
                }
            };
            action.inputs.iter_mut().for_each(settle);
            settle(&mut action.output);
            action.saved.iter_mut().for_each(settle);
            action.gradient.iter_mut().for_each(settle);
            action.input_gradients.iter_mut().flatten().for_each(|(buffer, _)| settle(buffer));
        }
        Self { actions, stretches, buffers }
    }

    /// Numbers from one item of a buffer to the next.
    pub(crate) fn stride(&self, buffer: usize) -> usize {
        self.buffers[buffer].stride
    }

    /// What a worker's buffers take, for samples of so many views.
    pub(crate) fn bytes(&self, views: usize) -> Bytes {
        let passing = self.buffers.iter().filter(|buffer| buffer.stride == 0).map(|buffer| buffer.len);
        let kept = self.buffers.iter().map(|buffer| buffer.stride);
        Bytes { worker: 4 * passing.sum::<usize>(), sample: 4 * views * kept.sum::<usize>() }
    }
}

/// What a backward pass reads besides the gradient.
struct Reads {
    inputs: bool,
    output: bool,
}

fn reads(kernel: &Kernel, deferred: bool) -> Reads {
    let (inputs, output) = match kernel {
        // The norm of a standardised weight's gradient comes from the outputs, where that gradient is not written down.
        Kernel::Gemm(gemm) => (true, gemm.relu || (deferred && gemm.standardise.is_some())),
        Kernel::Norm(norm) => (true, norm.relu && !matches!(norm.kind, super::norm::Kind::Group(_))),
        Kernel::Add { relu } | Kernel::MaxPool(MaxPool { relu, .. }) => (false, *relu),
        Kernel::Softmax { .. } => (false, true),
        Kernel::Depthwise(_)
        | Kernel::Activation(_)
        | Kernel::Multiply
        | Kernel::MatMul(_)
        | Kernel::Attention(_) => (true, false),
        Kernel::Input(_)
        | Kernel::Parameter(..)
        | Kernel::Resample(_)
        | Kernel::Move(_)
        | Kernel::Dropout(_) => (false, false),
    };
    Reads { inputs, output }
}

pub(crate) fn saved_len(kernel: &Kernel, step: &Step) -> usize {
    match kernel {
        Kernel::Norm(norm) => norm.saved(),
        Kernel::MaxPool(_) => step.form.len(),
        _ => 0,
    }
}

/// Numbers of scratch that a step needs, with this many threads inside an item.
pub(crate) fn scratch(kernel: &Kernel, lanes: Lanes, parallel: usize) -> usize {
    match kernel {
        Kernel::Gemm(gemm) => gemm.scratch(lanes, parallel),
        Kernel::Norm(norm) => norm.scratch(),
        Kernel::MatMul(matmul) => matmul.scratch(lanes),
        Kernel::Attention(attention) => attention.scratch(lanes),
        _ => 0,
    }
}

/// For every step, the step whose gradient buffer it shares: a sum hands its gradient to one input without a copy, if that input has
/// no other reader.
fn aliases(steps: &Steps) -> Vec<usize> {
    let mut readers = vec![0; steps.steps.len()];
    for input in steps.steps.iter().flat_map(|step| &step.inputs) {
        readers[*input] += 1;
    }
    let mut alias: Vec<usize> = (0..steps.steps.len()).collect();
    for (index, step) in steps.steps.iter().enumerate().rev() {
        if matches!(step.kernel, Kernel::Add { .. }) {
            let free = |&&input: &&usize| {
                readers[input] == 1
                    && steps.steps[input].needs_gradient
                    && steps.outputs().all(|output| output != input)
            };
            if let Some(&input) = step.inputs.iter().find(free) {
                alias[input] = alias[index];
            }
        }
    }
    alias
}

/// Weights beyond this many numbers do not stay in the second-level cache from one sample to the next.
const HEAVY: usize = 128 * 1024;

/// Groups actions: the light front of the network runs item by item, so that an item's activations stay in the cache; from the
/// first layer whose weights outweigh its activations on, each layer runs for all items of the group, so that its weights are read once
/// for them; and the weights of vast layers once for all workers.
fn stretches(steps: &Steps, actions: &[Action]) -> Vec<Stretch> {
    let heavy = |step: &Step| match &step.kernel {
        Kernel::Gemm(gemm) => {
            let activations = gemm.rows_in * gemm.channels + gemm.rows_out * gemm.out;
            gemm.weight_len() > HEAVY && gemm.weight_len() > activations
        }
        _ => false,
    };
    let split = steps.steps.iter().position(heavy).unwrap_or(steps.steps.len());
    let turn = |action: &Action| match action.kind {
        ActionKind::VastData => Turn::Together,
        ActionKind::Forward if vast(&steps.steps[action.step].kernel) => Turn::Together,
        ActionKind::Loss => Turn::Group,
        _ if action.step >= split => Turn::Group,
        _ => Turn::Item,
    };
    let mut stretches: Vec<Stretch> = Vec::new();
    for (index, action) in actions.iter().enumerate() {
        match stretches.last_mut() {
            Some(stretch) if stretch.turn == turn(action) => stretch.actions.end = index + 1,
            _ => stretches.push(Stretch { actions: index..index + 1, turn: turn(action) }),
        }
    }
    stretches
}

fn vast(kernel: &Kernel) -> bool {
    matches!(kernel, Kernel::Gemm(gemm) if gemm.vast())
}
