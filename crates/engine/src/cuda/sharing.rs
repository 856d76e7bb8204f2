//! Decides how the gradients of a value's readers meet, and which gradients share memory.

use super::lower::CardSteps;
use super::operation::CudaKernel;

/// How an input's gradient meets those of its other readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contribution {
    /// It is the first, and is written.
    Write,
    /// It is added to those that are there.
    Add,
    /// It is the reader's own gradient, and shares its memory.
    Same,
}

/// When a node's backward pass runs, in a graph of `count` nodes whose forward passes run first.
pub(crate) fn backward(node: usize, count: usize) -> usize {
    2 * count - node
}

/// Which gradients share memory. Several steps may read the same numbers there, and one of them may change the numbers once the others have
/// read them. Then the memory is in a new state, which earlier steps may share in turn.
struct States {
    /// The state that each node reads, named by the node with which the state began.
    of: Vec<usize>,
    /// For each state, when it is last read, and when it ends.
    read_until: Vec<usize>,
    ends: Vec<Option<usize>>,
}

impl States {
    /// Begins with a state of its own for every node, which reads it until the time given.
    fn new(read_until: Vec<usize>) -> Self {
        Self { of: (0..read_until.len()).collect(), ends: vec![None; read_until.len()], read_until }
    }

    /// Lets the gradient of an input, which nothing has written yet, share the memory of a node's gradient, unless someone would read what
    /// is no longer there. `changed` says when the input's gradient stops being the same, because another reader adds to it or because it is
    /// masked.
    fn join(&mut self, input: usize, node: usize, changed: Option<usize>) -> bool {
        let state = self.of[node];
        match changed {
            Some(at) => {
                let possible = self.ends[state].is_none() && self.read_until[state] < at;
                if possible {
                    self.ends[state] = Some(at);
                }
                possible
            }
            None => {
                let until = self.read_until[input];
                let possible = self.ends[state].is_none_or(|end| until < end);
                if possible {
                    self.of[input] = state;
                    self.read_until[state] = self.read_until[state].max(until);
                }
                possible
            }
        }
    }
}

/// Where gradients lie, and how they are put together.
#[derive(Debug)]
pub(crate) struct GradientSharing {
    /// For every input of every node, how its gradient meets those of other readers; `None` if it needs no gradient.
    pub(crate) contributions: Vec<Vec<Option<Contribution>>>,
    /// The node in whose memory each node's gradient lies.
    pub(crate) owner: Vec<usize>,
    /// When each node's gradient is first written.
    pub(crate) started: Vec<Option<usize>>,
}

impl GradientSharing {
    /// Decides for all nodes. `operations` are those of the steps that run, and `read_until` says when each node's gradient is last read.
    pub(crate) fn new(
        steps: &CardSteps,
        operations: &[Option<&dyn CudaKernel>],
        read_until: &[usize],
    ) -> Self {
        let CardSteps { inputs, needs_gradient: needs, outputs, .. } = steps;
        let count = operations.len();
        let mut readers = vec![Vec::new(); count];
        for node in (0..count).filter(|&node| operations[node].is_some() && needs[node]) {
            inputs[node].iter().for_each(|&input| readers[input].push(node));
        }
        let mut owner: Vec<usize> = (0..count).collect();
        let mut states = States::new(read_until.to_vec());
        let mut started = vec![None; count];
        outputs.iter().for_each(|(output, _)| started[*output] = Some(count));
        let mut contributions = vec![Vec::new(); count];
        for node in (0..count).rev() {
            let Some(operation) = operations[node].filter(|_| needs[node]) else { continue };
            for (slot, &input) in inputs[node].iter().enumerate() {
                let mut joins = || {
                    let once = readers[input].iter().filter(|&&reader| reader == node).count() == 1;
                    let next = readers[input].iter().copied().filter(|&reader| reader != node).max();
                    let masks = operations[input].is_some_and(CudaKernel::masks).then_some(input);
                    let changed = next.or(masks).map(|next| backward(next, count));
                    operation.passes_on(slot)
                        && !steps.narrow[input]
                        && once
                        && states.join(input, node, changed)
                };
                let contribution = needs[input].then(|| match started[input] {
                    Some(_) => Contribution::Add,
                    None if joins() => {
                        owner[input] = owner[node];
                        Contribution::Same
                    }
                    None => Contribution::Write,
                });
                if contribution.is_some() && started[input].is_none() {
                    started[input] = Some(backward(node, count));
                }
                contributions[node].push(contribution);
            }
        }
        Self { contributions, owner, started }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::Precision;
    use crate::cuda::program::CardProgram;
    use crate::layout::Layout;
    use dapple_graph::{ConvSpec, Graph, GraphBuilder, Loss, NodeId, Window, op, zoo};
    use proptest::prelude::*;

    /// A gradient as a list of its terms. Each term names the reader that made it, and the readers that masked it.
    type GradientTerms = Vec<Vec<usize>>;

    fn sorted(terms: &GradientTerms) -> GradientTerms {
        let mut terms = terms.clone();
        terms.sort();
        terms
    }

    fn masked(mut terms: GradientTerms, operation: &dyn CudaKernel, node: usize) -> GradientTerms {
        if operation.masks() {
            terms.iter_mut().for_each(|term| term.push(node));
        }
        terms
    }

    /// Runs a backward pass on terms, once with every gradient in memory of its own and once where the plan puts it. Every step must read
    /// what it would read without sharing, and what is read at the end must still be there. Returns how many inputs share memory.
    fn check(graph: &Graph, views: usize) -> usize {
        let program = CardProgram::training(graph, &Layout::new(graph), views, Precision::F32);
        let steps = &program.steps;
        let count = steps.operations.len();
        let mut own: Vec<GradientTerms> = vec![Vec::new(); count];
        let mut memory: Vec<GradientTerms> = vec![Vec::new(); count * 8];
        let place = |node: usize| program.buffers[node].gradient.unwrap();
        for &(output, _) in &steps.outputs {
            own[output].push(vec![count + output]);
            memory[place(output)].push(vec![count + output]);
        }
        let mut shared = 0;
        for node in (0..count).rev().filter(|&node| steps.needs_gradient[node] && program.runs[node]) {
            let Some(operation) = steps.operations[node].as_deref() else { continue };
            assert_eq!(sorted(&memory[place(node)]), sorted(&own[node]), "{node}");
            let gradient = masked(own[node].clone(), operation, node);
            memory[place(node)] = masked(memory[place(node)].clone(), operation, node);
            own[node].clone_from(&gradient);
            for (slot, &input) in steps.inputs[node].iter().enumerate() {
                let Some(contribution) = program.contributions[node][slot] else { continue };
                let term = vec![node * 8 + slot + 2 * count];
                let terms = if operation.passes_on(slot) { gradient.clone() } else { vec![term] };
                own[input].extend(terms.clone());
                match contribution {
                    Contribution::Same => shared += 1,
                    Contribution::Write => memory[place(input)] = terms,
                    Contribution::Add => memory[place(input)].extend(terms),
                }
            }
        }
        for node in (0..count).filter(|&node| program.deferred[node]) {
            assert_eq!(sorted(&memory[place(node)]), sorted(&own[node]), "{node} at the end");
        }
        shared
    }

    #[test]
    fn shortcuts_of_residual_networks_share_memory() {
        let group = zoo::Norm::Group(32);
        let resnet = zoo::resnet(zoo::ResNet::R50, &[3, 64, 64], 10, group).unwrap();
        // Each of the 16 sums was folded into one of its inputs, a norm, so the other input shares its memory.
        assert_eq!(check(&resnet, 1), 16);
        let backbone = zoo::Backbone::ResNet(zoo::ResNet::R18);
        let stride = zoo::OutputStride::Sixteen;
        check(&zoo::deeplab_v3_plus(backbone, stride, &[3, 65, 65], 5, group).unwrap(), 1);
        check(&zoo::mobilenet_v2(&[3, 32, 32], 10, zoo::Norm::Frozen).unwrap(), 2);
        check(&zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10).unwrap(), 1);
    }

    proptest! {
        /// Random graphs of norms, activations, convolutions and sums.
        #[test]
        fn every_step_reads_its_own_gradient(choices in prop::collection::vec((0usize..5, 0usize..6, 0usize..6), 1..13)) {
            let mut b = GraphBuilder::new(&[4, 2, 2]);
            let start = b.conv("start", b.input(), ConvSpec::new(4, Window::square(1))).unwrap();
            let mut ids: Vec<NodeId> = vec![start];
            for (index, (op, first, second)) in choices.into_iter().enumerate() {
                let name = format!("node{index}");
                let [x, y] = [first, second].map(|back| ids[ids.len().saturating_sub(1 + back)]);
                let id = match op {
                    0 => b.group_norm(&name, x, 2),
                    1 => b.add(&name, op::Activation::Relu, &[x]),
                    2 => b.conv(&name, x, ConvSpec::new(4, Window::square(1))),
                    _ => b.add(&name, op::Add, &[x, y]),
                };
                ids.push(id.unwrap());
            }
            let last = ids[ids.len() - 1];
            let flat = b.add("flat", op::Reshape(vec![16]), &[last]).unwrap();
            let graph = b.finish(flat, Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap();
            check(&graph, 1);
        }
    }
}
