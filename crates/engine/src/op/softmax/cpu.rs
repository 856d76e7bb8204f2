//! How the CPU takes a softmax.

use dapple_graph::op::Softmax;

use crate::cpu::operation::{
    BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode, Order,
};

#[derive(Debug)]
struct SoftmaxKernel {
    features: usize,
}

impl CpuOperation for Softmax {
    fn order(&self) -> Order {
        Order::RowMajor
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(SoftmaxKernel { features: node.form.rows().1 })
    }
}

impl CpuKernel for SoftmaxKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads { inputs: false, output: true }
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            softmax_rows(item.values.input(0), item.y, self.features);
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if let Some((dx, accumulate)) = item.input_gradients.part(0) {
                softmax_rows_backward(item.values.output(), item.g, dx, self.features, accumulate);
            }
        });
    }
}

/// Softmax of every row of so many features.
pub(crate) fn softmax_rows(x: &[f32], y: &mut [f32], features: usize) {
    for (x, y) in x.chunks_exact(features).zip(y.chunks_exact_mut(features)) {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - max).exp());
        let inverse = 1.0 / y.iter().sum::<f32>();
        y.iter_mut().for_each(|y| *y *= inverse);
    }
}

/// Writes or adds the gradient of what went in, from what came out and its gradient.
pub(crate) fn softmax_rows_backward(y: &[f32], g: &[f32], dx: &mut [f32], features: usize, accumulate: bool) {
    for ((y, g), dx) in
        y.chunks_exact(features).zip(g.chunks_exact(features)).zip(dx.chunks_exact_mut(features))
    {
        let along: f32 = y.iter().zip(g).map(|(y, g)| y * g).sum();
        for ((dx, y), g) in dx.iter_mut().zip(y).zip(g) {
            let term = y * (g - along);
            *dx = if accumulate { *dx + term } else { term };
        }
    }
}
