//! How the CPU joins values along an axis.

use dapple_graph::op::Concat;

use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode};
use crate::cpu::{Form, Transfer, TransferKernel};

impl CpuOperation for Concat {
    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let strides = node.form.strides();
        let mut start = 0;
        let transfer = |input: &Form| {
            let target = (start * strides[self.axis], strides.clone());
            start += input.shape[self.axis];
            vec![Transfer::new(&input.shape, (0, input.strides()), target)]
        };
        Box::new(TransferKernel::new(node.inputs.iter().map(transfer).collect()))
    }
}
