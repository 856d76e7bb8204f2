//! The memory plan: which values may share a buffer because they are never alive together.

use crate::graph::Graph;

/// A value that needs `len` numbers from step `first` to step `last`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// How many numbers the value holds.
    pub len: usize,
    /// The step that writes it.
    pub first: usize,
    /// The last step that reads it.
    pub last: usize,
}

/// The buffers of a plan, and which value lies in which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// How many numbers each buffer holds.
    pub buffers: Vec<usize>,
    /// The buffer of each value.
    pub assignment: Vec<usize>,
}

impl MemoryPlan {
    /// Gives every value a buffer. The largest values come first, and each takes the first buffer that is free for all its life. Since
    /// every value is known beforehand, this wastes less than taking them in the order of time.
    pub fn assign(values: &[Lifetime]) -> Self {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|&value| (std::cmp::Reverse(values[value].len), values[value].first));
        let mut buffers = Vec::new();
        let mut tenants: Vec<Vec<Lifetime>> = Vec::new();
        let mut assignment = vec![0; values.len()];
        for value in order {
            let life = values[value];
            let apart = |other: &Lifetime| other.last < life.first || life.last < other.first;
            let free = tenants.iter().position(|tenants| tenants.iter().all(apart));
            let buffer = free.unwrap_or_else(|| {
                buffers.push(life.len);
                tenants.push(Vec::new());
                buffers.len() - 1
            });
            tenants[buffer].push(life);
            assignment[value] = buffer;
        }
        Self { buffers, assignment }
    }

    /// The plan of a forward pass over a graph. There is one value for each node, alive until its last reader, and the output is kept.
    pub fn forward(graph: &Graph) -> Self {
        let mut lifetimes: Vec<Lifetime> = graph
            .nodes()
            .iter()
            .enumerate()
            .map(|(step, node)| Lifetime { len: node.len(), first: step, last: step })
            .collect();
        for (step, node) in graph.nodes().iter().enumerate() {
            for input in &node.inputs {
                lifetimes[input.index()].last = step;
            }
        }
        lifetimes[graph.output().index()].last = graph.nodes().len();
        Self::assign(&lifetimes)
    }

    /// How many numbers all buffers hold together.
    pub fn len(&self) -> usize {
        self.buffers.iter().sum()
    }

    /// Whether the buffers hold nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_alive_together_never_share(spans in prop::collection::vec((1usize..50, 0usize..20, 0usize..6), 1..30)) {
            let values: Vec<Lifetime> =
                spans.iter().map(|&(len, first, more)| Lifetime { len, first, last: first + more }).collect();
            let plan = MemoryPlan::assign(&values);
            for (i, a) in values.iter().enumerate() {
                prop_assert!(plan.buffers[plan.assignment[i]] >= a.len);
                for (j, b) in values.iter().enumerate().skip(i + 1) {
                    let together = a.first <= b.last && b.first <= a.last;
                    prop_assert!(!together || plan.assignment[i] != plan.assignment[j]);
                }
            }
        }
    }

    #[test]
    fn a_chain_needs_two_buffers() {
        let values: Vec<Lifetime> = (0..9).map(|i| Lifetime { len: 10, first: i, last: i + 1 }).collect();
        assert_eq!(MemoryPlan::assign(&values).len(), 20);
    }
}
