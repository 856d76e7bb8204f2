//! MViTv2 for clips (Li et al. 2022) with the names of torchvision.

use super::CLASSIFIER_LOSS;
use super::vit::as_rows;
use crate::builder::{ConvSpec, GraphBuilder};
use crate::error::GraphError;
use crate::graph::{Graph, NodeId};
use crate::init::Init;
use crate::op::{Activation, Add, Concat, MaxPool, Permute, Reshape, Slice, Window};

/// How deep an MViTv2 is. Both have 96 to 768 features and one to eight heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MvitSize {
    /// 16 blocks.
    Small,
    /// 24 blocks.
    Base,
}

impl MvitSize {
    /// The model that a name such as `mvit-v2-s` stands for; `None` if there is no such model.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "mvit-v2-s" => Some(Self::Small),
            "mvit-v2-b" => Some(Self::Base),
            _ => None,
        }
    }

    /// The number of blocks of each stage.
    fn stages(self) -> [usize; 4] {
        match self {
            Self::Small => [1, 2, 11, 2],
            Self::Base => [2, 3, 16, 3],
        }
    }
}

/// The number of features of a head, the same in every stage. The first stage has one head.
const HEAD: usize = 96;
/// How many rows and columns apart the keys of the first stage are. Each stage halves this distance.
const FIRST_KEY_STRIDE: usize = 8;
/// How many frames, rows and columns apart the patches are.
const PATCH_STRIDE: [usize; 3] = [2, 4, 4];
/// What a norm adds to the variance.
const EPS: f32 = 1e-6;
const WEIGHTS: Init = Init::Normal(0.02);
const ZERO: Init = Init::Constant(0.0);
/// How many times wider the two-layer network of a block is than its tokens.
const WIDER: usize = 4;

/// A class token followed by the tokens of a grid.
#[derive(Clone, Copy)]
struct Tokens {
    node: NodeId,
    /// The shares of the tokens, if the model is of a subset of them.
    shares: Option<NodeId>,
    grid: [usize; 3],
    /// The size that torchvision assumes for the grid when it sizes tables: it rounds down when it halves an odd size.
    counted: [usize; 3],
}

/// What one block is made of.
#[derive(Clone, Copy)]
struct Block {
    heads: usize,
    /// How many rows and columns apart the positions are that pooling keeps, for queries and for keys and values.
    query_stride: usize,
    key_stride: usize,
}

/// An MViTv2 for clips of this shape, `[channels, frames, height, width]`.
///
/// It computes what torchvision's model computes in evaluation. The dropout and the stochastic depth that torchvision trains with are left
/// out.
///
/// # Errors
/// If the clip is not a whole number of patches long, high and wide (a patch is two frames of four by four pixels), or if both its height
/// and its width are less than 32 pixels.
pub fn mvit_v2(size: MvitSize, input_shape: &[usize], classes: usize) -> Result<Graph, GraphError> {
    let mut builder = GraphBuilder::new(input_shape);
    let clip = builder.input();
    let output = classified(&mut builder, size, (clip, None), classes)?;
    builder.finish(output, CLASSIFIER_LOSS)
}

/// The same model on a subset of the patches, which every sample tells. It has the parameters of [`mvit_v2`].
///
/// Nobody attends to a key of which no patch of the subset was pooled. A patch that is not in the subset is still there for the filters that
/// pool its neighbours, so what it shows must be blank.
///
/// # Shapes
/// A sample is a vector: the clip, then a number for the class token, then one for each patch, time after time and row by row. Those of the
/// class token and of patches in the subset are positive; the others are zero.
///
/// # Errors
/// Those of [`mvit_v2`].
pub fn mvit_v2_on_subsets(
    size: MvitSize,
    input_shape: &[usize],
    classes: usize,
) -> Result<Graph, GraphError> {
    let values: usize = input_shape.iter().product();
    let patches: usize =
        input_shape.iter().skip(1).zip(PATCH_STRIDE).map(|(size, stride)| size / stride).product();
    let end = values + 1 + patches;
    let mut builder = GraphBuilder::new(&[end]);
    let b = &mut builder;
    let clip = b.add("clip.flat", Slice { axis: 0, start: 0, end: values }, &[b.input()])?;
    let clip = b.add("clip", Reshape(input_shape.to_vec()), &[clip])?;
    let shares = b.add("shares", Slice { axis: 0, start: values, end }, &[b.input()])?;
    let output = classified(b, size, (clip, Some(shares)), classes)?;
    builder.finish(output, CLASSIFIER_LOSS)
}

/// What the model says about a clip, or about the patches that have a share in it.
fn classified(
    b: &mut GraphBuilder,
    size: MvitSize,
    (clip, shares): (NodeId, Option<NodeId>),
    classes: usize,
) -> Result<NodeId, GraphError> {
    let mut tokens = Tokens { shares, ..patches(b, clip)? };
    let mut index = 0;
    for (stage, blocks) in size.stages().into_iter().enumerate() {
        for first in (0..blocks).map(|block| block == 0) {
            let query_stride = if first && stage > 0 { 2 } else { 1 };
            let block = Block { heads: 1 << stage, query_stride, key_stride: FIRST_KEY_STRIDE >> stage };
            tokens = block.add(b, &format!("blocks.{index}"), tokens)?;
            index += 1;
        }
    }
    b.end_blocks();
    let x = b.add("class.row", Slice { axis: 0, start: 0, end: 1 }, &[tokens.node])?;
    let x = super::flatten(b, "class", x)?;
    let x = b.layer_norm("norm", x, EPS)?;
    b.linear("head.1", x, classes, WEIGHTS, ZERO)
}

/// The class token followed by the tokens of all patches, which overlap.
fn patches(b: &mut GraphBuilder, clip: NodeId) -> Result<Tokens, GraphError> {
    const PATCHES: &str = "conv_proj";
    const CLASS: &str = "pos_encoding.class_token";
    let input_shape = b.shape(clip).to_vec();
    let whole = |(size, stride): (&usize, usize)| size.is_multiple_of(stride);
    if input_shape.len() != 4 || !input_shape[1..].iter().zip(PATCH_STRIDE).all(whole) {
        let reason = format!("a clip of shape {input_shape:?} is not made of patches of {PATCH_STRIDE:?}");
        return Err(GraphError::Shape { node: PATCHES.into(), op: "Conv3d", reason });
    }
    let window = Window {
        kernel: vec![3, 7, 7],
        stride: PATCH_STRIDE.to_vec(),
        padding: vec![1, 3, 3],
        dilation: vec![1; 3],
    };
    let fan_in = input_shape[0] * window.taps();
    let mut spec = ConvSpec::new(HEAD, window).bias();
    (spec.init, spec.bias_init) = (Init::UniformFanIn, Init::UniformInverseRoot(fan_in));
    let x = b.conv(PATCHES, clip, spec)?;
    let grid = [1, 2, 3].map(|axis| b.shape(x)[axis]);
    let x = as_tokens(b, "patches", x)?;
    let class = b.parameter(CLASS, &[HEAD], WEIGHTS, false)?;
    let class = as_rows(b, CLASS, class, [1, HEAD])?;
    let node = b.add("tokens", Concat { axis: 0 }, &[class, x])?;
    Ok(Tokens { node, shares: None, grid, counted: grid })
}

/// Turns the positions of a clip into tokens, with their channels as features.
fn as_tokens(b: &mut GraphBuilder, name: &str, x: NodeId) -> Result<NodeId, GraphError> {
    let (channels, positions) = (b.shape(x)[0], b.shape(x)[1..].iter().product());
    let x = b.add(&format!("{name}.flat"), Reshape(vec![channels, positions]), &[x])?;
    b.add(name, Permute(vec![1, 0]), &[x])
}

/// A window of this size that moves by `stride` rows and columns over a grid.
fn window(stride: usize, size: [usize; 3]) -> Window {
    Window {
        kernel: size.to_vec(),
        stride: vec![1, stride, stride],
        padding: size.map(|size| size / 2).to_vec(),
        dilation: vec![1; 3],
    }
}

impl Block {
    /// Adds a block: attention and then a two-layer network. Each normalises its input and is added to it; what attention is added to is
    /// pooled like the queries.
    fn add(self, b: &mut GraphBuilder, name: &str, tokens: Tokens) -> Result<Tokens, GraphError> {
        let at = |part: &str| format!("{name}.{part}");
        let features = self.heads * HEAD;
        b.block();
        let normed = b.layer_norm(&at("norm1"), tokens.node, EPS)?;
        let (attended, new) = self.attention(b, &at("attn"), Tokens { node: normed, ..tokens })?;
        let mut skip = tokens.node;
        if b.shape(skip)[1] != features {
            skip = b.linear(&at("project"), normed, features, WEIGHTS, ZERO)?;
        }
        if self.query_stride > 1 {
            skip = self.max_pool(b, &at("pool_skip"), Tokens { node: skip, ..tokens })?;
        }
        let x = b.add(&at("attended"), Add, &[skip, attended])?;
        let y = b.layer_norm(&at("norm2"), x, EPS)?;
        let y = b.linear(&at("mlp.0"), y, WIDER * features, WEIGHTS, ZERO)?;
        let y = b.add(&at("mlp.1"), Activation::Gelu, &[y])?;
        let y = b.linear(&at("mlp.3"), y, features, WEIGHTS, ZERO)?;
        let node = b.add(name, Add, &[x, y])?;
        Ok(Tokens { node, ..new })
    }

    /// Adds the attention of pooled queries, keys and values. Returns its node, and the pooled queries, in whose grid its tokens lie.
    fn attention(
        self,
        b: &mut GraphBuilder,
        name: &str,
        tokens: Tokens,
    ) -> Result<(NodeId, Tokens), GraphError> {
        let at = |part: &str| format!("{name}.{part}");
        let features = self.heads * HEAD;
        let qkv = b.linear(&at("qkv"), tokens.node, 3 * features, WEIGHTS, ZERO)?;
        let mut part = |index: usize, stride: usize, shares: Option<NodeId>| {
            let letter = ["q", "k", "v"][index];
            let (start, end) = (index * features, (index + 1) * features);
            let node = b.add(&at(letter), Slice { axis: 1, start, end }, &[qkv])?;
            self.pool(b, &at(&format!("pool_{letter}")), Tokens { node, shares, ..tokens }, stride)
        };
        let query = part(0, self.query_stride, tokens.shares)?;
        let (key, value) = (part(1, self.key_stride, tokens.shares)?, part(2, self.key_stride, None)?);
        let side = tokens.counted[1].max(tokens.counted[2]);
        let longest = (side / self.query_stride).max(side / self.key_stride);
        let rows = [tokens.counted[0], longest, longest].map(|places| (2 * places).saturating_sub(1));
        let inputs: Vec<NodeId> = [query.node, key.node, value.node].into_iter().chain(key.shares).collect();
        let x = b.pooled_attention(name, &inputs, self.heads, [query.grid, key.grid], rows)?;
        Ok((b.linear(&at("project.0"), x, features, WEIGHTS, ZERO)?, query))
    }

    /// Convolves the tokens after the class token, with the same filters for every head, and normalises each head of each token.
    fn pool(
        self,
        b: &mut GraphBuilder,
        name: &str,
        tokens: Tokens,
        stride: usize,
    ) -> Result<Tokens, GraphError> {
        let at = |part: &str| format!("{name}.{part}");
        let x = b.token_conv(&at("pool"), tokens.node, tokens.grid, window(stride, [3; 3]), self.heads)?;
        let shape = b.shape(x).to_vec();
        let x = b.add(&at("heads"), Reshape(vec![shape[0] * self.heads, HEAD]), &[x])?;
        let x = b.layer_norm(&at("norm_act.0"), x, EPS)?;
        let node = b.add(name, Reshape(shape), &[x])?;
        let ([frames, height, width], [_, rows, columns]) = (tokens.grid, tokens.counted);
        let grid = [frames, height.div_ceil(stride), width.div_ceil(stride)];
        let shares = match tokens.shares {
            Some(shares) if stride > 1 => Some(pooled_shares(b, name, (shares, tokens.grid), stride)?),
            same => same,
        };
        Ok(Tokens { node, shares, grid, counted: [frames, rows / stride, columns / stride] })
    }

    /// Takes the largest value of every window over the tokens after the class token.
    fn max_pool(self, b: &mut GraphBuilder, name: &str, tokens: Tokens) -> Result<NodeId, GraphError> {
        let at = |part: &str| format!("{name}.{part}");
        let (rows, features) = (b.shape(tokens.node)[0], b.shape(tokens.node)[1]);
        let class = b.add(&at("class"), Slice { axis: 0, start: 0, end: 1 }, &[tokens.node])?;
        let x = b.add(&at("patches"), Slice { axis: 0, start: 1, end: rows }, &[tokens.node])?;
        let x = b.add(&at("channels"), Permute(vec![1, 0]), &[x])?;
        let [frames, height, width] = tokens.grid;
        let x = b.add(&at("clip"), Reshape(vec![features, frames, height, width]), &[x])?;
        let size = self.query_stride + 1;
        let x = b.add(&at("pool"), MaxPool(window(self.query_stride, [1, size, size])), &[x])?;
        let x = as_tokens(b, &at("tokens"), x)?;
        b.add(name, Concat { axis: 0 }, &[class, x])
    }
}

/// The shares of pooled tokens: what is pooled belongs to the subset if anything does that its filter reads in its own frame.
fn pooled_shares(
    b: &mut GraphBuilder,
    name: &str,
    (shares, [frames, height, width]): (NodeId, [usize; 3]),
    stride: usize,
) -> Result<NodeId, GraphError> {
    let at = |part: &str| format!("{name}.shares.{part}");
    let places = frames * height * width;
    let class = b.add(&at("class"), Slice { axis: 0, start: 0, end: 1 }, &[shares])?;
    let x = b.add(&at("patches"), Slice { axis: 0, start: 1, end: 1 + places }, &[shares])?;
    let x = b.add(&at("clip"), Reshape(vec![1, frames, height, width]), &[x])?;
    let x = b.add(&at("pool"), MaxPool(window(stride, [1, 3, 3])), &[x])?;
    let x = super::flatten(b, &at("pooled"), x)?;
    b.add(&format!("{name}.shares"), Concat { axis: 0 }, &[class, x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Parameter;
    use crate::tune::Tuning;

    fn parameters(graph: &Graph) -> usize {
        graph.parameters().iter().map(Parameter::len).sum()
    }

    /// The small model's number is the one that torchvision 0.24 documents for its weights. The base model's is that of a torchvision model
    /// built with the same blocks.
    #[test]
    fn models_have_as_many_parameters_as_torchvision_counts() {
        let small = mvit_v2(MvitSize::Small, &[3, 16, 224, 224], 400).unwrap();
        assert_eq!(parameters(&small), 34_537_744);
        let base = mvit_v2(MvitSize::Base, &[3, 32, 224, 224], 400).unwrap();
        assert_eq!(parameters(&base), 51_230_128);
    }

    /// What fine-tunes it for NTU RGB+D's 60 classes in about 50 thousand parameters: the last layer and the norms of the last two blocks.
    #[test]
    fn the_last_layer_and_the_norms_of_two_blocks_are_few_parameters() {
        for (classes, expected) in [(60, 54_204), (101, 85_733), (51, 47_283), (31, 31_903)] {
            let mut small = mvit_v2(MvitSize::Small, &[3, 16, 224, 224], classes).unwrap();
            let last = |name: &str| {
                let block = ["blocks.14.", "blocks.15."].iter().find_map(|block| name.strip_prefix(block));
                name.starts_with("head.")
                    || name.starts_with("norm.")
                    || block.is_some_and(|part| part.starts_with("norm") || part.contains(".norm_act."))
            };
            small.set_trainable(last);
            assert_eq!(small.trainable_len(), expected);
        }
    }

    #[test]
    fn tables_have_the_sizes_that_torchvision_gives_them() {
        let graph = mvit_v2(MvitSize::Small, &[3, 4, 40, 72], 5).unwrap();
        let rows = |name: &str| graph.parameter(graph.find_parameter(name).unwrap()).shape[0];
        // 18 columns become 9, 5 and 3, which torchvision counts as 9, 4 and 2.
        assert_eq!(rows("blocks.0.attn.rel_pos_h"), 35);
        assert_eq!(rows("blocks.4.attn.rel_pos_w"), 7);
        assert_eq!(rows("blocks.15.attn.rel_pos_w"), 3);
        assert_eq!(rows("blocks.15.attn.rel_pos_t"), 3);
    }

    #[test]
    fn clips_of_no_whole_patches_are_refused() {
        for (shape, fits) in [
            (&[3, 4, 32, 32][..], true),
            (&[1, 2, 36, 32], true),
            (&[3, 4, 4, 32], true),
            (&[3, 3, 32, 32], false),
            (&[3, 4, 30, 32], false),
            (&[3, 4, 28, 28], false),
            (&[3, 32, 32], false),
        ] {
            assert_eq!(mvit_v2(MvitSize::Small, shape, 5).is_ok(), fits, "{shape:?}");
        }
    }

    #[test]
    fn the_last_blocks_train_alone() {
        let graph = mvit_v2(MvitSize::Small, &[3, 4, 32, 32], 5).unwrap().tuned(&Tuning::Last(1)).unwrap();
        let mut trained = graph.parameters().iter().filter(|p| p.trainable).map(|p| p.name.as_str());
        assert!(
            trained.all(|name| ["blocks.15.", "norm.", "head.1."].iter().any(|part| name.starts_with(part)))
        );
        assert!(graph.halves().is_some());
        assert_eq!(graph.halves().unwrap().rest.input_shape(), [3, 768]);
    }
}
