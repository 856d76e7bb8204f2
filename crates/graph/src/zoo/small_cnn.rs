//! The small convolutional network with which private learning on MNIST is usually shown (Papernot et al. 2021).

use super::{CLASSIFIER_LOSS, default_linear, flatten};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::init::Init;
use crate::op::{Activation, MaxPool, Window};

/// Two convolutions (8x8 and 4x4, both of stride 2) with pooling, and two linear layers.
///
/// # Errors
/// If the sample is no image, or is too small.
pub fn small_cnn(input_shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let pool = || MaxPool(Window::square(2).stride(1));
    let x = conv(b, "conv1", b.input(), 16, Window::square(8).stride(2).padding(2))?;
    let x = b.add("relu1", Activation::Relu, &[x])?;
    let x = b.add("pool1", pool(), &[x])?;
    let x = conv(b, "conv2", x, 32, Window::square(4).stride(2))?;
    let x = b.add("relu2", Activation::Relu, &[x])?;
    let x = b.add("pool2", pool(), &[x])?;
    let x = flatten(b, "flatten", x)?;
    let x = default_linear(b, "fc1", x, 32)?;
    let x = b.add("relu3", Activation::Relu, &[x])?;
    let x = default_linear(b, "fc2", x, classes)?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// A convolution with bias and PyTorch's default initialisation.
fn conv(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    out: usize,
    window: Window,
) -> Result<NodeId, GraphError> {
    let fan_in = b.shape(input).first().copied().unwrap_or(1) * window.taps();
    let mut spec = ConvSpec::new(out, window).bias();
    spec.init = Init::UniformFanIn;
    spec.bias_init = Init::UniformInverseRoot(fan_in);
    b.conv(name, input, spec)
}
