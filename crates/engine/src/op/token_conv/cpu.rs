//! How the CPU convolves tokens: as channels that lie side by side.

use dapple_graph::op::TokenConv;

use super::output_grid;
use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};
use crate::op::conv::Depthwise;

impl CpuOperation for TokenConv {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (_, features) = node.form.rows();
        let convolution =
            Depthwise::new((self.weight, None), features, &self.window, &self.grid, &output_grid(self));
        Box::new(convolution.of_tokens(self.heads))
    }
}
