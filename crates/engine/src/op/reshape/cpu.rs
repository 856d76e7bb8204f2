//! How the CPU gives values another shape.

use dapple_graph::op::Reshape;

use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};
use crate::cpu::{Transfer, TransferKernel};

impl CpuOperation for Reshape {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        // For row-major values a reshape is a plain copy.
        let transfer = Transfer::new(&[node.form.len()], (0, vec![1]), (0, vec![1]));
        Box::new(TransferKernel::new(vec![vec![transfer]]))
    }
}
