//! Both passes of a convolution or linear layer, for some items at once.

use dapple_graph::{ParameterId, Parameters};

use super::{Gemm, ItemRun, PreparedWeights, SampleViews};
use crate::cpu::kernel::Lanes;
use crate::cpu::operation::{
    BackwardItem, BackwardPass, BackwardReads, CpuKernel, ForwardPass, WeightedKernel,
};
use crate::cpu::pointwise;
use crate::cpu::summand::Exported;

impl CpuKernel for Gemm {
    fn reads(&self, deferred: bool) -> BackwardReads {
        // If the gradient of a standardised weight is not written down, its norm comes from the outputs.
        BackwardReads { inputs: true, output: self.relu || (deferred && self.standardise.is_some()) }
    }

    fn scratch(&self, lanes: Lanes, parallel: usize) -> usize {
        match &self.winograd {
            Some(winograd) => winograd.scratch(lanes, parallel),
            None if self.narrow => self.rows_out * self.taps.len() * self.channels,
            None => 0,
        }
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        let ForwardPass { values, items, output, scratch, .. } = pass;
        let slot = values.action.inputs[0];
        let strides = (values.stride(slot), values.stride(values.action.output));
        let mut run = ItemRun { items, scratch, parallel: values.work.parallel };
        self.multiply(
            values.shared.lanes,
            values.prepared(),
            &values.buffers[slot],
            output,
            strides,
            &mut run,
        );
    }

    fn backward(&self, mut pass: BackwardPass<'_>) {
        for item in pass.items.clone() {
            self.backward_item(&mut pass, item);
        }
        let BackwardPass { values, items, gradient, input_gradients, scratch, .. } = pass;
        if let (Some(from), Some(&Some((to, accumulate)))) =
            (values.action.gradient, values.action.input_gradients.first())
        {
            let strides = (values.stride(from), values.stride(to));
            let mut run = ItemRun { items, scratch, parallel: values.work.parallel };
            let (lanes, dx) = (values.shared.lanes, &mut input_gradients[0]);
            self.backward_data(lanes, values.prepared(), gradient, dx, strides, accumulate, &mut run);
        }
    }

    fn weighted(&self) -> Option<&dyn WeightedKernel> {
        Some(self)
    }

    fn product(&self) -> Option<&Gemm> {
        Some(self)
    }
}

impl Gemm {
    /// Adds an item's gradients of written parameters, and after a sample's last view takes the norm of its weight gradient.
    fn backward_item(&self, pass: &mut BackwardPass<'_>, item: usize) {
        let work = pass.values.work;
        let BackwardItem { values, g, mut parameter_gradients, scratch, .. } = pass.item(item);
        if self.relu {
            pointwise::mask(values.output(), g);
        }
        if let Some(sum) = self.bias.and_then(|id| parameter_gradients.of(id)) {
            pointwise::add_rows(g, sum);
        }
        if let Some(sum) = parameter_gradients.of(self.weight) {
            self.item_weight_gradient(values.input(0), g, sum, scratch, work.parallel);
        }
        // Norms are taken while what they read is still in the cache.
        if work.norms && (item + 1).is_multiple_of(work.views) {
            self.sample_norm(pass, item / work.views);
        }
    }

    /// Takes the norm of a sample's weight gradient, if the weight trains.
    fn sample_norm(&self, pass: &mut BackwardPass<'_>, sample: usize) {
        let (values, norms) = (pass.values, &mut pass.norms);
        let shared = values.shared;
        let Some(entry) = shared.layout.position(self.weight) else { return };
        let means = shared.sources[entry].means.clone().unwrap_or(0..0);
        let means = &mut norms.means[sample * shared.means..][means];
        let square = &mut norms.squared[sample * shared.layout.entries().len() + entry];
        *square = match shared.places[self.weight.index()].clone() {
            Some(place) => {
                let gradient = &pass.materialised[sample * shared.materialised..][place];
                self.stored_norm(values.prepared(), gradient, means, norms.wide)
            }
            None => {
                let (slot, count) = (values.action.inputs[0], values.work.views);
                let stride = values.action.gradient.map_or(0, |slot| values.stride(slot));
                let inputs = &values.buffers[slot][sample * count * values.stride(slot)..];
                let gradients = &pass.gradient[sample * count * stride..];
                let views = SampleViews {
                    count,
                    inputs: (inputs, values.stride(slot)),
                    gradients: (gradients, stride),
                };
                self.ghost_norm(values.prepared(), &views, means, norms.wide)
            }
        };
    }
}

impl WeightedKernel for Gemm {
    fn weight(&self) -> ParameterId {
        self.weight
    }

    fn arranged(&self) -> bool {
        !self.natural()
    }

    fn prepare(&self, lanes: Lanes, parameters: &Parameters, gradient: bool, prepared: &mut PreparedWeights) {
        let bias = self.bias.map(|id| parameters.get(id));
        self.arrange_weights(lanes, parameters.get(self.weight), bias, gradient, prepared);
    }

    fn export(&self, prepared: &PreparedWeights, sum: Exported<'_>) {
        match sum {
            Exported::Counts(sum, to) => self.export_sum(prepared, sum, to),
            Exported::Wide(sum, to) => self.export_sum(prepared, sum, to),
            Exported::Plain(sum, to) => self.export_sum(prepared, sum, to),
        }
    }
}
