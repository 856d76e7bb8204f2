//! How the CPU scales channels, in whatever order they lie.

use dapple_graph::ParameterId;
use dapple_graph::op::ChannelScale;
use pulp::Arch;

use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode};
use crate::cpu::pointwise;

/// Values are blocks of channels, and each channel is a run of neighbours: `[block, channel, run]`.
#[derive(Debug)]
struct ChannelScaleKernel {
    weight: ParameterId,
    channels: usize,
    /// How many neighbours belong to one channel, which is one if channels are innermost.
    run: usize,
}

impl CpuOperation for ChannelScale {
    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (channels, run) = (node.form.shape[self.axis], node.form.strides()[self.axis]);
        Box::new(ChannelScaleKernel { weight: self.weight, channels, run })
    }
}

impl ChannelScaleKernel {
    /// Writes or adds every value times its channel's factor.
    fn scale(&self, from: &[f32], weight: &[f32], to: &mut [f32], accumulate: bool) {
        let block = self.channels * self.run;
        for (from, to) in from.chunks_exact(block).zip(to.chunks_exact_mut(block)) {
            if self.run == 1 {
                pointwise::multiply(from, weight, to, accumulate);
                continue;
            }
            let runs = from.chunks_exact(self.run).zip(to.chunks_exact_mut(self.run));
            for ((from, to), factor) in runs.zip(weight) {
                pointwise::scale(from, *factor, to, accumulate);
            }
        }
    }

    /// Adds the sum of `x g` over each channel.
    fn add_products(&self, x: &[f32], g: &[f32], sum: &mut [f32]) {
        let block = self.channels * self.run;
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (x, g) in x.chunks_exact(block).zip(g.chunks_exact(block)) {
                    let runs = x.chunks_exact(self.run).zip(g.chunks_exact(self.run));
                    for ((x, g), sum) in runs.zip(&mut *sum) {
                        *sum += x.iter().zip(g).map(|(x, g)| x * g).sum::<f32>();
                    }
                }
            },
        );
    }
}

impl CpuKernel for ChannelScaleKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let weight = item.values.parameter(self.weight);
            self.scale(item.values.input(0), weight, item.y, false);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if let Some(sum) = item.parameter_gradients.of(self.weight) {
                self.add_products(item.values.input(0), item.g, sum);
            }
            if let Some((dx, accumulate)) = item.input_gradients.part(0) {
                self.scale(item.g, item.values.parameter(self.weight), dx, accumulate);
            }
        });
    }
}
