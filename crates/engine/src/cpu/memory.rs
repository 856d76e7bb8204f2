//! Plans which values share a buffer.

use dapple_graph::plan::{Lifetime, MemoryPlan};

use super::schedule::{Stretch, Turn};
use super::step::CpuStep;

/// Memory for values that are never alive together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemBuffer {
    /// How many numbers one item has.
    pub(crate) len: usize,
    /// The distance from one item to the next; zero if an item's values are no longer needed when the next item comes.
    pub(crate) stride: usize,
}

impl ItemBuffer {
    /// How many numbers the buffer needs for this many items.
    pub(crate) fn numbers(&self, items: usize) -> usize {
        if self.stride == 0 { self.len.min(self.len * items) } else { self.stride * items }
    }
}

/// A value of a step whose buffer is planned. The flag says whether it is from a forward pass that is repeated for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlannedValue {
    Activation(usize, bool),
    Saved(usize, bool),
    Gradient(usize),
}

/// Collects values, and when they are used.
#[derive(Default)]
pub(crate) struct Planner {
    values: Vec<(PlannedValue, Lifetime)>,
    kept: Vec<PlannedValue>,
}

impl Planner {
    /// Notes that a value is used at this time, and returns the value's number.
    pub(crate) fn touch(&mut self, value: PlannedValue, step: &CpuStep, time: usize) -> usize {
        if let Some(index) = self.values.iter().position(|(v, _)| *v == value) {
            self.values[index].1.last = time;
            return index;
        }
        let len = match value {
            PlannedValue::Saved(..) => step.kernel.saved(),
            _ => step.form.len(),
        };
        self.values.push((value, Lifetime { len, first: time, last: time }));
        self.values.len() - 1
    }

    /// Keeps a value until after the last action.
    pub(crate) fn keep(&mut self, value: PlannedValue) {
        self.kept.push(value);
    }

    /// Returns the buffer of each value, and all buffers. A value that is used only within one item's turn of a stretch needs no room for
    /// other items.
    pub(crate) fn assign(mut self, end: usize, stretches: &[Stretch]) -> (Vec<usize>, Vec<ItemBuffer>) {
        for (value, lifetime) in &mut self.values {
            if self.kept.contains(value) {
                lifetime.last = end;
            }
        }
        let passes = |lifetime: &Lifetime| {
            let within =
                |s: &Stretch| s.actions.contains(&lifetime.first) && s.actions.contains(&lifetime.last);
            stretches.iter().any(|stretch| stretch.turn == Turn::Item && within(stretch))
        };
        let (mut assignment, mut buffers) = (vec![0; self.values.len()], Vec::new());
        for passing in [false, true] {
            let (places, lifetimes): (Vec<usize>, Vec<Lifetime>) =
                (self.values.iter().map(|(_, lifetime)| *lifetime).enumerate())
                    .filter(|(_, lifetime)| passes(lifetime) == passing)
                    .unzip();
            let plan = MemoryPlan::assign(&lifetimes);
            for (place, buffer) in places.into_iter().zip(plan.assignment) {
                assignment[place] = buffers.len() + buffer;
            }
            // Lengths are whole cache lines.
            buffers.extend(
                plan.buffers
                    .iter()
                    .map(|len| len.next_multiple_of(16))
                    .map(|len| ItemBuffer { len, stride: if passing { 0 } else { len } }),
            );
        }
        (assignment, buffers)
    }
}
