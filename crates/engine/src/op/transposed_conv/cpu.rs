//! How the CPU runs a transposed convolution: like a convolution in which each tap reads the rows that it would write, and writes those that
//! it would read.

use dapple_graph::op::TransposedConv;

use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};
use crate::cpu::{Gemm, reversed_pairs, window_pairs};
use crate::op::conv::Depthwise;

impl CpuOperation for TransposedConv {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    fn folds_relu(&self) -> bool {
        self.groups == 1
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let Self { window, groups, weight, bias, .. } = self;
        let (channels, out) = (node.inputs[0].shape[0], node.form.shape[0]);
        let (input, output) = (&node.inputs[0].shape[1..], &node.form.shape[1..]);
        if *groups == channels && *groups == out && channels > 1 {
            let taps = reversed_pairs(&window_pairs(window, output, input));
            let rows = (input.iter().product(), output.iter().product());
            return Box::new(Depthwise::new((*weight, *bias), channels, taps, rows));
        }
        let mut gemm = Gemm::linear(*weight, *bias, 0, channels, out).spread(window, input, output, *groups);
        gemm.relu = node.relu;
        Box::new(gemm)
    }
}
