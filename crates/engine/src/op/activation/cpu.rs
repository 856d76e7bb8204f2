//! How the CPU applies a function to every value.

use dapple_graph::op::Activation;

use crate::cpu::functions::{below, density, sigmoid};
use crate::cpu::operation::{BackwardPass, BackwardReads, CpuKernel, CpuOperation, ForwardPass, LoweredNode};
use crate::cpu::pointwise::{chain, map};

impl CpuOperation for Activation {
    fn kernel(&self, _: &LoweredNode<'_>) -> Box<dyn CpuKernel> {
        Box::new(*self)
    }
}

#[expect(
    clippy::redundant_closure,
    reason = "a function itself is called through one that is not always inlined"
)]
impl CpuKernel for Activation {
    fn reads(&self, _: bool) -> BackwardReads {
        BackwardReads::INPUTS
    }

    fn forward(&self, pass: ForwardPass<'_>) {
        pass.for_items(|item| {
            let (x, y) = (item.values.input(0), item.y);
            match *self {
                Self::Relu => map(x, y, |x| x.max(0.0)),
                Self::Relu6 => map(x, y, |x| x.clamp(0.0, 6.0)),
                Self::Scale(factor) => map(x, y, |x| x * factor),
                Self::Tanh => map(x, y, f32::tanh),
                Self::Silu => map(
                    x,
                    y,
                    #[inline(always)]
                    |x| silu(x),
                ),
                Self::Gelu => map(
                    x,
                    y,
                    #[inline(always)]
                    |x| gelu(x),
                ),
            }
        });
    }

    /// Writes or adds `g f'(x)`.
    fn backward(&self, pass: BackwardPass<'_>) {
        pass.for_items(|mut item| {
            let Some((dx, accumulate)) = item.input_gradients.part(0) else { return };
            let (x, g) = (item.values.input(0), &*item.g);
            match *self {
                Self::Relu => chain(x, g, dx, accumulate, |x| if x > 0.0 { 1.0 } else { 0.0 }),
                Self::Relu6 => chain(x, g, dx, accumulate, |x| if x > 0.0 && x < 6.0 { 1.0 } else { 0.0 }),
                Self::Scale(factor) => chain(x, g, dx, accumulate, |_| factor),
                Self::Tanh => chain(x, g, dx, accumulate, |x| 1.0 - x.tanh().powi(2)),
                Self::Silu => chain(
                    x,
                    g,
                    dx,
                    accumulate,
                    #[inline(always)]
                    |x| silu_slope(x),
                ),
                Self::Gelu => chain(
                    x,
                    g,
                    dx,
                    accumulate,
                    #[inline(always)]
                    |x| gelu_slope(x),
                ),
            }
        });
    }
}

// These must be inlined into the loops that call them, because only the loops are compiled for all lanes.

#[inline(always)]
fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

#[inline(always)]
fn silu_slope(x: f32) -> f32 {
    let s = sigmoid(x);
    s * (1.0 + x * (1.0 - s))
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    x * below(x)
}

#[inline(always)]
fn gelu_slope(x: f32) -> f32 {
    below(x) + x * density(x)
}
