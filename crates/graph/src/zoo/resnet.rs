//! Residual networks (He et al. 2015), as torchvision builds them.

use super::backbone::{BackboneStep, Reach};
use super::{CLASSIFIER_LOSS, Norm, default_linear, global_pool};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::op::{Activation, Add, MaxPool, Window};

/// The depth of a residual network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResNet {
    /// 18 layers.
    R18,
    /// 34 layers.
    R34,
    /// 50 layers, with bottlenecks.
    R50,
    /// 101 layers, with bottlenecks.
    R101,
}

impl ResNet {
    fn blocks(self) -> [usize; 4] {
        match self {
            Self::R18 => [2, 2, 2, 2],
            Self::R34 | Self::R50 => [3, 4, 6, 3],
            Self::R101 => [3, 4, 23, 3],
        }
    }

    /// How many times as many channels a stage's output has as its 3x3 convolutions.
    pub(super) fn expansion(self) -> usize {
        match self {
            Self::R18 | Self::R34 => 1,
            Self::R50 | Self::R101 => 4,
        }
    }
}

/// A residual network for samples of this shape.
///
/// # Errors
/// If the sample is no image, or the norm does not suit the channels or mixes examples.
pub fn resnet(depth: ResNet, input_shape: &[usize], classes: usize, norm: Norm) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let [.., x] = stages(b, "", depth, 32, norm)?;
    let x = global_pool(b, x)?;
    let x = default_linear(b, "fc", x, classes)?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// The outputs of the four stages, whose positions are at most `output_stride` pixels apart. Stages that would exceed it are dilated
/// rather than strided, and their first block keeps the dilation of the stage before.
pub(super) fn stages(
    b: &mut GraphBuilder,
    prefix: &str,
    depth: ResNet,
    output_stride: usize,
    norm: Norm,
) -> Result<[NodeId; 4], GraphError> {
    let stem = ConvSpec::new(64, Window::square(7).stride(2).padding(3));
    let x = b.conv(&format!("{prefix}conv1"), b.input(), stem)?;
    let x = norm.add(b, &format!("{prefix}bn1"), x)?;
    let x = b.add(&format!("{prefix}relu"), Activation::Relu, &[x])?;
    let pool = MaxPool(Window::square(3).stride(2).padding(1));
    let mut x = b.add(&format!("{prefix}maxpool"), pool, &[x])?;
    let mut outputs = [x; 4];
    let mut reach = Reach::new(4, output_stride);
    for (stage, &blocks) in depth.blocks().iter().enumerate() {
        let steps = reach.stage(if stage > 0 { 2 } else { 1 }, blocks);
        for (block, step) in steps.into_iter().enumerate() {
            b.block();
            let name = format!("{prefix}layer{}.{block}", stage + 1);
            x = residual(b, &name, x, 64 << stage, step, depth, norm)?;
        }
        outputs[stage] = x;
    }
    b.end_blocks();
    Ok(outputs)
}

/// One residual block: two 3x3 convolutions, or 1x1, 3x3 and 1x1 if the network has bottlenecks. The first 3x3 convolution has the stride
/// and the dilation.
fn residual(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    width: usize,
    BackboneStep { stride, dilation }: BackboneStep,
    depth: ResNet,
    norm: Norm,
) -> Result<NodeId, GraphError> {
    let out = width * depth.expansion();
    let strided = Window::square(3).stride(stride).padding(dilation).dilation(dilation);
    let pointwise = Window::square(1);
    let layers = match depth.expansion() {
        1 => vec![(width, strided), (out, Window::square(3).padding(1))],
        _ => vec![(width, pointwise.clone()), (width, strided), (out, pointwise)],
    };
    let count = layers.len();
    let mut x = input;
    for (index, (channels, window)) in layers.into_iter().enumerate() {
        x = b.conv(&format!("{name}.conv{}", index + 1), x, ConvSpec::new(channels, window))?;
        x = norm.add(b, &format!("{name}.bn{}", index + 1), x)?;
        if index + 1 < count {
            x = b.add(&format!("{name}.relu{}", index + 1), Activation::Relu, &[x])?;
        }
    }
    let mut shortcut = input;
    if stride != 1 || b.shape(input)[0] != out {
        let window = Window::square(1).stride(stride);
        shortcut = b.conv(&format!("{name}.downsample.0"), input, ConvSpec::new(out, window))?;
        shortcut = norm.add(b, &format!("{name}.downsample.1"), shortcut)?;
    }
    let sum = b.add(&format!("{name}.add"), Add, &[x, shortcut])?;
    b.add(&format!("{name}.relu"), Activation::Relu, &[sum])
}
