//! Decides where values, gradients and what is kept lie in an item's memory, and for how long.

use dapple_graph::plan::Lifetime;

use super::lower::CardSteps;
use super::operation::CudaKernel;
use super::program::CardProgram;
use super::sharing::{GradientSharing, backward};

/// When everything is alive, in steps of a forward pass and the backward pass after it.
struct Lives<'p> {
    steps: &'p CardSteps,
    /// The operations that run.
    operations: Vec<Option<&'p dyn CudaKernel>>,
    deferred: &'p [bool],
    list: Vec<Lifetime>,
}

impl<'p> Lives<'p> {
    fn backward(&self, node: usize) -> usize {
        backward(node, self.operations.len())
    }

    /// When both passes are over.
    fn end(&self) -> usize {
        2 * self.operations.len() + 1
    }

    /// When a node's gradient is last read.
    fn read_until(&self, node: usize) -> usize {
        if self.deferred[node] { self.end() } else { self.backward(node) }
    }

    /// When a node's value is last read.
    fn value_until(&self, node: usize, trains: &impl Fn(&dyn CudaKernel) -> bool) -> usize {
        let CardSteps { inputs, needs_gradient: needs, outputs, .. } = self.steps;
        let count = self.operations.len();
        let is_output = outputs.iter().any(|(output, _)| *output == node);
        let mut last = if is_output { count } else { node };
        for reader in (node..count).filter(|&reader| inputs[reader].contains(&node)) {
            let Some(operation) = self.operations[reader] else { continue };
            last = last.max(reader);
            let mut slots = (0..inputs[reader].len()).filter(|&slot| inputs[reader][slot] == node);
            if needs[reader] && slots.any(|slot| operation.reads_input(slot, trains(operation))) {
                last = last.max(self.read_until(reader));
            }
        }
        match self.operations[node] {
            Some(operation) if needs[node] && operation.reads_output() => last.max(self.backward(node)),
            _ => last,
        }
    }

    /// Adds a buffer.
    fn add(&mut self, len: usize, first: usize, last: usize) -> Option<usize> {
        self.list.push(Lifetime { len, first, last });
        Some(self.list.len() - 1)
    }

    /// Adds a buffer if there is something to hold.
    fn add_some(&mut self, len: usize, first: usize, last: usize) -> Option<usize> {
        if len == 0 { None } else { self.add(len, first, last) }
    }
}

impl CardProgram {
    /// Decides how gradients meet, when everything is alive, and in which buffer it lies.
    pub(super) fn place(&mut self, trains: impl Fn(&dyn CudaKernel) -> bool, training: bool) {
        let steps = &self.steps;
        let runs = steps.operations.iter().zip(&self.runs);
        let operations: Vec<_> =
            runs.map(|(operation, runs)| operation.as_deref().filter(|_| *runs)).collect();
        let count = operations.len();
        let mut lives = Lives { steps, operations, deferred: &self.deferred, list: Vec::new() };
        let read_until: Vec<usize> = (0..count).map(|node| lives.read_until(node)).collect();
        let GradientSharing { contributions, owner, started } =
            GradientSharing::new(steps, &lives.operations, &read_until);
        for node in 0..count {
            let Some(operation) = lives.operations[node] else { continue };
            let (buffers, len) = (&mut self.buffers[node], steps.lens[node]);
            // The samples themselves have buffers of their own.
            if !operation.is_input() {
                let last = lives.value_until(node, &trains);
                buffers.value = lives.add(steps.room(node), node, last);
            }
            let backward = lives.backward(node);
            if training && steps.needs_gradient[node] {
                buffers.kept = lives.add_some(operation.kept(len), node, backward);
                buffers.scratch = lives.add_some(operation.scratch(), backward, backward);
            } else if operation.works_in_kept() {
                buffers.kept = lives.add(operation.kept(len), node, node);
            }
        }
        if training {
            // The loss writes the output's gradient, whether anything trains or not.
            for node in (0..count).rev() {
                let owns = lives.operations[node].is_some() && owner[node] == node;
                let Some(first) = started[node].filter(|_| owns) else { continue };
                let shared = (0..=node).filter(|&other| owner[other] == node);
                let last = shared.map(|other| read_until[other]).max().unwrap_or(lives.end()).max(first);
                self.buffers[node].gradient = lives.add(steps.room(node), first, last);
            }
            for node in (0..count).rev().filter(|&node| owner[node] != node) {
                self.buffers[node].gradient = self.buffers[owner[node]].gradient;
            }
        }
        self.sizes = lives.list.iter().map(|life| life.len).collect();
        (self.offsets, self.item_len) = pack(&lives.list);
        self.contributions = contributions;
    }
}

/// The buffers of an item are aligned to this many numbers.
const ALIGNMENT: usize = 64;

/// Gives every value a place in one stretch of memory. The largest values come first, and each takes the lowest gap among those alive with
/// it. Unlike a plan of whole buffers, this can put several small values where a large one is no longer needed.
fn pack(lives: &[Lifetime]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|&value| (std::cmp::Reverse(lives[value].len), lives[value].first));
    let size = |value: usize| lives[value].len.next_multiple_of(ALIGNMENT);
    let mut offsets = vec![0; lives.len()];
    let mut placed: Vec<usize> = Vec::new();
    for value in order {
        let together =
            |other: usize| lives[other].first <= lives[value].last && lives[value].first <= lives[other].last;
        let mut busy: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&other| together(other))
            .map(|&other| (offsets[other], offsets[other] + size(other)))
            .collect();
        busy.sort_unstable();
        let mut start = 0;
        for (from, to) in busy {
            if start + size(value) <= from {
                break;
            }
            start = start.max(to);
        }
        offsets[value] = start;
        placed.push(value);
    }
    let len = (0..lives.len()).map(|value| offsets[value] + size(value)).max().unwrap_or(0);
    (offsets, len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_alive_together_never_overlap(
            spans in prop::collection::vec((1usize..500, 0usize..20, 0usize..6), 1..30),
        ) {
            let lives: Vec<Lifetime> =
                spans.iter().map(|&(len, first, more)| Lifetime { len, first, last: first + more }).collect();
            let (offsets, len) = pack(&lives);
            for (i, a) in lives.iter().enumerate() {
                prop_assert!(offsets[i] + a.len <= len && offsets[i].is_multiple_of(ALIGNMENT));
                for (j, b) in lives.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let apart = offsets[i] + a.len <= offsets[j] || offsets[j] + b.len <= offsets[i];
                    prop_assert!(!together || apart);
                }
            }
        }
    }
}
