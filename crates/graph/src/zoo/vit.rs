//! Vision transformers (Dosovitskiy et al. 2021) with the names of timm, torchvision or OpenCLIP.

use super::{CLASSIFIER_LOSS, LibraryNames};
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
    /// The library whose names its parameters have.
    pub names: LibraryNames,
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
        let patch = match (size, patch) {
            // Patches of this size are for images of 32 x 32 pixels, of which larger patches would leave too few tokens.
            (VitSize::Tiny | VitSize::Small, "4") => 4,
            (_, "8") => 8,
            (_, "16") => 16,
            (_, "32") => 32,
            _ => return None,
        };
        Some(Self { size, patch, pooling: TokenPooling::ClassToken, names: LibraryNames::Timm })
    }
}

/// The names that one library gives to the parts of a transformer.
struct VitNames {
    patches: &'static str,
    class_token: &'static str,
    positions: &'static str,
    norm_before: Option<&'static str>,
    block: fn(usize) -> String,
    /// The norms before attention and before the two-layer network.
    norms: [&'static str; 2],
    /// The layer of queries, keys and values, and the character between its name and `weight` or `bias`.
    queries: (&'static str, char),
    attention_output: &'static str,
    /// The widening and the narrowing layer of the two-layer network.
    network: [&'static str; 2],
    norm_after: &'static str,
    head: &'static str,
}

const TIMM: VitNames = VitNames {
    patches: "patch_embed.proj",
    class_token: "cls_token",
    positions: "pos_embed",
    norm_before: None,
    block: |index| format!("blocks.{index}"),
    norms: ["norm1", "norm2"],
    queries: ("attn.qkv", '.'),
    attention_output: "attn.proj",
    network: ["mlp.fc1", "mlp.fc2"],
    norm_after: "norm",
    head: "head",
};

const TORCHVISION: VitNames = VitNames {
    patches: "conv_proj",
    class_token: "class_token",
    positions: "encoder.pos_embedding",
    norm_before: None,
    block: |index| format!("encoder.layers.encoder_layer_{index}"),
    norms: ["ln_1", "ln_2"],
    queries: ("self_attention.in_proj", '_'),
    attention_output: "self_attention.out_proj",
    network: ["mlp.0", "mlp.3"],
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
    norms: ["ln_1", "ln_2"],
    queries: ("attn.in_proj", '_'),
    attention_output: "attn.out_proj",
    network: ["mlp.c_fc", "mlp.c_proj"],
    norm_after: "visual.ln_post",
    head: "head",
};

/// How fresh weights are drawn, whichever library's names they have.
const WEIGHTS: Init = Init::Normal(0.02);
const ZERO: Init = Init::Constant(0.0);
/// How many times wider the two-layer network of a block is than its tokens.
const WIDER: usize = 4;

impl VitNames {
    fn of(library: LibraryNames) -> &'static Self {
        match library {
            LibraryNames::Timm => &TIMM,
            LibraryNames::Torchvision => &TORCHVISION,
            LibraryNames::OpenClip { .. } => &OPEN_CLIP,
        }
    }
}

/// What a norm adds to the variance.
fn eps(library: LibraryNames) -> f32 {
    match library {
        LibraryNames::Timm | LibraryNames::Torchvision => 1e-6,
        LibraryNames::OpenClip { .. } => 1e-5,
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
    let image = builder.input();
    let output = classified(&mut builder, model, (image, None), classes)?;
    builder.finish(output, CLASSIFIER_LOSS)
}

/// The same model on a subset of the patches, which every sample tells: as if it had the class token and the tokens of these patches
/// alone, each at its own position. It has the parameters of [`vision_transformer`].
///
/// # Shapes
/// A sample is a vector: the image, then a one for the class token, then for each patch, row by row, one over the number of patches in the
/// subset, or zero if the patch is not among them. An image patch that is not must hold finite numbers, but nothing depends on them.
///
/// # Errors
/// Those of [`vision_transformer`].
pub fn vision_transformer_on_subsets(
    model: VisionTransformer,
    input_shape: &[usize],
    classes: usize,
) -> Result<Graph, GraphError> {
    let pixels: usize = input_shape.iter().product();
    let patches: usize = input_shape.iter().skip(1).map(|side| side / model.patch.max(1)).product();
    let end = pixels + 1 + patches;
    let mut builder = GraphBuilder::new(&[end]);
    let b = &mut builder;
    let image = b.add("image.flat", Slice { axis: 0, start: 0, end: pixels }, &[b.input()])?;
    let image = b.add("image", Reshape(input_shape.to_vec()), &[image])?;
    let shares = b.add("shares", Slice { axis: 0, start: pixels, end }, &[b.input()])?;
    let output = classified(b, model, (image, Some(shares)), classes)?;
    builder.finish(output, CLASSIFIER_LOSS)
}

/// What the model says about an image, or about the patches that have a share in it.
fn classified(
    b: &mut GraphBuilder,
    model: VisionTransformer,
    (image, shares): (NodeId, Option<NodeId>),
    classes: usize,
) -> Result<NodeId, GraphError> {
    let (names, eps) = (VitNames::of(model.names), eps(model.names));
    let (_, blocks, heads) = model.size.numbers();
    let mut x = tokens(b, model, image)?;
    if let Some(norm) = names.norm_before {
        x = b.layer_norm(norm, x, eps)?;
    }
    for index in 0..blocks {
        x = block(b, &(names.block)(index), (x, shares), heads, model.names)?;
    }
    b.end_blocks();
    let x = pooled(b, model, (x, shares))?;
    let x = match model.names {
        LibraryNames::OpenClip { projection } => projected(b, x, projection)?,
        _ => x,
    };
    b.linear(names.head, x, classes, WEIGHTS, ZERO)
}

/// The class token followed by the tokens of all patches, each with its position added.
fn tokens(b: &mut GraphBuilder, model: VisionTransformer, image: NodeId) -> Result<NodeId, GraphError> {
    let input_shape = b.shape(image).to_vec();
    let (names, (features, ..), patch) = (VitNames::of(model.names), model.size.numbers(), model.patch);
    let whole = |&side: &usize| patch > 0 && side.is_multiple_of(patch);
    if input_shape.len() != 3 || !input_shape[1..].iter().all(whole) {
        let reason = format!("an image of shape {input_shape:?} is not made of {patch} x {patch} patches");
        return Err(GraphError::Shape { node: names.patches.into(), op: "Conv2d", reason });
    }
    let mut patches = ConvSpec::new(features, Window::square(patch).stride(patch));
    patches.bias = !matches!(model.names, LibraryNames::OpenClip { .. });
    patches.init = Init::UniformFanIn;
    let x = b.conv(names.patches, image, patches)?;
    let grid = [b.shape(x)[1], b.shape(x)[2]];
    let x = tokens_of_image(b, x)?;
    // OpenCLIP stores the class token and the positions without the batch axis that the others have.
    let stored = |rows: usize| match model.names {
        LibraryNames::OpenClip { .. } if rows == 1 => vec![features],
        LibraryNames::OpenClip { .. } => vec![rows, features],
        _ => vec![1, rows, features],
    };
    let class = b.parameter(names.class_token, &stored(1), WEIGHTS, false)?;
    let class = as_rows(b, names.class_token, class, [1, features])?;
    let x = b.add("tokens", Concat { axis: 0 }, &[class, x])?;
    let count = b.shape(x)[0];
    with_positions(b, names.positions, x, &stored(count), grid)
}

/// Turns every position of an image into a token, row by row: `[features, height, width] -> [tokens, features]`.
pub(super) fn tokens_of_image(b: &mut GraphBuilder, x: NodeId) -> Result<NodeId, GraphError> {
    let (features, count) = (b.shape(x)[0], b.shape(x)[1..].iter().product());
    let x = b.add("patches.flat", Reshape(vec![features, count]), &[x])?;
    b.add("patches", Permute(vec![1, 0]), &[x])
}

/// Adds to every token the vector that stands for its position. The last tokens are those of a grid of this height and width.
pub(super) fn with_positions(
    b: &mut GraphBuilder,
    name: &str,
    x: NodeId,
    stored: &[usize],
    grid: [usize; 2],
) -> Result<NodeId, GraphError> {
    let rows = [b.shape(x)[0], b.shape(x)[1]];
    let positions = b.parameter(name, stored, WEIGHTS, false)?;
    b.positions(positions, grid);
    let positions = as_rows(b, name, positions, rows)?;
    b.add("positioned", Add, &[x, positions])
}

/// Gives the value of a parameter the shape of rows, whatever shape it is stored in.
pub(super) fn as_rows(
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

/// A block: attention and then a two-layer network, each of which normalises its input and is added to it. If tokens have shares, nobody
/// attends to those without one.
pub(super) fn block(
    b: &mut GraphBuilder,
    name: &str,
    (input, shares): (NodeId, Option<NodeId>),
    heads: usize,
    library: LibraryNames,
) -> Result<NodeId, GraphError> {
    let (names, eps) = (VitNames::of(library), eps(library));
    let at = |part: &str| format!("{name}.{part}");
    let features = b.shape(input)[1];
    b.block();
    let y = b.layer_norm(&at(names.norms[0]), input, eps)?;
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
    let attended: Vec<NodeId> = std::iter::once(y).chain(shares).collect();
    let y = b.add(&at("attention"), Attention { heads }, &attended)?;
    let y = b.linear(&at(names.attention_output), y, features, WEIGHTS, ZERO)?;
    let x = b.add(&at("attended"), Add, &[input, y])?;
    let y = b.layer_norm(&at(names.norms[1]), x, eps)?;
    let y = b.linear(&at(names.network[0]), y, WIDER * features, WEIGHTS, ZERO)?;
    let y = b.add(&at("mlp.gelu"), Activation::Gelu, &[y])?;
    let y = b.linear(&at(names.network[1]), y, features, WEIGHTS, ZERO)?;
    b.add(&at("out"), Add, &[x, y])
}

/// The normalised vector that the classifier reads.
fn pooled(
    b: &mut GraphBuilder,
    model: VisionTransformer,
    (x, shares): (NodeId, Option<NodeId>),
) -> Result<NodeId, GraphError> {
    let (names, eps) = (VitNames::of(model.names), eps(model.names));
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
            let x = match shares {
                None => mean_token(b, x)?,
                Some(shares) => {
                    let shares =
                        b.add("patches.shares", Slice { axis: 0, start: 1, end: tokens }, &[shares])?;
                    let shares = b.add("patches.share.row", Reshape(vec![1, tokens - 1]), &[shares])?;
                    let x = b.add("patches.mean.row", MatMul { transpose: false }, &[shares, x])?;
                    b.add("patches.mean", Reshape(vec![features]), &[x])?
                }
            };
            let norm = if model.names == LibraryNames::Timm { "fc_norm" } else { names.norm_after };
            b.layer_norm(norm, x, eps)
        }
    }
}

/// The mean over all tokens: `[tokens, features] -> [features]`.
pub(super) fn mean_token(b: &mut GraphBuilder, x: NodeId) -> Result<NodeId, GraphError> {
    let (tokens, features) = (b.shape(x)[0], b.shape(x)[1]);
    let x = b.add("patches.channels", Permute(vec![1, 0]), &[x])?;
    let x = b.add("patches.image", Reshape(vec![features, tokens, 1]), &[x])?;
    super::global_pool(b, x)
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
