//! MobileNetV2 (Sandler et al. 2018), as torchvision builds it.

use super::backbone::{BackboneStep, Features, OutputStride, Reach};
use super::{CLASSIFIER_LOSS, Norm, global_pool};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::init::Init;
use crate::op::{Activation, Add, Dropout, Window};

/// The expansion, channels, blocks and stride of every stage.
const STAGES: [(usize, usize, usize, usize); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

/// The number of modules up to the low-level features, which a segmentation model reads at a quarter of the image's size.
const LOW_LEVEL: usize = 4;

/// MobileNetV2 for samples of this shape. A group norm has as many groups as the greatest common divisor of its channels and the number
/// asked for.
///
/// # Errors
/// If the sample is no image, or the norm has no groups or mixes examples.
pub fn mobilenet_v2(input_shape: &[usize], classes: usize, norm: Norm) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let modules = modules(b, |module| format!("features.{module}"), 32, norm)?;
    let x = modules.last().copied().unwrap_or(b.input());
    let x = active(b, "features.18", x, ConvSpec::new(1280, Window::square(1)), norm)?;
    let x = global_pool(b, x)?;
    let x = b.add("classifier.0", Dropout::of_values(0.2), &[x])?;
    let x = b.linear("classifier.1", x, classes, Init::Normal(0.01), Init::Constant(0.0))?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// The features that a segmentation model reads, with the names of DeepLabV3Plus-Pytorch.
pub(super) fn features(
    b: &mut GraphBuilder,
    output_stride: OutputStride,
    norm: Norm,
) -> Result<Features, GraphError> {
    let name = |module: usize| {
        let level = if module < LOW_LEVEL { "low" } else { "high" };
        format!("backbone.{level}_level_features.{module}")
    };
    let modules = modules(b, name, output_stride.pixels(), norm)?;
    let high_level = modules.last().copied().unwrap_or(b.input());
    Ok(Features { low_level: modules[LOW_LEVEL - 1], high_level })
}

/// The outputs of the stem and of every block.
fn modules(
    b: &mut GraphBuilder,
    name: impl Fn(usize) -> String,
    output_stride: usize,
    norm: Norm,
) -> Result<Vec<NodeId>, GraphError> {
    let stem = ConvSpec::new(32, Window::square(3).stride(2).padding(1));
    let mut x = active(b, &name(0), b.input(), stem, norm)?;
    let mut outputs = vec![x];
    let mut reach = Reach::new(2, output_stride);
    for (expansion, channels, blocks, stride) in STAGES {
        for step in reach.stage(stride, blocks) {
            b.block();
            x = inverted_residual(b, &name(outputs.len()), x, expansion, channels, step, norm)?;
            outputs.push(x);
        }
    }
    b.end_blocks();
    Ok(outputs)
}

/// A block that widens, convolves each channel by itself, and narrows again.
fn inverted_residual(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    expansion: usize,
    channels: usize,
    BackboneStep { stride, dilation }: BackboneStep,
    norm: Norm,
) -> Result<NodeId, GraphError> {
    let inputs = b.shape(input)[0];
    let width = inputs * expansion;
    let mut x = input;
    // The place in torchvision's sequence, in which a block without expansion lacks the first convolution.
    let mut place = 0;
    if expansion > 1 {
        x = active(b, &format!("{name}.conv.0"), x, ConvSpec::new(width, Window::square(1)), norm)?;
        place += 1;
    }
    let window = Window::square(3).stride(stride).padding(dilation).dilation(dilation);
    x = active(b, &format!("{name}.conv.{place}"), x, ConvSpec::new(width, window).groups(width), norm)?;
    x = b.conv(&format!("{name}.conv.{}", place + 1), x, ConvSpec::new(channels, Window::square(1)))?;
    x = norm.add_fitted(b, &format!("{name}.conv.{}", place + 2), x)?;
    match stride == 1 && inputs == channels {
        true => b.add(&format!("{name}.add"), Add, &[x, input]),
        false => Ok(x),
    }
}

/// A convolution with its norm and activation.
fn active(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    spec: ConvSpec,
    norm: Norm,
) -> Result<NodeId, GraphError> {
    let x = b.conv(&format!("{name}.0"), input, spec)?;
    let x = norm.add_fitted(b, &format!("{name}.1"), x)?;
    b.add(&format!("{name}.2"), Activation::Relu6, &[x])
}
