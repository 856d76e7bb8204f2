//! How the CPU multiplies two values.

use dapple_graph::op::Mul;

use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode};
use crate::cpu::pointwise;

#[derive(Debug)]
struct MulKernel;

impl CpuOperation for Mul {
    fn kernel(&self, _: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(MulKernel)
    }
}

impl CpuKernel for MulKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            pointwise::multiply(item.values.input(0), item.values.input(1), item.y, false);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            for index in 0..2 {
                if let Some((dx, accumulate)) = item.input_gradients.part(index) {
                    pointwise::multiply(item.g, item.values.input(1 - index), dx, accumulate);
                }
            }
        });
    }
}
