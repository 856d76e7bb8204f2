//! Models small enough to train from scratch in a minute.

use dapple_graph::op::{Activation, AdaptiveAvgPool, Reshape, Upsample};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, GraphError, Init, Loss, NodeId, Window};

const LOSS: Loss = Loss::CrossEntropy { label_smoothing: 0.0 };

/// Softmax regression: one linear layer on all pixels that starts from zero. Its loss is convex.
pub(super) fn linear(shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(shape);
    let pixels = builder.add("flatten", Reshape(vec![shape.iter().product()]), &[builder.input()])?;
    let output = builder.linear("fc", pixels, classes, Init::Constant(0.0), Init::Constant(0.0))?;
    builder.finish(output, LOSS)
}

/// A class for every pixel from 100 thousand parameters: two convolutions that halve the image, two dilated ones that look around, the
/// scores of each position, and their interpolation to the image's size. Images may have any size.
pub(super) fn fully_convolutional(shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(shape);
    let b = &mut builder;
    let x = active(b, "1", b.input(), 32, Window::square(3).stride(2).padding(1))?;
    let x = active(b, "2", x, 64, Window::square(3).stride(2).padding(1))?;
    let x = active(b, "3", x, 64, Window::square(3).padding(2).dilation(2))?;
    let x = active(b, "4", x, 64, Window::square(3).padding(4).dilation(4))?;
    let x = b.conv("classifier", x, ConvSpec::new(classes, Window::square(1)).bias())?;
    let output = match *b.shape(b.input()) {
        [_, height, width] => b.add("upsample", Upsample([height, width]), &[x])?,
        _ => x,
    };
    builder.finish(output, LOSS)
}

/// A class for a clip from 70 thousand parameters: four convolutions of three frames by three by three pixels, the first of which halves the
/// frames' sides and the next two the clip's length as well, and the mean over all positions. Clips may have any length and size.
pub(super) fn clip_network(shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(shape);
    let b = &mut builder;
    let window = |stride: [usize; 3]| Window { stride: stride.to_vec(), ..Window::new(3, 3).padding(1) };
    let x = active(b, "1", b.input(), 16, window([1, 2, 2]))?;
    let x = active(b, "2", x, 32, window([2, 2, 2]))?;
    let x = active(b, "3", x, 32, window([2, 2, 2]))?;
    let x = active(b, "4", x, 32, window([1, 1, 1]))?;
    let x = b.add("pool", AdaptiveAvgPool(vec![1; 3]), &[x])?;
    let x = b.add("flatten", Reshape(vec![32]), &[x])?;
    let output = b.linear("fc", x, classes, Init::UniformFanIn, Init::Constant(0.0))?;
    builder.finish(output, LOSS)
}

/// Channels in each group of a group norm.
const GROUP: usize = 8;

/// A convolution with group norm and activation.
fn active(
    b: &mut GraphBuilder,
    number: &str,
    input: NodeId,
    channels: usize,
    window: Window,
) -> Result<NodeId, GraphError> {
    let x = b.conv(&format!("conv{number}"), input, ConvSpec::new(channels, window))?;
    let x = b.group_norm(&format!("norm{number}"), x, channels / GROUP)?;
    b.add(&format!("relu{number}"), Activation::Relu, &[x])
}
