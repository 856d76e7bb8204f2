//! Wide residual networks (Zagoruyko and Komodakis 2016) in the form that trains well privately (De et al. 2022): group norm in place
//! of batch norm, and weight standardisation.

use super::{CLASSIFIER_LOSS, default_linear, global_pool};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::op::{Activation, Add, Window};

/// The depth and width of a wide residual network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WideResNet {
    /// 16 layers, width 4.
    W16x4,
    /// 40 layers, width 4.
    W40x4,
}

const GROUPS: usize = 16;
const STANDARDISE: f32 = 1e-5;

/// A wide residual network for samples of this shape.
///
/// # Errors
/// If the sample is no image.
pub fn wide_resnet(model: WideResNet, input_shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let blocks = match model {
        WideResNet::W16x4 => 2,
        WideResNet::W40x4 => 6,
    };
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let mut x = conv(b, "conv1", b.input(), 16, 3, 1)?;
    for stage in 0..3 {
        for block in 0..blocks {
            b.block();
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = residual(b, &format!("block{}.{block}", stage + 1), x, 64 << stage, stride)?;
        }
    }
    b.end_blocks();
    let x = norm_relu(b, "norm", x)?;
    let x = global_pool(b, x)?;
    let x = default_linear(b, "fc", x, classes)?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// A block that normalises before it convolves. If the width or the size changes, the shortcut is a convolution of the normalised input.
fn residual(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    width: usize,
    stride: usize,
) -> Result<NodeId, GraphError> {
    let active = norm_relu(b, &format!("{name}.norm1"), input)?;
    let x = conv(b, &format!("{name}.conv1"), active, width, 3, stride)?;
    let x = norm_relu(b, &format!("{name}.norm2"), x)?;
    let x = conv(b, &format!("{name}.conv2"), x, width, 3, 1)?;
    let shortcut = match b.shape(input)[0] == width && stride == 1 {
        true => input,
        false => conv(b, &format!("{name}.shortcut"), active, width, 1, stride)?,
    };
    b.add(&format!("{name}.add"), Add, &[x, shortcut])
}

fn norm_relu(b: &mut GraphBuilder, name: &str, input: NodeId) -> Result<NodeId, GraphError> {
    let x = b.group_norm(name, input, GROUPS)?;
    b.add(&format!("{name}.relu"), Activation::Relu, &[x])
}

fn conv(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    out: usize,
    size: usize,
    stride: usize,
) -> Result<NodeId, GraphError> {
    let window = Window::square(size).stride(stride).padding(size / 2);
    b.conv(name, input, ConvSpec::new(out, window).standardise(STANDARDISE))
}
