//! How the CPU adds two values.

use dapple_graph::op::Add;
use pulp::Arch;

use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode};
use crate::cpu::pointwise;

#[derive(Debug)]
struct AddKernel {
    /// Whether negative sums become zero.
    relu: bool,
}

impl CpuOperation for Add {
    fn folds_relu(&self) -> bool {
        true
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(AddKernel { relu: node.relu })
    }
}

impl CpuKernel for AddKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads { inputs: false, output: self.relu }
    }

    fn hands_gradient_on(&self) -> bool {
        true
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let (a, b, y) = (item.values.input(0), item.values.input(1), item.y);
            Arch::new().dispatch(
                #[inline(always)]
                || {
                    let terms = a.iter().zip(b).map(|(a, b)| a + b);
                    if self.relu {
                        y.iter_mut().zip(terms).for_each(|(y, term)| *y = term.max(0.0));
                    } else {
                        y.iter_mut().zip(terms).for_each(|(y, term)| *y = term);
                    }
                },
            );
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if self.relu {
                pointwise::mask(item.values.output(), item.g);
            }
            for index in 0..2 {
                if let Some((dx, accumulate)) = item.input_gradients.part(index) {
                    pointwise::scale(item.g, 1.0, dx, accumulate);
                }
            }
        });
    }
}
