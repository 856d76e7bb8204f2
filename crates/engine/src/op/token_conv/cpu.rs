//! How the CPU convolves tokens: like an image whose channels lie side by side.

use dapple_graph::op::TokenConv;

use super::output_grid;
use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};
use crate::cpu::window_pairs;
use crate::op::conv::Depthwise;

impl CpuOperation for TokenConv {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let (_, features) = node.form.rows();
        let output = output_grid(self);
        let taps = window_pairs(&self.window, &self.grid, &output);
        let rows = (self.grid.iter().product(), output.iter().product());
        let convolution = Depthwise::new((self.weight, None), features, taps, rows);
        Box::new(convolution.of_tokens(self.heads))
    }
}
