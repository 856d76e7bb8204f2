//! ConvNeXt (Liu et al. 2022) under the names of timm and torchvision.

use super::{CLASSIFIER_LOSS, LibraryNames, global_pool};
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::init::Init;
use crate::op::{Activation, Add, ChannelScale, NormAxes, Permute, Window};

/// How wide and deep a ConvNeXt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvNextSize {
    /// 96 to 768 channels, 18 blocks.
    Tiny,
    /// 96 to 768 channels, 36 blocks.
    Small,
    /// 128 to 1024 channels, 36 blocks.
    Base,
    /// 192 to 1536 channels, 36 blocks.
    Large,
}

impl ConvNextSize {
    /// The channels of the first stage, which double from stage to stage, and the number of blocks of each stage.
    fn numbers(self) -> (usize, [usize; 4]) {
        match self {
            Self::Tiny => (96, [3, 3, 9, 3]),
            Self::Small => (96, [3, 3, 27, 3]),
            Self::Base => (128, [3, 3, 27, 3]),
            Self::Large => (192, [3, 3, 27, 3]),
        }
    }
}

/// A ConvNeXt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvNext {
    /// How wide and deep it is.
    pub size: ConvNextSize,
    /// The library whose names its parameters have: timm or torchvision.
    pub names: LibraryNames,
}

impl ConvNext {
    /// The model that a name such as `convnext-t` stands for, with torchvision's names; `None` if there is no such model.
    pub fn named(name: &str) -> Option<Self> {
        let size = match name.strip_prefix("convnext-")? {
            "t" => ConvNextSize::Tiny,
            "s" => ConvNextSize::Small,
            "b" => ConvNextSize::Base,
            "l" => ConvNextSize::Large,
            _ => return None,
        };
        Some(Self { size, names: LibraryNames::Torchvision })
    }
}

/// The names that one library gives to the parts of a ConvNeXt.
struct ConvNextNames {
    stem: [&'static str; 2],
    /// The norm and the convolution before a stage.
    downsampling: fn(usize) -> [String; 2],
    block: fn(usize, usize) -> String,
    depthwise: &'static str,
    norm: &'static str,
    widening: &'static str,
    narrowing: &'static str,
    scale: &'static str,
    /// The shape in which the factors of a number of channels are stored.
    scale_shape: fn(usize) -> Vec<usize>,
    head: [&'static str; 2],
}

const TIMM: ConvNextNames = ConvNextNames {
    stem: ["stem.0", "stem.1"],
    downsampling: |stage| [0, 1].map(|part| format!("stages.{stage}.downsample.{part}")),
    block: |stage, block| format!("stages.{stage}.blocks.{block}"),
    depthwise: "conv_dw",
    norm: "norm",
    widening: "mlp.fc1",
    narrowing: "mlp.fc2",
    scale: "gamma",
    scale_shape: |channels| vec![channels],
    head: ["head.norm", "head.fc"],
};

const TORCHVISION: ConvNextNames = ConvNextNames {
    stem: ["features.0.0", "features.0.1"],
    downsampling: |stage| [0, 1].map(|part| format!("features.{}.{part}", 2 * stage)),
    block: |stage, block| format!("features.{}.{block}", 2 * stage + 1),
    depthwise: "block.0",
    norm: "block.2",
    widening: "block.3",
    narrowing: "block.5",
    scale: "layer_scale",
    scale_shape: |channels| vec![channels, 1, 1],
    head: ["classifier.0", "classifier.2"],
};

/// What a norm adds to the variance.
const EPS: f32 = 1e-6;
/// How fresh weights are drawn.
const WEIGHTS: Init = Init::Normal(0.02);
const ZERO: Init = Init::Constant(0.0);
/// The factor by which a fresh block is multiplied.
const FIRST_SCALE: f32 = 1e-6;
/// How many times wider a block is in its middle than at its ends.
const WIDER: usize = 4;

impl ConvNextNames {
    fn of(library: LibraryNames) -> Result<&'static Self, GraphError> {
        match library {
            LibraryNames::Timm => Ok(&TIMM),
            LibraryNames::Torchvision => Ok(&TORCHVISION),
            LibraryNames::OpenClip { .. } => {
                Err(GraphError::Names { model: "ConvNeXt", library: "OpenCLIP" })
            }
        }
    }
}

/// A ConvNeXt for samples of this shape, `[channels, height, width]`.
///
/// # Errors
/// If the sample is no image or is too small, or if the library is OpenCLIP, which has no such model.
pub fn convnext(model: ConvNext, input_shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let names = ConvNextNames::of(model.names)?;
    let (channels, blocks) = model.size.numbers();
    let [conv, norm] = names.stem;
    let x = b.conv(conv, b.input(), patches(channels, 4))?;
    let mut x = channel_norm(b, norm, x)?;
    for (stage, blocks) in blocks.into_iter().enumerate() {
        if stage > 0 {
            let [norm, conv] = (names.downsampling)(stage);
            x = channel_norm(b, &norm, x)?;
            x = b.conv(&conv, x, patches(channels << stage, 2))?;
        }
        for index in 0..blocks {
            x = block(b, &(names.block)(stage, index), x, names)?;
        }
    }
    b.end_blocks();
    let [norm, head] = names.head;
    let x = global_pool(b, x)?;
    let x = b.layer_norm(norm, x, EPS)?;
    let x = b.linear(head, x, classes, WEIGHTS, ZERO)?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// A convolution of patches that do not overlap.
fn patches(out: usize, side: usize) -> ConvSpec {
    ConvSpec { init: WEIGHTS, ..ConvSpec::new(out, Window::square(side).stride(side)).bias() }
}

/// A layer norm over the channels of each position of an image.
fn channel_norm(b: &mut GraphBuilder, name: &str, input: NodeId) -> Result<NodeId, GraphError> {
    b.layer_norm_over(name, input, NormAxes::Channels, EPS)
}

/// A block: a depthwise convolution and a two-layer network, whose result is scaled channel by channel and added to the input.
fn block(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    names: &ConvNextNames,
) -> Result<NodeId, GraphError> {
    let at = |part: &str| format!("{name}.{part}");
    let channels = b.shape(input)[0];
    b.block();
    let depthwise = ConvSpec::new(channels, Window::square(7).padding(3)).groups(channels).bias();
    let x = b.conv(&at(names.depthwise), input, ConvSpec { init: WEIGHTS, ..depthwise })?;
    let x = b.add(&at("last"), Permute(vec![1, 2, 0]), &[x])?;
    let x = b.layer_norm(&at(names.norm), x, EPS)?;
    let x = b.linear(&at(names.widening), x, WIDER * channels, WEIGHTS, ZERO)?;
    let x = b.add(&at("gelu"), Activation::Gelu, &[x])?;
    let x = b.linear(&at(names.narrowing), x, channels, WEIGHTS, ZERO)?;
    let scale = at(names.scale);
    let weight = b.parameter(&scale, &(names.scale_shape)(channels), Init::Constant(FIRST_SCALE), false)?;
    let x = b.add(&scale, ChannelScale { axis: 2, weight }, &[x])?;
    let x = b.add(&at("first"), Permute(vec![2, 0, 1]), &[x])?;
    b.add(&at("out"), Add, &[input, x])
}
