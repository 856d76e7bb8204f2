//! How the CPU normalises by stored statistics, over channels-last rows.

use dapple_graph::op::BatchNorm;

use crate::cpu::affine::{coefficients, scale_rows};
use crate::cpu::kernel::Lanes;
use crate::cpu::operation::{
    BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, ItemValues, LoweredNode, Order,
};
use crate::cpu::pointwise;

#[derive(Debug)]
struct BatchNormKernel {
    norm: BatchNorm,
    channels: usize,
    /// Whether negative results become zero.
    relu: bool,
}

impl CpuOperation for BatchNorm {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    fn folds_relu(&self) -> bool {
        true
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(BatchNormKernel { norm: *self, channels: node.form.shape[0], relu: node.relu })
    }
}

impl BatchNormKernel {
    /// The scale and shift of every channel, with the statistics worked in.
    fn coefficients<'s>(
        &self,
        values: ItemValues<'_>,
        scratch: &'s mut [f32],
    ) -> (&'s mut [f32], &'s mut [f32]) {
        let (scale, shift) = scratch[..2 * self.channels].split_at_mut(self.channels);
        let (mean, variance) = (values.parameter(self.norm.mean), values.parameter(self.norm.variance));
        let statistics = |c: usize| (mean[c], 1.0 / (variance[c] + self.norm.eps).sqrt());
        coefficients(values.affine(Some(self.norm.affine)), statistics, scale, shift);
        (scale, shift)
    }
}

impl CpuKernel for BatchNormKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads { inputs: true, output: self.relu }
    }

    fn scratch(&self, _: Lanes, _: usize) -> usize {
        2 * self.channels
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let (scale, shift) = self.coefficients(item.values, item.scratch);
            scale_rows(item.values.input(0), scale, shift, self.relu, item.y);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            let (values, channels) = (item.values, self.channels);
            if self.relu {
                pointwise::mask(values.output(), item.g);
            }
            let (scale, _) = self.coefficients(values, item.scratch);
            let (dw, db) = item.parameter_gradients.affine(Some(self.norm.affine));
            if let Some(dw) = dw {
                let (mean, variance) =
                    (values.parameter(self.norm.mean), values.parameter(self.norm.variance));
                for (x, g) in values.input(0).chunks_exact(channels).zip(item.g.chunks_exact(channels)) {
                    for c in 0..channels {
                        dw[c] += g[c] * (x[c] - mean[c]) / (variance[c] + self.norm.eps).sqrt();
                    }
                }
            }
            if let Some(db) = db {
                pointwise::add_rows(item.g, db);
            }
            if let Some((dx, accumulate)) = item.input_gradients.part(0) {
                for (dx, g) in dx.chunks_exact_mut(channels).zip(item.g.chunks_exact(channels)) {
                    pointwise::multiply(g, scale, dx, accumulate);
                }
            }
        });
    }
}
