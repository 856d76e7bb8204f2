//! Turns steps into actions: decides in which order they run, and which values each of them touches.

use super::memory::{PlannedValue, Planner};
use super::schedule::{Action, ActionKind, NO_BUFFER, SchedulePurpose};
use super::segments::Segments;
use super::step::{CpuStep, CpuSteps};

/// An action whose buffers are not known yet.
#[derive(Debug, Clone, Copy)]
struct Upcoming {
    step: usize,
    kind: ActionKind,
    /// Whether it belongs to the backward pass, or to a forward pass that is repeated for it.
    again: bool,
}

/// Turns upcoming actions into ones with buffers. Until the planner has assigned memory, the number of a buffer is the number of a value.
pub(crate) struct Scheduler<'a> {
    steps: &'a CpuSteps,
    purpose: &'a SchedulePurpose<'a>,
    upcoming: Vec<Upcoming>,
    /// For every step, whether its value is computed a second time.
    repeated: Vec<bool>,
    /// For every step, the step with which its gradient shares memory.
    alias: Vec<usize>,
    /// For every step, whether a part of its gradient has already been written.
    written: Vec<bool>,
    planner: Planner,
}

impl<'a> Scheduler<'a> {
    pub(crate) fn new(steps: &'a CpuSteps, purpose: &'a SchedulePurpose<'a>) -> Self {
        let segments = match purpose.training && purpose.checkpoints {
            true => Segments::choose(steps),
            false => Segments::whole(steps),
        };
        let count = steps.steps.len();
        // The last segment is not repeated, because its backward pass follows at once.
        let end = segments.ranges[segments.ranges.len() - 1].start;
        Self {
            steps,
            purpose,
            repeated: (0..count).map(|step| step < end && !segments.kept[step]).collect(),
            upcoming: order(steps, purpose.training, &segments),
            alias: aliases(steps),
            written: vec![false; count],
            planner: Planner::default(),
        }
    }

    /// All actions, and the planner that knows when each of their values is used.
    pub(crate) fn actions(mut self) -> (Vec<Action>, Planner) {
        let upcoming = std::mem::take(&mut self.upcoming);
        let actions = upcoming.iter().enumerate().map(|(time, &upcoming)| self.action(time, upcoming));
        let actions = actions.collect();
        if !self.purpose.training {
            self.planner.keep(PlannedValue::Activation(self.steps.output, false));
        }
        (actions, self.planner)
    }

    fn action(&mut self, time: usize, upcoming: Upcoming) -> Action {
        let Upcoming { step: index, kind, again } = upcoming;
        let steps = self.steps;
        let step = &steps.steps[index];
        let mut action = Action {
            step: index,
            kind,
            inputs: Vec::new(),
            output: NO_BUFFER,
            saved: None,
            gradient: None,
            input_gradients: Vec::new(),
        };
        match kind {
            ActionKind::Forward => {
                action.inputs =
                    step.inputs.iter().map(|&input| self.activation(input, again, time)).collect();
                action.output = self.activation(index, again, time);
                action.saved = self.saved(index, again, time);
            }
            ActionKind::Loss => {
                action.output = self.activation(index, false, time);
                action.gradient = Some(self.gradient(index, time));
                self.written[self.alias[index]] = true;
            }
            ActionKind::Backward => self.backward_reads(step, time, &mut action),
            ActionKind::VastData => action.gradient = Some(self.gradient(index, time)),
        }
        let makes_data = match kind {
            ActionKind::Forward | ActionKind::Loss => false,
            ActionKind::Backward => !step.vast(),
            ActionKind::VastData => true,
        };
        if makes_data {
            action.input_gradients =
                step.inputs.iter().map(|&input| self.input_gradient(index, input, time)).collect();
        }
        action
    }

    /// Fills in what the backward pass of a step reads.
    fn backward_reads(&mut self, step: &CpuStep, time: usize, action: &mut Action) {
        let index = action.step;
        let deferred = self.purpose.deferred[index];
        let reads = step.kernel.reads(deferred);
        for &input in &step.inputs {
            let value = if reads.inputs { self.activation(input, true, time) } else { NO_BUFFER };
            action.inputs.push(value);
            if deferred {
                self.planner.keep(self.activation_value(input, true));
            }
        }
        if reads.output {
            action.output = self.activation(index, true, time);
            // The norm is taken after the last view, when the backward passes of the other views are over.
            if deferred {
                self.planner.keep(self.activation_value(index, true));
            }
        }
        action.saved = self.saved(index, true, time);
        action.gradient = Some(self.gradient(index, time));
        if deferred {
            self.planner.keep(PlannedValue::Gradient(self.alias[index]));
        }
    }

    /// The gradient of an input, and whether a part of it has already been written; `None` if the gradient is not wanted, or if it is the
    /// step's own.
    fn input_gradient(&mut self, step: usize, input: usize, time: usize) -> Option<(usize, bool)> {
        if !self.steps.steps[input].needs_gradient {
            return None;
        }
        let holds = std::mem::replace(&mut self.written[self.alias[input]], true);
        // If both share memory, there is nothing to copy.
        (self.alias[input] != self.alias[step]).then(|| (self.gradient(input, time), holds))
    }

    /// The activation of a step. In a repeated pass that is a new value, unless the first one was kept.
    fn activation_value(&self, step: usize, again: bool) -> PlannedValue {
        PlannedValue::Activation(step, again && self.repeated[step])
    }

    fn activation(&mut self, step: usize, again: bool, time: usize) -> usize {
        self.planner.touch(self.activation_value(step, again), &self.steps.steps[step], time)
    }

    fn saved(&mut self, index: usize, again: bool, time: usize) -> Option<usize> {
        let steps = self.steps;
        let step = &steps.steps[index];
        let value = PlannedValue::Saved(index, again && self.repeated[index]);
        (step.kernel.saved() > 0).then(|| self.planner.touch(value, step, time))
    }

    fn gradient(&mut self, step: usize, time: usize) -> usize {
        self.planner.touch(PlannedValue::Gradient(self.alias[step]), &self.steps.steps[step], time)
    }
}

/// The order of all actions: the forward pass, the losses, and the backward pass segment by segment. Before its backward pass, the forward
/// pass of every segment but the last is repeated.
fn order(steps: &CpuSteps, training: bool, segments: &Segments) -> Vec<Upcoming> {
    let forward = |again: bool| move |step: usize| Upcoming { step, kind: ActionKind::Forward, again };
    let mut order: Vec<Upcoming> = (0..steps.steps.len()).map(forward(false)).collect();
    if !training {
        return order;
    }
    order.extend(steps.outputs().map(|step| Upcoming { step, kind: ActionKind::Loss, again: false }));
    let last = segments.ranges.len() - 1;
    for (index, segment) in segments.ranges.iter().enumerate().rev() {
        if index < last {
            order.extend(segment.clone().filter(|&step| !segments.kept[step]).map(forward(true)));
        }
        for index in segment.clone().rev().filter(|&step| steps.steps[step].needs_gradient) {
            let step = &steps.steps[index];
            order.push(Upcoming { step: index, kind: ActionKind::Backward, again: true });
            if step.vast() && step.inputs.iter().any(|&input| steps.steps[input].needs_gradient) {
                order.push(Upcoming { step: index, kind: ActionKind::VastData, again: true });
            }
        }
    }
    order
}

/// For every step, the step with which its gradient shares memory. A sum hands its gradient on to one of its inputs without a copy, if
/// nothing else reads that input.
fn aliases(steps: &CpuSteps) -> Vec<usize> {
    let mut readers = vec![0; steps.steps.len()];
    for input in steps.steps.iter().flat_map(|step| &step.inputs) {
        readers[*input] += 1;
    }
    let mut alias: Vec<usize> = (0..steps.steps.len()).collect();
    for (index, step) in steps.steps.iter().enumerate().rev() {
        if step.kernel.hands_gradient_on() {
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
