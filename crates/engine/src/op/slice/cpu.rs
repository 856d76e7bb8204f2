//! How the CPU takes a range of an axis.

use dapple_graph::op::Slice;

use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode};
use crate::cpu::{Transfer, TransferKernel};

impl CpuOperation for Slice {
    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let from = node.inputs[0].strides();
        let source = (self.start * from[self.axis], from);
        let transfer = Transfer::new(&node.form.shape, source, (0, node.form.strides()));
        Box::new(TransferKernel::new(vec![vec![transfer]]))
    }
}
