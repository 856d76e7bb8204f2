//! How the CPU takes the largest value of each window, over channels-last rows.

use dapple_graph::op::MaxPool;
use pulp::{Arch, Simd, WithSimd};

use crate::cpu::kernel::RowClass;
use crate::cpu::operation::{
    BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardItem, ForwardPass, LoweredNode, Order,
};
use crate::cpu::{pointwise, window_pairs};

/// Takes the largest value of each window, and remembers which tap it came from.
#[derive(Debug)]
struct MaxPoolKernel {
    channels: usize,
    /// How many values an item's output has.
    len: usize,
    /// Whether negative maxima become zero.
    relu: bool,
    classes: Vec<RowClass>,
}

impl CpuOperation for MaxPool {
    fn order(&self) -> Order {
        Order::ChannelsLast
    }

    /// The maximum of ReLUs is the ReLU of the maximum, so the ReLU can come last. Then the backward pass needs no values from before the
    /// pooling.
    fn swaps_with_relu(&self) -> bool {
        true
    }

    fn kernel(&self, node: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        let output = &node.form.shape[1..];
        let taps = window_pairs(&self.0, &node.inputs[0].shape[1..], output);
        let classes = RowClass::sort(&taps, output.iter().product());
        Box::new(MaxPoolKernel {
            channels: node.form.shape[0],
            len: node.form.len(),
            relu: node.relu,
            classes,
        })
    }
}

impl CpuKernel for MaxPoolKernel {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads { inputs: false, output: self.relu }
    }

    /// The tap of each output value.
    fn saved(&self) -> usize {
        self.len
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let ForwardItem { values, y, saved, .. } = item;
            Arch::new().dispatch(MaxForward {
                pool: self,
                x: values.input(0),
                y,
                winner: &mut saved[..self.len],
            });
            if self.relu {
                pointwise::relu(y);
            }
        });
    }

    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            if self.relu {
                pointwise::mask(item.values.output(), item.g);
            }
            if let Some(dx) = item.input_gradients.sum(0) {
                Arch::new().dispatch(MaxBackward { pool: self, g: item.g, winner: item.values.saved(), dx });
            }
        });
    }
}

struct MaxForward<'a> {
    pool: &'a MaxPoolKernel,
    x: &'a [f32],
    y: &'a mut [f32],
    winner: &'a mut [f32],
}

impl WithSimd for MaxForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let channels = self.pool.channels;
        for class in &self.pool.classes {
            for (index, &target) in class.targets.iter().enumerate() {
                let y = &mut self.y[target as usize * channels..][..channels];
                let winner = &mut self.winner[target as usize * channels..][..channels];
                y.fill(f32::NEG_INFINITY);
                let sources = &class.sources[index * class.taps.len()..][..class.taps.len()];
                for (&tap, &source) in class.taps.iter().zip(sources) {
                    let tap = tap as f32;
                    let x = &self.x[source as usize * channels..][..channels];
                    for c in 0..channels {
                        let wins = x[c] > y[c];
                        winner[c] = if wins { tap } else { winner[c] };
                        y[c] = if wins { x[c] } else { y[c] };
                    }
                }
            }
        }
    }
}

struct MaxBackward<'a> {
    pool: &'a MaxPoolKernel,
    g: &'a [f32],
    winner: &'a [f32],
    dx: &'a mut [f32],
}

impl WithSimd for MaxBackward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let channels = self.pool.channels;
        for class in &self.pool.classes {
            for (index, &target) in class.targets.iter().enumerate() {
                let g = &self.g[target as usize * channels..][..channels];
                let winner = &self.winner[target as usize * channels..][..channels];
                let sources = &class.sources[index * class.taps.len()..][..class.taps.len()];
                for (&tap, &source) in class.taps.iter().zip(sources) {
                    let tap = tap as f32;
                    let dx = &mut self.dx[source as usize * channels..][..channels];
                    for c in 0..channels {
                        dx[c] += if winner[c] == tap { g[c] } else { 0.0 };
                    }
                }
            }
        }
    }
}
