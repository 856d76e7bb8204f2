//! How the CPU drops values.

use dapple_graph::op::Dropout;

use crate::batch::NodeDropout;
use crate::cpu::operation::{
    BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, ItemValues, LoweredNode,
};
use crate::cpu::pointwise;

#[derive(Debug)]
struct DropoutKernel {
    layer: Dropout,
    /// The number of the node, by which its masks are known.
    node: usize,
}

impl CpuOperation for Dropout {
    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(DropoutKernel { layer: *self, node: node.index })
    }
}

impl DropoutKernel {
    /// Drops each element or channel, or scales it up. Elements are numbered in row-major order whatever the form is.
    fn run(&self, values: ItemValues<'_>, from: &[f32], to: &mut [f32], accumulate: bool) {
        let dropout = values.dropout(self.node);
        if matches!(dropout, NodeDropout::Off) {
            return pointwise::scale(from, 1.0, to, accumulate);
        }
        let form = values.form();
        let channels = if form.channels_last { form.shape[0] } else { 1 };
        let positions = form.len() / channels;
        // How many elements, in row-major order, are dropped together.
        let together = if self.layer.channels { form.len() / form.shape[0] } else { 1 };
        let factor = 1.0 / (1.0 - self.layer.rate);
        for (index, (to, from)) in to.iter_mut().zip(from).enumerate() {
            let element = index % channels * positions + index / channels;
            let kept = dropout.keeps(&self.layer, element / together);
            let value = if kept { from * factor } else { 0.0 };
            *to = if accumulate { *to + value } else { value };
        }
    }
}

impl CpuKernel for DropoutKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::NOTHING
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            self.run(item.values, item.values.input(0), item.y, false);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if let Some((dx, accumulate)) = item.input_gradients.part(0) {
                self.run(item.values, item.g, dx, accumulate);
            }
        });
    }
}
