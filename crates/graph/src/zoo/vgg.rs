//! VGG networks (Simonyan and Zisserman 2014), as torchvision builds them.

use super::{CLASSIFIER_LOSS, Norm, flatten};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::Graph;
use crate::init::Init;
use crate::op::{Activation, AdaptiveAvgPool, Dropout, MaxPool, Window};

/// The depth of a VGG network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vgg {
    /// 11 layers.
    V11,
    /// 16 layers.
    V16,
}

impl Vgg {
    /// The number of convolutions of each stage. The widths are 64, 128, 256, 512 and 512.
    fn stages(self) -> [usize; 5] {
        match self {
            Self::V11 => [1, 1, 2, 2, 2],
            Self::V16 => [2, 2, 3, 3, 3],
        }
    }
}

/// A VGG network for samples of this shape. `Norm::Removed` gives torchvision's plain models; the other norms stand where its `_bn` models
/// have theirs.
///
/// # Errors
/// If the sample is no image or is too small, or the norm does not suit the channels or mixes examples.
pub fn vgg(depth: Vgg, input_shape: &[usize], classes: usize, norm: Norm) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let mut x = b.input();
    // torchvision numbers all modules of one long sequence: convolutions, norms if there are any, activations and poolings.
    let mut module = 0;
    for (stage, &convolutions) in depth.stages().iter().enumerate() {
        for _ in 0..convolutions {
            let width = (64 << stage).min(512);
            let spec = ConvSpec::new(width, Window::square(3).padding(1)).bias();
            x = b.conv(&format!("features.{module}"), x, spec)?;
            module += 1;
            if norm != Norm::Removed {
                x = norm.add(b, &format!("features.{module}"), x)?;
                module += 1;
            }
            x = b.add(&format!("features.{module}"), Activation::Relu, &[x])?;
            module += 1;
        }
        x = b.add(&format!("features.{module}"), MaxPool(Window::square(2).stride(2)), &[x])?;
        module += 1;
    }
    x = b.add("avgpool", AdaptiveAvgPool(vec![7, 7]), &[x])?;
    x = flatten(b, "flatten", x)?;
    for (layer, out) in [(0, 4096), (3, 4096), (6, classes)] {
        let name = format!("classifier.{layer}");
        x = b.linear(&name, x, out, Init::Normal(0.01), Init::Constant(0.0))?;
        if layer < 6 {
            x = b.add(&format!("classifier.{}", layer + 1), Activation::Relu, &[x])?;
            x = b.add(&format!("classifier.{}", layer + 2), Dropout::of_values(0.5), &[x])?;
        }
    }
    builder.finish(x, CLASSIFIER_LOSS)
}
