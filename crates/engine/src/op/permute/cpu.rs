//! How the CPU reorders axes.

use dapple_graph::op::Permute;

use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode};
use crate::cpu::{Form, Transfer, TransferKernel};

impl CpuOperation for Permute {
    fn form(&self, shape: &[usize], _: &[Form]) -> Form {
        Form::row_major(shape)
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let from = node.inputs[0].strides();
        let from = self.0.iter().map(|&axis| from[axis]).collect();
        let transfer = Transfer::new(&node.form.shape, (0, from), (0, node.form.strides()));
        Box::new(TransferKernel::new(vec![vec![transfer]]))
    }
}
