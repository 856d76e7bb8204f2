//! How the CPU resamples an image.

use dapple_graph::op::Upsample;

use crate::cpu::ResampleKernel;
use crate::cpu::operation::{CpuKernel, CpuOperation, LoweredNode, Order};

impl CpuOperation for Upsample {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(ResampleKernel::separable(&node.inputs[0], node.form, |from, to, position| {
            let place = ((position as f64 + 0.5) * from as f64 / to as f64 - 0.5).max(0.0);
            let low = (place as usize).min(from - 1);
            let share = (place - low as f64) as f32;
            vec![(low, 1.0 - share), ((low + 1).min(from - 1), share)]
        }))
    }
}
