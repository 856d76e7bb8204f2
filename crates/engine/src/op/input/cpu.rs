//! How the CPU reads a sample.

use dapple_graph::op::Input;

use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode};
use crate::cpu::{Form, Transfer};

/// Brings a sample from row-major order into the form of the node.
#[derive(Debug)]
struct InputKernel(Transfer);

impl CpuOperation for Input {
    /// Images and clips become channels-last, because the first layer of nearly every model reads them so.
    fn form(&self, shape: &[usize], _: &[Form]) -> Form {
        if shape.len() > 2 { Form::channels_last(shape) } else { Form::row_major(shape) }
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(InputKernel(Transfer::whole(&Form::row_major(&node.form.shape), node.form)))
    }
}

impl CpuKernel for InputKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::NOTHING
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            self.0.copy(item.values.sample(), item.y);
        });
    }

    /// No gradient of the sample is computed.
    fn backward(&self, _: BackwardPass<'_>) {}
}
