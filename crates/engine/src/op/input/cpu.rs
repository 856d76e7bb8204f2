//! How the CPU takes a sample in.

use dapple_graph::op::Input;

use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode};
use crate::cpu::{Form, Transfer};

/// Brings a sample from row-major order into its form.
#[derive(Debug)]
struct InputKernel(Transfer);

impl CpuOperation for Input {
    /// Images and clips are read channels-last by whatever comes first.
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

    /// A sample has no gradient.
    fn backward(&self, _: BackwardPass<'_>) {}
}
