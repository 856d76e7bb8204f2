//! How the CPU takes the mean of each window.

use dapple_graph::op::AvgPool;

use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};
use crate::cpu::{ResampleKernel, window_pairs};

impl CpuOperation for AvgPool {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let share = 1.0 / self.0.taps() as f32;
        let pairs = window_pairs(&self.0, &node.inputs[0].shape[1..], &node.form.shape[1..]);
        let terms = pairs.into_iter().flatten().map(|pair| (pair, share)).collect();
        Box::new(ResampleKernel::new(node.form.shape[0], terms))
    }
}
