//! Small graphs that together have every operation, and values that Rust and Python can both make.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use dapple_engine::{Batch, Clipping, ClippingRule, Layout, Targets};
use dapple_graph::op::{
    Activation, AdaptiveAvgPool, Add, Attention, AvgPool, Concat, Dropout, Gather, MatMul, MaxPool, Mul,
    NormAxes, ParameterValue, Permute, Reshape, Slice, Softmax, Upsample,
};
use dapple_graph::{
    ConvSpec, Graph, GraphBuilder, GraphError, IGNORED, Init, Loss, NodeId, Parameter, ParameterId,
    Parameters, Window,
};

pub const CLASSES: Loss = Loss::CrossEntropy { label_smoothing: 0.0 };

/// The FNV-1a hash of a text.
pub fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// A number in `[-1, 1)` with 24 bits that looks random and follows from a name and an index: FNV-1a of the name, then SplitMix64's
/// finaliser.
pub fn uniform(name: &str, index: usize) -> f64 {
    uniform_at(checksum(name), index)
}

/// Like [`uniform`], from the name's checksum.
pub fn uniform_at(hash: u64, index: usize) -> f64 {
    let mut z = hash.wrapping_add(index as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f64 / f64::from(1u32 << 23) - 1.0
}

/// The number of parameters, and a checksum of their names and shapes. These are in alphabetical order, because the order is no part of a
/// weights file.
pub fn names(graph: &Graph) -> (u64, String) {
    let mut lines: Vec<String> = graph
        .parameters()
        .iter()
        .map(|p| {
            let shape: Vec<String> = p.shape.iter().map(ToString::to_string).collect();
            format!("{} {}\n", p.name, shape.join(","))
        })
        .collect();
    lines.sort();
    (lines.len() as u64, format!("{:016x}", checksum(&lines.concat())))
}

fn fill(parameter: &Parameter, values: &mut [f32]) {
    let hash = checksum(&parameter.name);
    let fan_in: usize = parameter.shape[1..].iter().product();
    let positive = parameter.name.ends_with("running_var") || parameter.name.ends_with("weight");
    let (centre, scale) = match (parameter.shape.len() > 1, positive) {
        (true, _) => (0.0, (6.0 / fan_in as f64).sqrt()),
        (false, true) => (1.0, 0.25),
        (false, false) => (0.0, 0.1),
    };
    for (index, value) in values.iter_mut().enumerate() {
        *value = (centre + uniform_at(hash, index) * scale) as f32;
    }
}

/// Parameters made from their names.
pub fn parameters(graph: &Graph) -> Parameters {
    let mut parameters = Parameters::zeros(graph);
    for parameter in graph.parameters() {
        let id: ParameterId = graph.find_parameter(&parameter.name).unwrap();
        fill(parameter, parameters.get_mut(id));
    }
    parameters
}

/// Inputs and targets that suit a graph.
pub struct Data {
    pub inputs: Vec<f32>,
    classes: Vec<u32>,
    values: Vec<f32>,
    pub views: usize,
    loss: Loss,
}

impl Data {
    pub fn new(graph: &Graph, samples: usize, views: usize) -> Self {
        let input: usize = graph.input_shape().iter().product();
        let inputs = (0..samples * views * input).map(|i| uniform("input", i) as f32).collect();
        let positions: usize = graph.output_shape()[1..].iter().product();
        let classes = (0..samples * views * positions)
            .map(|i| {
                let class = ((uniform("class", i) + 1.0) / 2.0 * graph.output_shape()[0] as f64) as u32;
                if positions > 1 && i % 5 == 3 { IGNORED } else { class }
            })
            .collect();
        let output = positions * graph.output_shape()[0];
        let values = (0..samples * views * output).map(|i| uniform("value", i) as f32).collect();
        Self { inputs, classes, values, views, loss: graph.loss() }
    }

    pub fn batch(&self) -> Batch<'_> {
        let targets = match self.loss {
            Loss::CrossEntropy { .. } => Targets::Classes(&self.classes),
            Loss::SquaredError => Targets::Values(&self.values),
        };
        Batch { views: self.views, ..Batch::new(&self.inputs, targets) }
    }
}

impl Data {
    /// Some of the samples, each of which has `size` inputs.
    pub fn part(&self, samples: std::ops::Range<usize>, size: usize) -> Batch<'_> {
        let count = self.inputs.len() / size;
        let (classes, values) = (self.classes.len() / count, self.values.len() / count);
        let targets = match self.loss {
            Loss::CrossEntropy { .. } => {
                Targets::Classes(&self.classes[samples.start * classes..samples.end * classes])
            }
            Loss::SquaredError => Targets::Values(&self.values[samples.start * values..samples.end * values]),
        };
        let inputs = &self.inputs[samples.start * size..samples.end * size];
        Batch { views: self.views, ..Batch::new(inputs, targets) }
    }
}

/// The rule for a layout that it must fit.
pub fn rule(clipping: &Clipping, layout: &Layout) -> ClippingRule {
    ClippingRule::new(clipping, layout).unwrap()
}

type Specimen = (&'static str, Result<Graph, GraphError>);

/// The small graphs.
pub fn specimens() -> Vec<(&'static str, Graph)> {
    let list: Vec<Specimen> = vec![
        (
            "conv_stride_padding",
            conv(&[3, 7, 6], ConvSpec::new(5, Window::square(3).stride(2).padding(1)).bias()),
        ),
        (
            "conv_dilation_groups",
            conv(&[4, 8, 7], ConvSpec::new(6, Window::square(3).dilation(2).padding(2)).groups(2)),
        ),
        (
            "conv_depthwise",
            conv(&[6, 6, 6], ConvSpec::new(6, Window::square(3).padding(1).stride(2)).groups(6).bias()),
        ),
        ("conv_pointwise", conv(&[20, 4, 3], ConvSpec::new(18, Window::square(1)).bias())),
        (
            "conv_standardised",
            conv(&[3, 5, 5], ConvSpec::new(4, Window::square(3).padding(1)).standardise(1e-5)),
        ),
        ("conv_3d", conv(&[2, 4, 5, 5], ConvSpec::new(3, Window::new(3, 3).stride(2).padding(1)).bias())),
        (
            "transposed_conv",
            transposed_conv(
                &[5, 4, 3],
                ConvSpec::new(4, Window::square(3).stride(2).padding(1)).bias(),
                &[1, 0],
            ),
        ),
        (
            "transposed_conv_dilation_groups",
            transposed_conv(
                &[4, 3, 4],
                ConvSpec::new(6, Window::square(2).stride(3).dilation(2)).groups(2),
                &[2, 1],
            ),
        ),
        (
            "transposed_conv_depthwise",
            transposed_conv(
                &[6, 3, 3],
                ConvSpec::new(6, Window::square(3).stride(2)).groups(6).bias(),
                &[0, 1],
            ),
        ),
        (
            "transposed_conv_deep",
            transposed_conv(&[16, 2, 2], ConvSpec::new(12, Window::square(2).stride(2)).bias(), &[0, 0]),
        ),
        (
            "transposed_conv_3d",
            transposed_conv(&[3, 2, 3, 2], ConvSpec::new(2, Window::new(3, 2).stride(2)).bias(), &[0, 1, 0]),
        ),
        ("deep", deep()),
        ("norms", norms()),
        ("other_norms", other_norms()),
        ("pools", pools()),
        ("activations", activations()),
        ("upsample", upsample()),
        ("structure", structure()),
        ("attention", attention()),
        ("matmul", matmul()),
        ("pixels", pixels()),
        ("clipped", clipped()),
        ("auxiliary", auxiliary()),
        ("smoothing", mlp(Loss::CrossEntropy { label_smoothing: 0.1 })),
        ("squares", mlp(Loss::SquaredError)),
    ];
    list.into_iter().map(|(name, graph)| (name, graph.unwrap())).collect()
}

pub fn specimen(name: &str) -> Graph {
    specimens().into_iter().find(|(n, _)| *n == name).unwrap().1
}

pub fn linear(b: &mut GraphBuilder, name: &str, x: NodeId, out: usize) -> Result<NodeId, GraphError> {
    b.linear(name, x, out, Init::XavierUniform, Init::Constant(0.0))
}

fn flatten(b: &mut GraphBuilder, x: NodeId) -> Result<NodeId, GraphError> {
    let len = b.shape(x).iter().product();
    b.add("flatten", Reshape(vec![len]), &[x])
}

/// The head that ends every specimen: values are flattened, and a linear layer turns them into four classes.
pub fn head(mut b: GraphBuilder, x: NodeId, loss: Loss) -> Result<Graph, GraphError> {
    let x = flatten(&mut b, x)?;
    let x = linear(&mut b, "head", x, 4)?;
    b.finish(x, loss)
}

/// A convolution between a pointwise one, which sees the data gradient, and the head.
pub fn conv(shape: &[usize], spec: ConvSpec) -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(shape);
    let first = ConvSpec::new(shape[0], Window::new(shape.len() - 1, 1)).bias();
    let x = b.conv("first", b.input(), first)?;
    let x = b.conv("conv", x, spec)?;
    head(b, x, CLASSES)
}

/// A transposed convolution between a pointwise convolution, which sees the data gradient, and the head.
pub fn transposed_conv(
    shape: &[usize],
    spec: ConvSpec,
    output_padding: &[usize],
) -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(shape);
    let first = ConvSpec::new(shape[0], Window::new(shape.len() - 1, 1)).bias();
    let x = b.conv("first", b.input(), first)?;
    let x = b.transposed_conv("up", x, spec, output_padding)?;
    head(b, x, CLASSES)
}

/// A graph with few positions and many channels, for which norms come from inner products rather than from the gradient itself.
fn deep() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[3, 4, 4]);
    let spec = |out| ConvSpec::new(out, Window::square(3).padding(1));
    let x = b.conv("conv1", b.input(), spec(32).bias())?;
    let x = b.add("relu", Activation::Relu, &[x])?;
    let x = b.conv("conv2", x, spec(48).standardise(1e-5))?;
    let x = b.group_norm("norm", x, 4)?;
    let x = b.add("relu2", Activation::Relu, &[x])?;
    let window = Window::square(3).padding(1).stride(2);
    let x = b.conv("conv3", x, ConvSpec::new(40, window).bias())?;
    head(b, x, CLASSES)
}

fn norms() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[6, 4, 3]);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, Window::square(1)))?;
    let x = b.group_norm("group", x, 3)?;
    let x = b.add("relu", Activation::Relu, &[x])?;
    let x = b.batch_norm("batch", x, false)?;
    let x = b.group_norm("instance", x, 6)?;
    let x = b.add("tokens", Permute(vec![1, 2, 0]), &[x])?;
    let x = b.layer_norm("layer", x, 1e-6)?;
    let mut graph = head(b, x, CLASSES)?;
    graph.set_trainable(|_| true);
    Ok(graph)
}

/// Norms over the channels of each position, over whole images, and without a mean.
fn other_norms() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[6, 4, 3]);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, Window::square(1)))?;
    let x = b.layer_norm_over("channels", x, NormAxes::Channels, 1e-6)?;
    let x = b.layer_norm_over("whole", x, NormAxes::Last(3), 1e-6)?;
    let x = b.rms_norm("channel_rms", x, NormAxes::Channels, 1e-6)?;
    let x = b.rms_norm("rms", x, NormAxes::Last(1), 1e-6)?;
    head(b, x, CLASSES)
}

fn pools() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[3, 11, 9]);
    let x = b.conv("conv", b.input(), ConvSpec::new(5, Window::square(1)))?;
    let x = b.add("max", MaxPool(Window::square(3).stride(2).padding(1)), &[x])?;
    let x = b.add("average", AvgPool(Window::square(2).padding(1)), &[x])?;
    let x = b.add("adaptive", AdaptiveAvgPool(vec![3, 4]), &[x])?;
    head(b, x, CLASSES)
}

fn activations() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[9]);
    let mut x = b.input();
    let ops =
        [Activation::Relu, Activation::Gelu, Activation::Silu, Activation::Tanh, Activation::Scale(0.7)];
    for (index, op) in ops.into_iter().enumerate() {
        x = linear(&mut b, &format!("linear{index}"), x, 11)?;
        x = b.add(&format!("activation{index}"), op, &[x])?;
    }
    head(b, x, CLASSES)
}

fn upsample() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[2, 3, 4]);
    let x = b.conv("conv", b.input(), ConvSpec::new(3, Window::square(1)))?;
    let x = b.add("up", Upsample([7, 6]), &[x])?;
    let x = b.add("down", Upsample([3, 5]), &[x])?;
    head(b, x, CLASSES)
}

fn structure() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[4, 3, 5]);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, Window::square(1)))?;
    let low = b.add("low", Slice { axis: 0, start: 0, end: 4 }, &[x])?;
    let high = b.add("high", Slice { axis: 0, start: 2, end: 6 }, &[x])?;
    let product = b.add("product", Mul, &[low, high])?;
    let sum = b.add("sum", Add, &[product, low])?;
    let twice = b.add("twice", Add, &[sum, sum])?;
    let joined = b.add("joined", Concat { axis: 0 }, &[twice, x])?;
    let wide = b.add("wide", Concat { axis: 2 }, &[joined, joined])?;
    let cut = b.add("cut", Slice { axis: 1, start: 1, end: 3 }, &[wide])?;
    let moved = b.add("moved", Permute(vec![2, 0, 1]), &[cut])?;
    let rows = b.add("rows", Gather(vec![3, 0, 3, 7]), &[moved])?;
    let flat = b.add("flat", Reshape(vec![8, 10]), &[rows])?;
    head(b, flat, CLASSES)
}

fn attention() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[5, 6]);
    let input = b.input();
    let x = linear(&mut b, "embed", input, 8)?;
    let token = b.parameter("token", &[1, 8], Init::Normal(0.02), false)?;
    let token = b.add("class_token", ParameterValue(token), &[])?;
    let x = b.add("tokens", Concat { axis: 0 }, &[token, x])?;
    let position = b.parameter("position", &[6, 8], Init::Normal(0.02), false)?;
    let position = b.add("embedding", ParameterValue(position), &[])?;
    let x = b.add("placed", Add, &[x, position])?;
    let y = b.layer_norm("norm", x, 1e-6)?;
    let query = linear(&mut b, "query", y, 8)?;
    let key = linear(&mut b, "key", y, 8)?;
    let value = linear(&mut b, "value", y, 8)?;
    let y = b.add("attention", Attention { heads: 2 }, &[query, key, value])?;
    let x = b.add("residual", Add, &[x, y])?;
    let x = b.add("first", Gather(vec![0]), &[x])?;
    head(b, x, CLASSES)
}

fn matmul() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[2, 5, 6]);
    let input = b.input();
    let left = linear(&mut b, "left", input, 7)?;
    let input = b.input();
    let right = linear(&mut b, "right", input, 7)?;
    let scores = b.add("scores", MatMul { transpose: true }, &[left, right])?;
    let weights = b.add("weights", Softmax, &[scores])?;
    let mixed = b.add("mixed", MatMul { transpose: false }, &[weights, right])?;
    head(b, mixed, CLASSES)
}

fn pixels() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[3, 5, 4]);
    let x = b.conv("conv", b.input(), ConvSpec::new(4, Window::square(3).padding(1)).bias())?;
    b.finish(x, CLASSES)
}

/// A graph whose values lie on both sides of both kinks of a clipped activation.
fn clipped() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[3, 5, 4]);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, Window::square(3).padding(1)).bias())?;
    let x = b.add("scale", Activation::Scale(5.0), &[x])?;
    let x = b.add("relu6", Activation::Relu6, &[x])?;
    head(b, x, CLASSES)
}

/// A graph with a second head on features that the first one reads too.
fn auxiliary() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[3, 9, 8]);
    let x = b.conv("conv", b.input(), ConvSpec::new(6, Window::square(3).stride(2).padding(1)))?;
    let x = b.add("relu", Activation::Relu, &[x])?;
    let aside = b.conv("aside", x, ConvSpec::new(4, Window::square(1)).bias())?;
    let aside = b.add("aside.upsample", Upsample([9, 8]), &[aside])?;
    let y = b.conv("deeper", x, ConvSpec::new(5, Window::square(3).dilation(2).padding(2)))?;
    let y = b.add("dropout", Dropout::of_channels(0.3), &[y])?;
    let y = b.conv("scores", y, ConvSpec::new(4, Window::square(1)).bias())?;
    let y = b.add("upsample", Upsample([9, 8]), &[y])?;
    b.auxiliary(aside, 0.4);
    b.finish(y, CLASSES)
}

fn mlp(loss: Loss) -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(&[6]);
    let input = b.input();
    let x = linear(&mut b, "hidden", input, 9)?;
    let x = b.add("relu", Activation::Relu, &[x])?;
    head(b, x, loss)
}
