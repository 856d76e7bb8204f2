//! The order of work and the buffers it uses, settled before the first sample arrives.

use super::memory::ItemBuffer;
use super::scheduler::Scheduler;
use super::share::Bytes;
use super::step::{CpuStep, CpuSteps};

/// Stands for the buffer of a value that an action does not use.
pub(crate) const NO_BUFFER: usize = usize::MAX;

/// One piece of work with the buffers it reads and writes.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) step: usize,
    pub(crate) kind: ActionKind,
    /// The buffers of the inputs' values.
    pub(crate) inputs: Vec<usize>,
    /// The buffer of the step's own value.
    pub(crate) output: usize,
    /// The buffer of what the forward pass keeps for the backward pass.
    pub(crate) saved: Option<usize>,
    /// The buffer of the gradient of the step's value.
    pub(crate) gradient: Option<usize>,
    /// The buffers of the inputs' gradients, each with whether it already holds a part of the gradient.
    pub(crate) input_gradients: Vec<Option<(usize, bool)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionKind {
    Forward,
    Loss,
    /// The backward pass of a step, which for a vast layer leaves out the data gradient.
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

/// How a stretch goes through its actions and items.
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
    pub(crate) buffers: Vec<ItemBuffer>,
}

/// What a schedule is planned for.
pub(crate) struct SchedulePurpose<'a> {
    pub(crate) training: bool,
    /// Whether activations are computed a second time rather than kept.
    pub(crate) checkpoints: bool,
    /// Whether a worker holds one item at a time. Then no other item comes after it, and values of all stretches may share memory.
    pub(crate) single: bool,
    /// For every step, whether its input and gradient are read after the backward pass, for a deferred weight gradient.
    pub(crate) deferred: &'a [bool],
}

impl Schedule {
    pub(crate) fn new(steps: &CpuSteps, purpose: &SchedulePurpose<'_>) -> Self {
        let (mut actions, planner) = Scheduler::new(steps, purpose).actions();
        let stretches = stretches(steps, &actions);
        let passing: &[Stretch] = if purpose.single { &[] } else { &stretches };
        let (assignment, buffers) = planner.assign(actions.len(), passing);
        for action in &mut actions {
            let settle = |buffer: &mut usize| {
                if *buffer != NO_BUFFER {
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

    /// The distance from one item of a buffer to the next.
    pub(crate) fn stride(&self, buffer: usize) -> usize {
        self.buffers[buffer].stride
    }

    /// How many bytes a worker's buffers take, for samples with this many views.
    pub(crate) fn bytes(&self, views: usize) -> Bytes {
        let passing = self.buffers.iter().filter(|buffer| buffer.stride == 0).map(|buffer| buffer.len);
        let kept = self.buffers.iter().map(|buffer| buffer.stride);
        Bytes { worker: 4 * passing.sum::<usize>(), sample: 4 * views * kept.sum::<usize>() }
    }
}

/// Weights of more numbers than this do not stay in the second-level cache from one sample to the next.
const HEAVY: usize = 128 * 1024;

/// Groups actions into stretches. The light front of the network runs item by item, so that an item's activations stay in the cache. From
/// the first layer whose weights outweigh its activations on, each layer runs for all items of the group, so that its weights are read once
/// for them. Vast layers run for the items of all workers at once, so that their weights are read only once.
fn stretches(steps: &CpuSteps, actions: &[Action]) -> Vec<Stretch> {
    let heavy = |step: &CpuStep| {
        step.kernel.product().is_some_and(|gemm| {
            let activations = gemm.rows_in * gemm.channels + gemm.rows_out * gemm.out;
            gemm.weight_len() > HEAVY && gemm.weight_len() > activations
        })
    };
    let split = steps.steps.iter().position(heavy).unwrap_or(steps.steps.len());
    let turn = |action: &Action| match action.kind {
        ActionKind::VastData => Turn::Together,
        ActionKind::Forward if steps.steps[action.step].vast() => Turn::Together,
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
