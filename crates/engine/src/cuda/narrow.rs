//! Decides which values lie in memory in 16 bits.
//!
//! In bf16, what one operation over tokens hands to another is narrow if it will be rounded to 8 bits anyway, or is the result of such
//! products: one number in 16 bits, written by its maker and read by its only reader, without a pass that converts it. A bf16 has the range
//! of single precision, so nothing has to be scaled. Sums of branches, what layer norms read, parameters and everything that is added up
//! stay in single precision.

use dapple_graph::{Graph, ParameterId};

use super::Precision;
use super::lower::CardSteps;
use super::run::CardRun;
use super::slice::DeviceSlice;

/// A bias that a linear layer leaves to the reader of its values, which has a kernel in which to add it: where it lies among the parameters,
/// and how many numbers it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwedBias {
    start: usize,
    channels: usize,
}

/// Kernels take this many narrow numbers at a time.
const TOGETHER: usize = 8;

impl CardSteps {
    /// Decides which values are narrow: those of which the maker can write narrow numbers, and which have one reader, who can read them.
    pub(super) fn choose_narrow(&mut self, graph: &Graph) {
        if self.precision != Precision::Bf16 {
            return;
        }
        for node in 0..self.operations.len() {
            let Some(maker) = self.operations[node].as_deref().filter(|maker| maker.writes_narrow()) else {
                continue;
            };
            let bias = maker.leaves_bias();
            let is_output = self.outputs.iter().any(|(output, _)| *output == node);
            let readings: Vec<(usize, usize)> = self.readings(node).collect();
            let [(reader, slot)] = readings[..] else { continue };
            let Some(reader) = self.operations[reader].as_deref() else { continue };
            self.narrow[node] =
                !is_output && reader.reads_narrow(slot) && self.lens[node].is_multiple_of(TOGETHER);
            let owed = bias.filter(|_| self.narrow[node] && reader.adds_bias());
            self.owed[node] = owed.map(|bias: ParameterId| OwedBias {
                start: self.parameters[bias.index()],
                channels: graph.parameters()[bias.index()].len(),
            });
        }
        for (node, operation) in self.operations.iter_mut().enumerate() {
            let input = self.inputs[node].first().is_some_and(|&input| self.narrow[input]);
            if let Some(operation) = operation {
                operation.settle_narrow(input, self.narrow[node]);
            }
        }
    }

    /// Who reads a node's values, and as which of their inputs.
    fn readings(&self, node: usize) -> impl Iterator<Item = (usize, usize)> {
        let readers = (0..self.operations.len()).filter(|&reader| self.operations[reader].is_some());
        readers.flat_map(move |reader| {
            let slots = self.inputs[reader].iter().enumerate().filter(move |(_, input)| **input == node);
            slots.map(move |(slot, _)| (reader, slot))
        })
    }

    /// How many numbers of four bytes an item's values take.
    pub(crate) fn room(&self, node: usize) -> usize {
        if self.narrow[node] { self.lens[node] / 2 } else { self.lens[node] }
    }
}

impl<'r> CardRun<'r> {
    /// Whether a node's values and their gradient are narrow.
    pub(crate) fn is_narrow(&self, node: usize) -> bool {
        self.program.steps.narrow[node]
    }

    /// Whether an input of a node is narrow.
    pub(crate) fn reads_narrow(&self, node: usize, slot: usize) -> bool {
        self.is_narrow(self.program.steps.inputs[node][slot])
    }

    /// The bias that a node has to add to an input, if there is one, and how many channels a row of it has.
    pub(crate) fn owed(&self, node: usize, slot: usize) -> (Option<DeviceSlice<'r, [u32; 4]>>, usize) {
        let owed = self.program.steps.owed[self.program.steps.inputs[node][slot]];
        let bias = owed.map(|owed| self.model.parameters().after(owed.start).first(owed.channels).cast());
        (bias, owed.map_or(TOGETHER, |owed| owed.channels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use dapple_graph::zoo;

    use crate::cuda::program::CardProgram;

    /// Of each block of a vision transformer, what its four linear layers read and write is narrow, and what its activation and attention
    /// make of that; the sums of branches are not.
    #[test]
    fn what_blocks_of_a_transformer_hand_on_is_narrow() {
        let model = zoo::VisionTransformer::named("vit-ti-16").unwrap();
        let graph = zoo::vision_transformer(model, &[3, 224, 224], 10).unwrap();
        let count = |precision: Precision| {
            let program = CardProgram::training(&graph, &Layout::new(&graph), 1, precision);
            let steps = &program.steps;
            let names: Vec<&str> = (0..steps.narrow.len())
                .filter(|&node| steps.narrow[node])
                .map(|node| graph.nodes()[node].name.as_str())
                .collect();
            let owed = steps.owed.iter().flatten().count();
            assert!(names.iter().all(|name| name.starts_with("blocks.")), "{names:?}");
            (names.len(), owed, program.item_len)
        };
        let [f32, tf32, bf16] = [Precision::F32, Precision::Tf32, Precision::Bf16].map(count);
        assert_eq!([(f32.0, f32.1), (tf32.0, tf32.1)], [(0, 0); 2]);
        // Two norms, four linear layers, attention and an activation; attention does not add biases.
        assert_eq!((bf16.0, bf16.1), (12 * 8, 12 * 3));
        assert!(bf16.2 < tf32.2 / 10 * 8, "{} and {} numbers of memory", bf16.2, tf32.2);
    }
}
