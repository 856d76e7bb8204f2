//! Vision transformers (Dosovitskiy et al. 2021) with the names of timm, torchvision or OpenCLIP.

use super::CLASSIFIER_LOSS;
use crate::builder::{ConvSpec, GraphBuilder, LinearNames};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId, ParameterId};
use crate::init::Init;
use crate::op::{
    Activation, Add, Attention, Concat, MatMul, ParameterValue, Permute, Reshape, Slice, Window,
};

/// How wide and deep a vision transformer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VitSize {
    /// 192 features, 12 blocks, 3 heads.
    Tiny,
    /// 384 features, 12 blocks, 6 heads.
    Small,
    /// 768 features, 12 blocks, 12 heads.
    Base,
    /// 1024 features, 24 blocks, 16 heads.
    Large,
}

impl VitSize {
    /// The number of features, blocks and heads.
    fn numbers(self) -> (usize, usize, usize) {
        match self {
            Self::Tiny => (192, 12, 3),
            Self::Small => (384, 12, 6),
            Self::Base => (768, 12, 12),
            Self::Large => (1024, 24, 16),
        }
    }
}

/// Whose names, and whose small differences, a transformer's parameters follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VitDialect {
    /// `timm`: `blocks.0.attn.qkv.weight`, `head.weight`.
    Timm,
    /// `torchvision`: `encoder.layers.encoder_layer_0.self_attention.in_proj_weight`, `heads.head.weight`.
    Torchvision,
    /// The image tower of OpenCLIP: `visual.transformer.resblocks.0.attn.in_proj_weight`. Its patches have no bias, a norm stands before
    /// the blocks, and a projection to this many features behind them; `head` is ours.
    OpenClip {
        /// Features of the projection.
        projection: usize,
    },
}

/// What a classifier reads from the tokens that leave the last block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenPooling {
    /// The class token.
    ClassToken,
    /// The mean over all patches, normalised afterwards, as timm's `global_pool = "avg"` does.
    Mean,
}

/// A vision transformer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisionTransformer {
    /// How wide and deep it is.
    pub size: VitSize,
    /// The side of a patch in pixels.
    pub patch: usize,
    /// What the classifier reads.
    pub pooling: TokenPooling,
    /// Whose names its parameters have.
    pub dialect: VitDialect,
}

impl VisionTransformer {
    /// The model that a name such as `vit-b-16` stands for, with timm's names and a class token; `None` if there is no such model.
    pub fn named(name: &str) -> Option<Self> {
        let (size, patch) = name.strip_prefix("vit-")?.split_once('-')?;
        let size = match size {
            "ti" => VitSize::Tiny,
            "s" => VitSize::Small,
            "b" => VitSize::Base,
            "l" => VitSize::Large,
            _ => return None,
        };
        let patch = match patch {
            "8" => 8,
            "16" => 16,
            "32" => 32,
            _ => return None,
        };
        Some(Self { size, patch, pooling: TokenPooling::ClassToken, dialect: VitDialect::Timm })
    }
}

/// The names of what a transformer is made of, in one dialect.
struct VitNames {
    patches: &'static str,
    class_token: &'static str,
    positions: &'static str,
    norm_before: Option<&'static str>,
    block: fn(usize) -> String,
    first_norm: &'static str,
    /// The layer of queries, keys and values, and what stands between its name and `weight` or `bias`.
    queries: (&'static str, char),
    attention_output: &'static str,
    second_norm: &'static str,
    widening: &'static str,
    narrowing: &'static str,
    norm_after: &'static str,
    head: &'static str,
}

const TIMM: VitNames = VitNames {
    patches: "patch_embed.proj",
    class_token: "cls_token",
    positions: "pos_embed",
    norm_before: None,
    block: |index| format!("blocks.{index}"),
    first_norm: "norm1",
    queries: ("attn.qkv", '.'),
    attention_output: "attn.proj",
    second_norm: "norm2",
    widening: "mlp.fc1",
    narrowing: "mlp.fc2",
    norm_after: "norm",
    head: "head",
};

const TORCHVISION: VitNames = VitNames {
    patches: "conv_proj",
    class_token: "class_token",
    positions: "encoder.pos_embedding",
    norm_before: None,
    block: |index| format!("encoder.layers.encoder_layer_{index}"),
    first_norm: "ln_1",
    queries: ("self_attention.in_proj", '_'),
    attention_output: "self_attention.out_proj",
    second_norm: "ln_2",
    widening: "mlp.0",
    narrowing: "mlp.3",
    norm_after: "encoder.ln",
    head: "heads.head",
};

/// How the names of OpenCLIP's image tower begin. The same file also has a text tower.
pub(crate) const IMAGE_TOWER: &str = "visual.";

const OPEN_CLIP: VitNames = VitNames {
    patches: "visual.conv1",
    class_token: "visual.class_embedding",
    positions: "visual.positional_embedding",
    norm_before: Some("visual.ln_pre"),
    block: |index| format!("visual.transformer.resblocks.{index}"),
    first_norm: "ln_1",
    queries: ("attn.in_proj", '_'),
    attention_output: "attn.out_proj",
    second_norm: "ln_2",
    widening: "mlp.c_fc",
    narrowing: "mlp.c_proj",
    norm_after: "visual.ln_post",
    head: "head",
};

/// How fresh weights are drawn, whichever library's names they have.
const WEIGHTS: Init = Init::Normal(0.02);
const ZERO: Init = Init::Constant(0.0);
/// How many times wider the two-layer network of a block is than its tokens.
const WIDER: usize = 4;

impl VitDialect {
    fn names(self) -> &'static VitNames {
        match self {
            Self::Timm => &TIMM,
            Self::Torchvision => &TORCHVISION,
            Self::OpenClip { .. } => &OPEN_CLIP,
        }
    }

    /// Features that a projection may have: far more than any has, and few enough that sizes can be computed with them.
    pub const MAX_PROJECTION: usize = 1 << 16;

    /// What is added to the variance of a norm.
    fn eps(self) -> f32 {
        match self {
            Self::Timm | Self::Torchvision => 1e-6,
            Self::OpenClip { .. } => 1e-5,
        }
    }

    /// The dialect of a weights file, told by the names and shapes of its tensors; `None` where it is no vision transformer's.
    pub fn of<'a>(tensors: impl IntoIterator<Item = (&'a str, &'a [usize])>) -> Option<Self> {
        let mut found = None;
        for (name, shape) in tensors {
            match (name, shape) {
                ("patch_embed.proj.weight", _) => found = Some(Self::Timm),
                ("conv_proj.weight", _) => found = Some(Self::Torchvision),
                ("visual.proj", &[_, projection]) if (1..=Self::MAX_PROJECTION).contains(&projection) => {
                    found = Some(Self::OpenClip { projection });
                }
                _ => {}
            }
        }
        found
    }
}

/// A vision transformer for samples of this shape, `[channels, height, width]`.
///
/// # Errors
/// If the sample is no image, or is not a whole number of patches high and wide.
pub fn vision_transformer(
    model: VisionTransformer,
    input_shape: &[usize],
    classes: usize,
) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let b = &mut builder;
    let (names, eps) = (model.dialect.names(), model.dialect.eps());
    let (_, blocks, heads) = model.size.numbers();
    let mut x = tokens(b, model, input_shape)?;
    if let Some(norm) = names.norm_before {
        x = b.layer_norm(norm, x, eps)?;
    }
    for index in 0..blocks {
        x = block(b, &(names.block)(index), x, heads, model.dialect)?;
    }
    let x = pooled(b, model, x)?;
    let x = match model.dialect {
        VitDialect::OpenClip { projection } => projected(b, x, projection)?,
        _ => x,
    };
    let x = b.linear(names.head, x, classes, WEIGHTS, ZERO)?;
    builder.finish(x, CLASSIFIER_LOSS)
}

/// The class token followed by the tokens of all patches, each with its position added.
fn tokens(
    b: &mut GraphBuilder,
    model: VisionTransformer,
    input_shape: &[usize],
) -> Result<NodeId, GraphError> {
    let (names, (features, ..), patch) = (model.dialect.names(), model.size.numbers(), model.patch);
    let whole = |&side: &usize| patch > 0 && side.is_multiple_of(patch);
    if input_shape.len() != 3 || !input_shape[1..].iter().all(whole) {
        let reason = format!("an image of shape {input_shape:?} is not made of {patch} x {patch} patches");
        return Err(GraphError::Shape { node: names.patches.into(), op: "Conv2d", reason });
    }
    let mut patches = ConvSpec::new(features, Window::square(patch).stride(patch));
    patches.bias = !matches!(model.dialect, VitDialect::OpenClip { .. });
    patches.init = Init::UniformFanIn;
    let x = b.conv(names.patches, b.input(), patches)?;
    let grid = [b.shape(x)[1], b.shape(x)[2]];
    let count = grid[0] * grid[1];
    let x = b.add("patches.flat", Reshape(vec![features, count]), &[x])?;
    let x = b.add("patches", Permute(vec![1, 0]), &[x])?;
    // OpenCLIP stores both without the axis of batches that the others have.
    let stored = |rows: usize| match model.dialect {
        VitDialect::OpenClip { .. } if rows == 1 => vec![features],
        VitDialect::OpenClip { .. } => vec![rows, features],
        _ => vec![1, rows, features],
    };
    let class = b.parameter(names.class_token, &stored(1), WEIGHTS, false)?;
    let class = as_rows(b, names.class_token, class, [1, features])?;
    let x = b.add("tokens", Concat { axis: 0 }, &[class, x])?;
    let positions = b.parameter(names.positions, &stored(count + 1), WEIGHTS, false)?;
    b.positions(positions, grid);
    let positions = as_rows(b, names.positions, positions, [count + 1, features])?;
    b.add("positioned", Add, &[x, positions])
}

/// The value of a parameter as rows, whatever shape it is stored in.
fn as_rows(
    b: &mut GraphBuilder,
    name: &str,
    parameter: ParameterId,
    rows: [usize; 2],
) -> Result<NodeId, GraphError> {
    let value = b.add(name, ParameterValue(parameter), &[])?;
    match b.shape(value) == rows {
        true => Ok(value),
        false => b.add(&format!("{name}.rows"), Reshape(rows.to_vec()), &[value]),
    }
}

/// A block: attention and then a two-layer network, each of which normalises its input and is added to it.
fn block(
    b: &mut GraphBuilder,
    name: &str,
    input: NodeId,
    heads: usize,
    dialect: VitDialect,
) -> Result<NodeId, GraphError> {
    let (names, eps) = (dialect.names(), dialect.eps());
    let at = |part: &str| format!("{name}.{part}");
    let features = b.shape(input)[1];
    b.block();
    let y = b.layer_norm(&at(names.first_norm), input, eps)?;
    let (queries, joint) = names.queries;
    let queries = at(queries);
    let y = b.linear_named(
        LinearNames {
            node: &queries,
            weight: &format!("{queries}{joint}weight"),
            bias: Some(&format!("{queries}{joint}bias")),
        },
        y,
        3 * features,
        WEIGHTS,
        ZERO,
    )?;
    let y = b.add(&at("attention"), Attention { heads }, &[y])?;
    let y = b.linear(&at(names.attention_output), y, features, WEIGHTS, ZERO)?;
    let x = b.add(&at("attended"), Add, &[input, y])?;
    let y = b.layer_norm(&at(names.second_norm), x, eps)?;
    let y = b.linear(&at(names.widening), y, WIDER * features, WEIGHTS, ZERO)?;
    let y = b.add(&at("mlp.gelu"), Activation::Gelu, &[y])?;
    let y = b.linear(&at(names.narrowing), y, features, WEIGHTS, ZERO)?;
    b.add(&at("out"), Add, &[x, y])
}

/// The normalised vector that the classifier reads.
fn pooled(b: &mut GraphBuilder, model: VisionTransformer, x: NodeId) -> Result<NodeId, GraphError> {
    let (names, eps) = (model.dialect.names(), model.dialect.eps());
    let (tokens, features) = (b.shape(x)[0], b.shape(x)[1]);
    match model.pooling {
        TokenPooling::ClassToken => {
            // Each token is normalised by itself, so only the one that is read needs it.
            let x = b.add("class", Slice { axis: 0, start: 0, end: 1 }, &[x])?;
            let x = b.add("class.flat", Reshape(vec![features]), &[x])?;
            b.layer_norm(names.norm_after, x, eps)
        }
        TokenPooling::Mean => {
            let x = b.add("patches.out", Slice { axis: 0, start: 1, end: tokens }, &[x])?;
            let x = b.add("patches.channels", Permute(vec![1, 0]), &[x])?;
            let x = b.add("patches.image", Reshape(vec![features, tokens - 1, 1]), &[x])?;
            let x = super::global_pool(b, x)?;
            let norm = if model.dialect == VitDialect::Timm { "fc_norm" } else { names.norm_after };
            b.layer_norm(norm, x, eps)
        }
    }
}

/// OpenCLIP's projection, whose weight is stored as `[features, projection]`.
fn projected(b: &mut GraphBuilder, x: NodeId, projection: usize) -> Result<NodeId, GraphError> {
    let features = b.shape(x)[0];
    let weight = b.parameter("visual.proj", &[features, projection], WEIGHTS, false)?;
    let weight = b.add("visual.proj", ParameterValue(weight), &[])?;
    let x = b.add("visual.row", Reshape(vec![1, features]), &[x])?;
    let x = b.add("visual.projected", MatMul { transpose: false }, &[x, weight])?;
    b.add("visual.features", Reshape(vec![projection]), &[x])
}
