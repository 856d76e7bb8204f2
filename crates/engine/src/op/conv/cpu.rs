//! How the CPU runs a convolution: as a matrix product, or channel by channel.

use dapple_graph::op::Conv;

use super::depthwise::Depthwise;
use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};
use crate::cpu::{Gemm, window_pairs};

impl CpuOperation for Conv {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    fn folds_relu(&self) -> bool {
        self.standardise.is_none() && self.groups == 1
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let Self { window, groups, weight, bias, standardise } = self;
        let (channels, out) = (node.inputs[0].shape[0], node.form.shape[0]);
        let (input, output) = (&node.inputs[0].shape[1..], &node.form.shape[1..]);
        if *groups == channels && *groups == out && channels > 1 && standardise.is_none() {
            let rows = (input.iter().product(), output.iter().product());
            let taps = window_pairs(window, input, output);
            return Box::new(Depthwise::new((*weight, *bias), channels, taps, rows));
        }
        let mut gemm = Gemm::linear(*weight, *bias, 0, channels, out).over(window, input, output, *groups);
        gemm.standardise = *standardise;
        gemm.relu = node.relu;
        Box::new(gemm)
    }
}
