//! The model zoo. The names and shapes of parameters are those of the library that a model comes from, which its module says: torchvision
//! for most, so that published weights fit.

mod backbone;
mod convnext;
mod deeplab;
mod library_names;
mod mobilenet;
mod mvit;
mod psp_net;
mod resnet;
mod small_cnn;
mod small_hybrid;
mod vgg;
mod video_resnet;
mod vit;
mod wide_resnet;

pub use backbone::{BACKBONE_NAMES, Backbone, OutputStride, backbone_name};
pub use convnext::{ConvNext, ConvNextSize, convnext};
pub use deeplab::deeplab_v3_plus;
pub use library_names::LibraryNames;
pub use mobilenet::mobilenet_v2;
pub use mvit::{MvitSize, mvit_v2, mvit_v2_on_subsets};
pub use psp_net::psp_net;
pub use resnet::{ResNet, resnet};
pub use small_cnn::small_cnn;
pub use small_hybrid::small_hybrid;
pub use vgg::{Vgg, vgg};
pub use video_resnet::mc3;
pub(crate) use vit::IMAGE_TOWER;
pub use vit::{TokenPooling, VisionTransformer, VitSize, vision_transformer, vision_transformer_on_subsets};
pub use wide_resnet::{WideResNet, wide_resnet};

use crate::builder::GraphBuilder;
use crate::error::GraphError;
use crate::graph::NodeId;
use crate::init::Init;
use crate::loss::Loss;
use crate::op::{AdaptiveAvgPool, Reshape};

/// The loss of every model of the zoo, until [`crate::Graph::with_loss`] changes it.
const CLASSIFIER_LOSS: Loss = Loss::CrossEntropy { label_smoothing: 0.0 };

/// What a model has in the places where torchvision's has batch norms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norm {
    /// Batch norm with its stored statistics, in which nothing trains.
    Frozen,
    /// Nothing.
    Removed,
    /// Group norm with this many groups, and with the batch norm's names.
    Group(usize),
    /// Batch norm that computes its statistics from the batch. The validator refuses it, because it mixes examples.
    Batch,
}

impl Norm {
    fn add(self, builder: &mut GraphBuilder, name: &str, input: NodeId) -> Result<NodeId, GraphError> {
        match self {
            Self::Frozen => builder.batch_norm(name, input, false),
            Self::Batch => builder.batch_norm(name, input, true),
            Self::Group(groups) => builder.group_norm(name, input, groups),
            Self::Removed => Ok(input),
        }
    }

    /// Like [`Self::add`], for models whose widths differ so much that no one number of groups divides them all: a group norm takes the
    /// greatest common divisor of the number asked for and the channels.
    fn add_fitted(self, builder: &mut GraphBuilder, name: &str, input: NodeId) -> Result<NodeId, GraphError> {
        let channels = builder.shape(input).first().copied().unwrap_or(0);
        match self {
            Self::Group(groups) if groups > 0 => {
                Self::Group(greatest_common_divisor(groups, channels)).add(builder, name, input)
            }
            other => other.add(builder, name, input),
        }
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// A linear layer with PyTorch's default initialisation.
fn default_linear(
    builder: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    out: usize,
) -> Result<NodeId, GraphError> {
    let features = builder.shape(input).last().copied().unwrap_or(1);
    builder.linear(name, input, out, Init::UniformFanIn, Init::UniformInverseRoot(features))
}

/// Turns all values of a node into one vector, in row-major order.
fn flatten(builder: &mut GraphBuilder, name: &str, input: NodeId) -> Result<NodeId, GraphError> {
    let len = builder.shape(input).iter().product();
    builder.add(name, Reshape(vec![len]), &[input])
}

/// Takes the mean over all positions, as one vector of channels.
fn global_pool(builder: &mut GraphBuilder, input: NodeId) -> Result<NodeId, GraphError> {
    let rank = builder.shape(input).len().saturating_sub(1);
    let pooled = builder.add("avgpool", AdaptiveAvgPool(vec![1; rank]), &[input])?;
    flatten(builder, "flatten", pooled)
}
