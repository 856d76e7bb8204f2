//! Graphs that some laws need in addition to the specimens of every operation.

use dapple_graph::op::{
    Activation, AdaptiveAvgPool, Add, Attention, AvgPool, Concat, Dropout, MaxPool, Permute, Reshape, Slice,
    Upsample,
};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, GraphError, Init, Loss, Window, zoo};

use crate::common::{CLASSES, head, linear, specimens};

const ZERO: Init = Init::Constant(0.0);

/// Graphs with every operation, alone and together.
pub(crate) fn operations() -> Vec<(&'static str, Graph)> {
    let mut graphs = specimens();
    graphs.push(("dropout", dropping(Dropout::of_values(0.4))));
    graphs.push(("channel dropout", dropping(Dropout::of_channels(0.4))));
    graphs.push(("wide group", wide_group()));
    graphs.push(("sums of norms", sums_of_norms()));
    graphs.push(("joined boxes", joined_boxes()));
    graphs.push(("a point in its padding", padded_point()));
    graphs.push(("a branch to nowhere", branch_to_nowhere()));
    graphs.push(("pooled tokens", pooled_tokens()));
    graphs
}

/// Graphs with every kind of layer, and models, among them large ones if `large` is set.
pub(crate) fn layers_and_models(large: bool) -> Vec<(&'static str, Graph)> {
    let mut graphs = specimens();
    graphs.push(("dropout", dropping(Dropout::of_values(0.4))));
    graphs.push(("deferred", layers(None, true, 3, Activation::Tanh)));
    graphs.push(("pooled tokens", pooled_tokens()));
    if !large {
        graphs.push(("wide resnet", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 8, 8], 4).unwrap()));
        graphs.push(("hybrid", zoo::small_hybrid(&[3, 8, 8], 4).unwrap()));
        return graphs;
    }
    let group = zoo::Norm::Group(32);
    let models = [
        ("small-cnn", zoo::small_cnn(&[1, 28, 28], 10)),
        ("wrn-16-4", zoo::wide_resnet(zoo::WideResNet::W16x4, &[3, 32, 32], 10)),
        ("resnet-18", zoo::resnet(zoo::ResNet::R18, &[3, 64, 64], 10, group)),
        ("resnet-18 on odd images", zoo::resnet(zoo::ResNet::R18, &[3, 50, 50], 10, group)),
    ];
    graphs.extend(models.map(|(name, graph)| (name, graph.unwrap())));
    graphs.push(("tokens", tokens()));
    graphs.extend(heads_of_all_sizes());
    // A ReLU turns what is not a number into zero.
    graphs.push(("deferred, rectified", layers(None, true, 1, Activation::Relu)));
    graphs.push(("deferred, standardised", layers(Some(1e-5), true, 3, Activation::Relu)));
    graphs
}

/// Layers over so many tokens, and heads so wide, that a card multiplies in halves if it may round factors.
pub(crate) fn tokens() -> Graph {
    let mut b = GraphBuilder::new(&[65, 64]);
    let x = b.linear("packed", b.input(), 576, Init::XavierUniform, ZERO).unwrap();
    let x = b.add("attention", Attention { heads: 3 }, &[x]).unwrap();
    let branch = b.linear("linear", x, 192, Init::XavierUniform, ZERO).unwrap();
    let branch = b.add("active", Activation::Tanh, &[branch]).unwrap();
    let x = b.add("sum", Add, &[x, branch]).unwrap();
    let x = b.linear("narrow", x, 8, Init::XavierUniform, ZERO).unwrap();
    let x = b.add("flat", Reshape(vec![520]), &[x]).unwrap();
    head(b, x, CLASSES).unwrap()
}

/// Attention in two heads of this width, over tokens that fill a tile and a part of the next; or over fewer keys, if these are not packed.
pub(crate) fn heads(width: usize, packed: bool) -> Graph {
    let mut b = GraphBuilder::new(&[75, 24]);
    let mut side =
        |name: &str, features: usize| b.linear(name, b.input(), features, Init::XavierUniform, ZERO).unwrap();
    let inputs = match packed {
        true => vec![side("packed", 6 * width)],
        false => {
            let [query, key, value] = ["query", "key", "value"].map(|name| side(name, 2 * width));
            let mut fewer = |name: &str, x| b.add(name, Slice { axis: 0, start: 3, end: 40 }, &[x]).unwrap();
            vec![query, fewer("keys", key), fewer("values", value)]
        }
    };
    let x = b.add("attention", Attention { heads: 2 }, &inputs).unwrap();
    let x = b.linear("narrow", x, 8, Init::XavierUniform, ZERO).unwrap();
    let x = b.add("flat", Reshape(vec![600]), &[x]).unwrap();
    head(b, x, CLASSES).unwrap()
}

/// Heads of every size for which a card has kernels, and of widths between.
pub(crate) fn heads_of_all_sizes() -> Vec<(&'static str, Graph)> {
    vec![
        ("heads of 16", heads(16, true)),
        ("heads of 32, apart", heads(32, false)),
        ("heads of 48", heads(48, true)),
        ("heads of 64, apart", heads(64, false)),
        ("heads of 80", heads(80, true)),
        ("heads of 96, apart", heads(96, false)),
        ("heads of 120", heads(120, true)),
        ("heads of 128, apart", heads(128, false)),
    ]
}

/// A vision transformer whose attention a card can compute in tiles.
pub(crate) fn small_transformer() -> Result<Graph, GraphError> {
    let model = zoo::VisionTransformer::named("vit-ti-16").expect("a name of the zoo");
    zoo::vision_transformer(model, &[3, 128, 128], 10)
}

/// One linear layer over all pixels, with weights of zero.
pub(crate) fn flat_linear(pixels: usize, classes: usize) -> Graph {
    let mut builder = GraphBuilder::new(&[pixels]);
    let input = builder.input();
    let output = builder.linear("head", input, classes, ZERO, ZERO).unwrap();
    builder.finish(output, CLASSES).unwrap()
}

/// A linear layer whose loss has no bound.
pub(crate) fn regression(inputs: usize, outputs: usize) -> Graph {
    let mut builder = GraphBuilder::new(&[inputs]);
    let input = builder.input();
    let output = builder.linear("head", input, outputs, ZERO, ZERO).unwrap();
    builder.finish(output, Loss::SquaredError).unwrap()
}

/// A convolution and a head, sized so that their gradients are deferred if `deferred` is set and written down otherwise, with or without
/// standardised weights.
pub(crate) fn layers(
    standardise: Option<f32>,
    deferred: bool,
    window: usize,
    activation: Activation,
) -> Graph {
    let (channels, size) = if deferred { (96, 2) } else { (4, 12) };
    let mut builder = GraphBuilder::new(&[channels, size, size]);
    let input = builder.input();
    let out = if deferred { 96 } else { 5 };
    let mut spec = ConvSpec::new(out, Window::square(window).padding(window / 2));
    spec.standardise = standardise;
    let x = builder.conv("conv", input, spec).unwrap();
    let x = builder.add("active", activation, &[x]).unwrap();
    head(builder, x, CLASSES).unwrap()
}

/// Branches that are scaled channel by channel before they are added: an image as in ConvNeXt, then its pixels as tokens as in CaiT.
pub(crate) fn layer_scales() -> Graph {
    let mut b = GraphBuilder::new(&[6, 4, 3]);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, Window::square(1)).bias()).unwrap();
    let branch = b.conv("depthwise", x, ConvSpec::new(6, Window::square(3).padding(1)).groups(6)).unwrap();
    let branch = b.channel_scale("image_scale", branch, 0, 0.1).unwrap();
    let x = b.add("image_sum", Add, &[x, branch]).unwrap();
    let x = b.add("turned", Permute(vec![1, 2, 0]), &[x]).unwrap();
    let x = b.add("tokens", Reshape(vec![12, 6]), &[x]).unwrap();
    let branch = b.layer_norm("norm", x, 1e-6).unwrap();
    let branch = b.linear("linear", branch, 6, Init::XavierUniform, ZERO).unwrap();
    let branch = b.channel_scale("token_scale", branch, 1, 0.1).unwrap();
    let x = b.add("token_sum", Add, &[x, branch]).unwrap();
    head(b, x, CLASSES).unwrap()
}

/// The attention of MViTv2 in two heads. The queries, keys and values of a clip are each pooled by a bank of filters that the heads share,
/// and of the tables of relative positions the one for the width has another size than the width needs.
pub(crate) fn pooled_tokens() -> Graph {
    let (grid, heads, features) = ([2, 5, 4], 2, 10);
    let mut b = GraphBuilder::new(&[1 + 2 * 5 * 4, 3]);
    let mut pooled = |name: &str, stride: usize| {
        let input = b.input();
        let x = linear(&mut b, name, input, features).unwrap();
        let window = Window { stride: vec![1, stride, stride], ..Window::new(3, 3).padding(1) };
        let x = b.token_conv(&format!("{name}.pool"), x, grid, window, heads).unwrap();
        let rows = b.shape(x)[0];
        let x = b.add(&format!("{name}.heads"), Reshape(vec![rows * heads, features / heads]), &[x]).unwrap();
        let x = b.layer_norm(&format!("{name}.norm"), x, 1e-6).unwrap();
        b.add(&format!("{name}.tokens"), Reshape(vec![rows, features]), &[x]).unwrap()
    };
    let parts = [pooled("query", 2), pooled("key", 3), pooled("value", 3)];
    let x = b.pooled_attention("attention", &parts, heads, [[2, 3, 2], [2, 2, 2]], [3, 5, 2]).unwrap();
    let x = b.layer_norm("norm", x, 1e-6).unwrap();
    head(b, x, CLASSES).unwrap()
}

/// A layer whose output is partly dropped.
pub(crate) fn dropping(op: Dropout) -> Graph {
    let mut builder = GraphBuilder::new(&[3, 4, 4]);
    let input = builder.input();
    let x = builder.conv("conv", input, ConvSpec::new(6, Window::square(3)).bias()).unwrap();
    let x = builder.add("drop", op, &[x]).unwrap();
    let x = builder.add("flat", Reshape(vec![24]), &[x]).unwrap();
    builder.finish(x, CLASSES).unwrap()
}

/// A convolution that reads one position and writes nine, eight of which see nothing but padding, so that their gradients are no part of the
/// weight's.
fn padded_point() -> Graph {
    let mut builder = GraphBuilder::new(&[40, 1, 1]);
    let input = builder.input();
    let spec = ConvSpec::new(40, Window::square(1).padding(1)).bias();
    let x = builder.conv("conv", input, spec).unwrap();
    head(builder, x, CLASSES).unwrap()
}

/// Layers of more than a million weights each, all of which a sample reads once. The second has a shortcut beside it.
pub(crate) fn vast() -> Graph {
    let mut builder = GraphBuilder::new(&[1104]);
    let input = builder.input();
    let x = builder.linear("first", input, 8, ZERO, ZERO).unwrap();
    let x = builder.linear("wide", x, 1104, ZERO, ZERO).unwrap();
    let x = builder.add("relu", Activation::Relu, &[x]).unwrap();
    let x = builder.linear("vast", x, 1104, ZERO, ZERO).unwrap();
    let x = builder.add("tanh", Activation::Tanh, &[x]).unwrap();
    let branch = builder.linear("branch", x, 1104, ZERO, ZERO).unwrap();
    let x = builder.add("sum", Add, &[x, branch]).unwrap();
    let x = builder.linear("narrowing", x, 1001, ZERO, ZERO).unwrap();
    let x = builder.linear("head", x, 4, ZERO, ZERO).unwrap();
    builder.finish(x, CLASSES).unwrap()
}

/// Convolutions that run by minimal filtering, of which some have their gradients written down and some deferred.
pub(crate) fn filtered() -> Graph {
    let mut builder = GraphBuilder::new(&[32, 13, 9]);
    let mut x = builder.input();
    for (name, out, stride) in [("first", 48, 1), ("second", 32, 2), ("third", 64, 1), ("fourth", 32, 1)] {
        let window = Window::square(3).padding(1).stride(stride);
        x = builder.conv(name, x, ConvSpec::new(out, window).bias()).unwrap();
        x = builder.group_norm(&format!("{name}.norm"), x, 8).unwrap();
        x = builder.add(&format!("{name}.relu"), Activation::Relu, &[x]).unwrap();
    }
    x = builder.add("pool", AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    head(builder, x, CLASSES).unwrap()
}

/// Standardised layers over few positions, whose norms are computed without writing a gradient down.
pub(crate) fn deferred_standardised() -> Graph {
    let mut builder = GraphBuilder::new(&[24, 2, 2]);
    let mut x = builder.input();
    for layer in 0..4 {
        let spec = ConvSpec::new(24, Window::square(3).padding(1)).standardise(1e-5);
        x = builder.conv(&format!("conv{layer}"), x, spec).unwrap();
        x = builder.group_norm(&format!("norm{layer}"), x, 4).unwrap();
        x = builder.add(&format!("relu{layer}"), Activation::Relu, &[x]).unwrap();
    }
    head(builder, x, CLASSES).unwrap()
}

/// An activation before a maximum. If it is shared with a second reader, it must be computed before the maximum.
pub(crate) fn maxima(shared: bool) -> Graph {
    let window = Window::square(3).stride(2).padding(1);
    let mut builder = GraphBuilder::new(&[3, 9, 7]);
    let spec = ConvSpec::new(5, Window::square(1)).bias();
    let x = builder.conv("conv", builder.input(), spec).unwrap();
    let active = builder.add("relu", Activation::Relu, &[x]).unwrap();
    let mut x = builder.add("max", MaxPool(window), &[active]).unwrap();
    if shared {
        let average = builder.add("average", AdaptiveAvgPool(vec![5, 4]), &[active]).unwrap();
        x = builder.add("sum", Add, &[x, average]).unwrap();
    }
    head(builder, x, CLASSES).unwrap()
}

/// Layers on which no output depends, so that they take no memory and their gradients are zero.
fn branch_to_nowhere() -> Graph {
    let mut b = GraphBuilder::new(&[3, 9, 8]);
    let three = || Window::square(3).padding(1);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, three())).unwrap();
    let aside = b.conv("aside", x, ConvSpec::new(5, three()).bias()).unwrap();
    b.conv("deeper aside", aside, ConvSpec::new(4, Window::square(1))).unwrap();
    let x = b.conv("on", x, ConvSpec::new(4, three())).unwrap();
    head(b, x, CLASSES).unwrap()
}

/// A norm with more channels in a group than a block's usual shared memory has room for.
fn wide_group() -> Graph {
    let mut builder = GraphBuilder::new(&[3, 2, 2]);
    let input = builder.input();
    let x = builder.conv("conv", input, ConvSpec::new(4000, Window::square(1))).unwrap();
    let x = builder.group_norm("norm", x, 1).unwrap();
    let x = builder.add("pool", AdaptiveAvgPool(vec![1, 1]), &[x]).unwrap();
    let x = builder.add("flat", Reshape(vec![4000]), &[x]).unwrap();
    builder.finish(x, CLASSES).unwrap()
}

/// Norms that add a residual, with and without an activation after it, of which some gradients may share memory and some may not.
fn sums_of_norms() -> Graph {
    let mut builder = GraphBuilder::new(&[3, 7, 5]);
    let b = &mut builder;
    let conv = |b: &mut GraphBuilder, name: &str, x| {
        let x = b.conv(&format!("{name}.conv"), x, ConvSpec::new(8, Window::square(3).padding(1))).unwrap();
        b.group_norm(&format!("{name}.norm"), x, 4).unwrap()
    };
    let sum = |b: &mut GraphBuilder, name: &str, x, y| b.add(name, Add, &[x, y]).unwrap();
    let relu = |b: &mut GraphBuilder, name: &str, x| b.add(name, Activation::Relu, &[x]).unwrap();
    let x = conv(b, "first", b.input());
    let x = relu(b, "first.relu", x);
    // One block has the input itself beside it, and one has a second norm.
    let y = conv(b, "same", x);
    let y = sum(b, "same.sum", y, x);
    let x = relu(b, "same.relu", y);
    let (y, z) = (conv(b, "other.left", x), conv(b, "other.right", x));
    let y = sum(b, "other.sum", y, z);
    let x = relu(b, "other.relu", y);
    // This sum has no activation and is read three times; and here is a norm of the value that it is added to.
    let y = conv(b, "plain", x);
    let x = sum(b, "plain.sum", x, y);
    let y = b.group_norm("of itself", x, 2).unwrap();
    let y = sum(b, "of itself.sum", x, y);
    let y = relu(b, "of itself.relu", y);
    let x = sum(b, "chain", x, y);
    let z = b.group_norm("last", x, 2).unwrap();
    let x = sum(b, "twice", x, x);
    let x = sum(b, "last.sum", x, z);
    let x = b.add("pool", AdaptiveAvgPool(vec![2, 1]), &[x]).unwrap();
    let x = b.add("flat", Reshape(vec![16]), &[x]).unwrap();
    builder.finish(x, CLASSES).unwrap()
}

/// Boxes that are copied one value or four values at a time, along every axis, and maxima over windows with gaps and with strides beyond
/// their size.
fn joined_boxes() -> Graph {
    let mut builder = GraphBuilder::new(&[4, 9, 8]);
    let b = &mut builder;
    let x = b.conv("conv", b.input(), ConvSpec::new(4, Window::square(3).padding(1))).unwrap();
    let x = b.add("channels", Concat { axis: 0 }, &[x, x]).unwrap();
    let x = b.add("rows", Concat { axis: 1 }, &[x, x]).unwrap();
    let x = b.add("columns", Concat { axis: 2 }, &[x, x]).unwrap();
    let x = b.add("slice", Slice { axis: 2, start: 4, end: 13 }, &[x]).unwrap();
    let gaps = Window { kernel: vec![3, 2], stride: vec![2, 1], padding: vec![1, 1], dilation: vec![2, 3] };
    let x = b.add("gaps", MaxPool(gaps), &[x]).unwrap();
    let x = b.add("average", AvgPool(Window::square(3).stride(2).padding(1)), &[x]).unwrap();
    let x = b.add("larger", Upsample([11, 7]), &[x]).unwrap();
    let x = b.add("smaller", Upsample([3, 5]), &[x]).unwrap();
    let x = b.add("turned", Permute(vec![1, 0, 2]), &[x]).unwrap();
    let x = b.add("flat", Reshape(vec![120]), &[x]).unwrap();
    builder.finish(x, CLASSES).unwrap()
}
