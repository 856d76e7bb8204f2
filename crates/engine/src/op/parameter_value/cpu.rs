//! How the CPU reads a parameter as a value.

use dapple_graph::ParameterId;
use dapple_graph::op::ParameterValue;

use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode};
use crate::cpu::{Form, Transfer};

/// A parameter, and the transfer that brings it into the form of the node.
#[derive(Debug)]
struct ParameterKernel(ParameterId, Transfer);

impl CpuOperation for ParameterValue {
    fn form(&self, shape: &[usize], _: &[Form]) -> Form {
        Form::row_major(shape)
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let transfer = Transfer::whole(&Form::row_major(&node.form.shape), node.form);
        Box::new(ParameterKernel(self.0, transfer))
    }
}

impl CpuKernel for ParameterKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::NOTHING
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            self.1.copy(item.values.parameter(self.0), item.y);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if let Some(gradient) = item.parameter_gradients.of(self.0) {
                self.1.add_back(item.g, gradient);
            }
        });
    }
}
