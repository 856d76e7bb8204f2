//! A residual network for clips (Tran et al. 2018), as torchvision builds it.

use super::{CLASSIFIER_LOSS, Norm, default_linear, global_pool};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::op::{Activation, Add, Window};

/// Blocks of each stage.
const BLOCKS: usize = 2;

/// MC3 with 18 layers for clips of this shape: filters that mix frames up to the first stage, and filters within frames behind it. Frames are never strided.
///
/// # Errors
/// If the sample is no clip, or the norm does not suit the channels or mixes examples.
pub fn mc3(input_shape: &[usize], classes: usize, norm: Norm) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let x = b.conv("stem.0", b.input(), ConvSpec::new(64, window(7, 3, 2)))?;
    let x = norm.add(b, "stem.1", x)?;
    let mut x = b.add("stem.2", Activation::Relu, &[x])?;
    for stage in 0..4 {
        for block in 0..BLOCKS {
            b.block();
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            // How many frames a filter sees.
            let frames = if stage == 0 { 3 } else { 1 };
            x = residual(b, &format!("layer{}.{block}", stage + 1), x, (64 << stage, frames, stride), norm)?;
        }
    }
    b.end_blocks();
    let x = global_pool(b, x)?;
    let x = default_linear(b, "fc", x, classes)?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// A window of so many pixels on a side and so many frames, which keeps the number of frames.
fn window(size: usize, frames: usize, stride: usize) -> Window {
    Window {
        kernel: vec![frames, size, size],
        stride: vec![1, stride, stride],
        padding: vec![frames / 2, size / 2, size / 2],
        ..Window::new(3, 1)
    }
}

fn residual(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    (channels, frames, stride): (usize, usize, usize),
    norm: Norm,
) -> Result<NodeId, GraphError> {
    let x = b.conv(&format!("{name}.conv1.0"), input, ConvSpec::new(channels, window(3, frames, stride)))?;
    let x = norm.add(b, &format!("{name}.conv1.1"), x)?;
    let x = b.add(&format!("{name}.conv1.2"), Activation::Relu, &[x])?;
    let x = b.conv(&format!("{name}.conv2.0"), x, ConvSpec::new(channels, window(3, frames, 1)))?;
    let x = norm.add(b, &format!("{name}.conv2.1"), x)?;
    let mut shortcut = input;
    if stride != 1 {
        let spec = ConvSpec::new(channels, window(1, 1, stride));
        shortcut = b.conv(&format!("{name}.downsample.0"), input, spec)?;
        shortcut = norm.add(b, &format!("{name}.downsample.1"), shortcut)?;
    }
    let sum = b.add(&format!("{name}.add"), Add, &[x, shortcut])?;
    b.add(&format!("{name}.relu"), Activation::Relu, &[sum])
}
