//! The weights of a model as its kernels want them, arranged once for all programs that multiply by them.

use dapple_graph::{Graph, Parameters};
use rayon::prelude::*;

use super::gemm::PreparedWeights;
use super::kernel::Lanes;
use super::program::CpuProgram;

/// The arranged weights of a model. Every weight has one kernel that multiplies by it, which is the same in every submodel, so that what
/// one program has arranged serves the others too.
#[derive(Debug)]
pub(crate) struct ArrangedWeights {
    /// One for each parameter of the model; empty for what is no weight, or was never arranged.
    weights: Vec<PreparedWeights>,
    /// Whether the data gradient of the kernel that reads the parameter is computed. Where a submodel needs one, so does the whole model.
    with_gradient: Vec<bool>,
    /// Whether it was arranged since the parameters last changed.
    fresh: Vec<bool>,
}

impl ArrangedWeights {
    /// No weights yet. With `training`, they are to be arranged for the backward pass as well.
    pub(crate) fn new(graph: &Graph, training: bool) -> Self {
        let count = graph.parameters().len();
        let mut with_gradient = vec![false; count];
        let needs = graph.needs_gradient();
        for node in graph.nodes().iter().filter(|_| training) {
            let Some(input) = node.inputs.first() else { continue };
            for id in node.op.parameters() {
                with_gradient[id.index()] = needs[input.index()];
            }
        }
        Self { weights: vec![PreparedWeights::default(); count], with_gradient, fresh: vec![false; count] }
    }

    /// Notes that the parameters may have changed.
    pub(crate) fn expire(&mut self) {
        self.fresh.fill(false);
    }

    /// Arranges those weights of a program that are not.
    pub(crate) fn arrange(&mut self, program: &CpuProgram, lanes: Lanes, parameters: &Parameters) {
        let Self { weights, with_gradient, fresh } = self;
        let own = weights.par_iter_mut().zip(&*with_gradient).zip(fresh).enumerate();
        own.filter(|(_, (_, fresh))| !**fresh).for_each(|(index, ((weight, gradient), fresh))| {
            if let Some(kernel) = program.multiplying(index) {
                kernel.prepare(lanes, parameters, *gradient, weight);
                *fresh = true;
            }
        });
    }

    /// One weight, by the number of its parameter.
    pub(crate) fn get(&self, parameter: usize) -> &PreparedWeights {
        &self.weights[parameter]
    }

    /// Whether a weight was ever arranged. If not, nothing was multiplied by it, and the sum of its gradients is zero.
    pub(crate) fn was_arranged(&self, parameter: usize) -> bool {
        !self.weights[parameter].forward.is_empty()
    }
}
