//! How the CPU takes the means of windows whose size follows from the output's.

use dapple_graph::op::AdaptiveAvgPool;

use crate::cpu::ResampleKernel;
use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};

impl CpuOperation for AdaptiveAvgPool {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(ResampleKernel::separable(&node.inputs[0], node.form, |from, to, position| {
            let (start, end) = (position * from / to, ((position + 1) * from).div_ceil(to));
            (start..end).map(|place| (place, 1.0 / (end - start) as f32)).collect()
        }))
    }
}
