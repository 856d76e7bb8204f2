//! How the CPU runs a linear layer: as a matrix product.

use dapple_graph::op::Linear;

use crate::cpu::Gemm;
use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};

impl CpuOperation for Linear {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn folds_relu(&self) -> bool {
        true
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (rows, features) = node.inputs[0].rows();
        let mut gemm = Gemm::linear(self.weight, self.bias, rows, features, node.form.rows().1);
        gemm.relu = node.relu;
        Box::new(gemm)
    }
}
