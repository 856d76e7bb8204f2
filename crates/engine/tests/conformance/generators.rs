//! Generators of random graphs and batches, the same for every subject.

mod norms;
mod transposed;

use dapple_engine::{Batch, CpuOptions, DropoutSource, Targets};
use dapple_graph::op::{
    Activation, AdaptiveAvgPool, Add, AvgPool, Concat, Dropout, Gather, MatMul, MaxPool, Mul, Permute,
    Reshape, Slice, Softmax, Upsample,
};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, IGNORED, Loss, NodeId, Op, Window};
use proptest::prelude::*;

use crate::common::{CLASSES, Data, head, linear, uniform};
pub(crate) use norms::norms_over_axes;
pub(crate) use transposed::{transposed_convolutions, wide_transposed_convolutions};

mod tokens;
pub(crate) use tokens::{attention, attention_in_tiles, pooled_attention, pooled_attention_to_some_keys};

/// A graph with a batch for it, and how the processor is to divide the work.
pub(crate) struct Case {
    pub(crate) graph: Graph,
    pub(crate) options: CpuOptions,
    inputs: Vec<f32>,
    answers: Answers,
    views: usize,
    records: Option<Vec<usize>>,
}

enum Answers {
    Classes(Vec<u32>),
    Probabilities(Vec<f32>),
    Values(Vec<f32>),
}

impl std::fmt::Debug for Case {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes = self.graph.nodes().iter().map(|node| format!("{}: {:?}", node.name, node.op));
        let Self { inputs, views, records, options, .. } = self;
        let values = inputs.len();
        write!(formatter, "{:?}, {values} inputs, ", nodes.collect::<Vec<_>>())?;
        write!(formatter, "{views} views, records {records:?}, {options:?}")
    }
}

impl Case {
    /// A case with the usual data for a graph. The loss is smoothed so that its gradient does not vanish: with a saturated softmax, little
    /// would be left but the rounding of its logits.
    fn new(graph: Graph, (samples, views, options): (usize, usize, CpuOptions)) -> Self {
        let graph = match graph.loss() {
            Loss::CrossEntropy { .. } => {
                graph.with_loss(Loss::CrossEntropy { label_smoothing: 0.2 }).unwrap()
            }
            Loss::SquaredError => graph,
        };
        let data = Data::new(&graph, samples, views);
        let answers = match data.batch().targets {
            Targets::Classes(classes) => Answers::Classes(classes.to_vec()),
            Targets::Probabilities(values) => Answers::Probabilities(values.to_vec()),
            Targets::Values(values) => Answers::Values(values.to_vec()),
        };
        Self { graph, options, inputs: data.inputs, answers, views, records: None }
    }

    pub(crate) fn batch(&self) -> Batch<'_> {
        let targets = match &self.answers {
            Answers::Classes(classes) => Targets::Classes(classes),
            Answers::Probabilities(values) => Targets::Probabilities(values),
            Answers::Values(values) => Targets::Values(values),
        };
        let dropout = self.records.as_ref().map(|records| DropoutSource { seed: 3, records });
        Batch { views: self.views, dropout, ..Batch::new(&self.inputs, targets) }
    }
}

/// How many samples there are, which may be none, how many views, and how the processor divides the work.
fn runs() -> impl Strategy<Value = (usize, usize, CpuOptions)> {
    (0usize..4, 1usize..4, 1usize..4, 0usize..3, any::<bool>()).prop_map(
        |(samples, views, threads, group, checkpoints)| {
            (samples, views, CpuOptions { threads, group, checkpoints, ..CpuOptions::default() })
        },
    )
}

fn two_threads() -> CpuOptions {
    CpuOptions { threads: 2, ..CpuOptions::default() }
}

/// An image goes through a pointwise convolution, which sees the operation's data gradient, then through the operation and the head.
fn image(shape: &[usize], operation: impl FnOnce(&mut GraphBuilder, NodeId) -> NodeId) -> Graph {
    let mut b = GraphBuilder::new(shape);
    let spec = ConvSpec::new(shape[0], Window::new(shape.len() - 1, 1)).bias();
    let x = b.conv("first", b.input(), spec).unwrap();
    let x = operation(&mut b, x);
    head(b, x, CLASSES).unwrap()
}

/// A convolution between a pointwise one and a linear layer. Standardised weights have variance one whatever the fan-in is, so their output
/// is scaled back, because the rounding of large logits would be the largest error.
fn scaled_conv(shape: &[usize], spec: ConvSpec, relu: bool) -> Graph {
    let fan_in = shape[0] / spec.groups * spec.window.taps();
    let scale = if spec.standardise.is_some() { 1.0 / (fan_in as f32).sqrt() } else { 1.0 };
    image(shape, |b, x| {
        let mut x = b.conv("conv", x, spec).unwrap();
        if relu {
            x = b.add("relu", Activation::Relu, &[x]).unwrap();
        }
        b.add("scale", Activation::Scale(scale), &[x]).unwrap()
    })
}

/// A window that fits an image of at least five by five.
fn window() -> impl Strategy<Value = Window> {
    (1usize..4, 1usize..4, 1usize..4, 0usize..2, 1usize..3).prop_map(
        |(height, width, stride, padding, dilation)| {
            let mut window = Window::square(2).stride(stride).dilation(dilation);
            window.kernel = vec![height, width];
            // No window may lie in the padding alone.
            window.padding = vec![padding.min(height / 2), padding.min(width / 2)];
            window
        },
    )
}

pub(crate) fn clips() -> impl Strategy<Value = Case> {
    let channels = (1usize..4, 1usize..4, 1usize..3);
    let windows = (1usize..4, 1usize..3, 0usize..2, 1usize..3);
    (channels, windows, (5usize..7, 5usize..7, 5usize..7), runs()).prop_map(
        |((channels, out, groups), (kernel, stride, padding, dilation), (depth, height, width), run)| {
            let window = Window::new(3, kernel).stride(stride).padding(padding).dilation(dilation);
            let graph = image(&[channels * groups, depth, height, width], |b, x| {
                b.conv("clip", x, ConvSpec::new(out * groups, window).groups(groups).bias()).unwrap()
            });
            Case::new(graph, run)
        },
    )
}

pub(crate) fn depthwise_convolutions() -> impl Strategy<Value = Case> {
    (2usize..20, (5usize..9, 5usize..9), window(), runs()).prop_map(
        |(channels, (height, width), window, run)| {
            let graph = image(&[channels, height, width], |b, x| {
                b.conv("depthwise", x, ConvSpec::new(channels, window).groups(channels)).unwrap()
            });
            Case::new(graph, run)
        },
    )
}

pub(crate) fn pooling() -> impl Strategy<Value = Case> {
    ((1usize..20, 5usize..9, 5usize..9), window(), (1usize..6, 1usize..6), 0usize..3, runs()).prop_map(
        |((channels, height, width), window, (rows, columns), kind, run)| {
            let op = match kind {
                0 => Op::from(MaxPool(window)),
                1 => AvgPool(window).into(),
                _ => AdaptiveAvgPool(vec![rows, columns]).into(),
            };
            Case::new(image(&[channels, height, width], |b, x| b.add("pool", op, &[x]).unwrap()), run)
        },
    )
}

pub(crate) fn upsampling() -> impl Strategy<Value = Case> {
    ((1usize..20, 1usize..6, 1usize..6), (1usize..9, 1usize..9), runs()).prop_map(
        |((channels, height, width), (rows, columns), run)| {
            let up = Upsample([rows, columns]);
            Case::new(image(&[channels, height, width], |b, x| b.add("up", up, &[x]).unwrap()), run)
        },
    )
}

pub(crate) fn group_and_batch_norms() -> impl Strategy<Value = Case> {
    ((1usize..70, 1usize..4), (2usize..6, 2usize..6), any::<bool>(), any::<bool>(), runs()).prop_map(
        |((groups, size), (height, width), relu, frozen, run)| {
            let graph = image(&[groups * size, height, width], |b, x| {
                let x = match frozen {
                    true => b.batch_norm("norm", x, false).unwrap(),
                    false => b.group_norm("norm", x, groups).unwrap(),
                };
                if relu { b.add("relu", Activation::Relu, &[x]).unwrap() } else { x }
            });
            Case::new(graph, run)
        },
    )
}

/// Scales along every axis, between layers that want channels last and layers that want them first.
pub(crate) fn channel_scales() -> impl Strategy<Value = Case> {
    (prop::array::uniform3(1usize..12), 0usize..3, any::<bool>(), runs()).prop_map(
        |(shape, axis, tokens, run)| {
            let graph = image(&shape, |b, x| {
                let x = match tokens {
                    true => b.layer_norm("norm", x, 1e-5).unwrap(),
                    false => x,
                };
                b.channel_scale("scale", x, axis, 1.0).unwrap()
            });
            Case::new(graph, run)
        },
    )
}

pub(crate) fn layer_norms_and_activations() -> impl Strategy<Value = Case> {
    use Activation::{Gelu, Relu, Relu6, Scale, Silu, Tanh};
    let mut ops: Vec<Op> = [Relu, Relu6, Gelu, Silu, Tanh, Scale(-0.4)].map(Op::from).to_vec();
    ops.push(Softmax.into());
    ((1usize..6, 3usize..40), prop::sample::select(ops), runs()).prop_map(|((tokens, features), op, run)| {
        let mut b = GraphBuilder::new(&[tokens, features]);
        let input = b.input();
        let x = linear(&mut b, "first", input, features).unwrap();
        let x = b.layer_norm("norm", x, 1e-5).unwrap();
        let x = b.add("activation", op, &[x]).unwrap();
        Case::new(head(b, x, CLASSES).unwrap(), run)
    })
}

pub(crate) fn matrix_products() -> impl Strategy<Value = Case> {
    ((1usize..3, 1usize..20, 1usize..20, 1usize..20), any::<bool>(), runs()).prop_map(
        |((batches, rows, inner, columns), transpose, run)| {
            let mut b = GraphBuilder::new(&[batches, rows.max(columns).max(inner), 3]);
            let input = b.input();
            let (height, width) = if transpose { (columns, inner) } else { (inner, columns) };
            let side = |b: &mut GraphBuilder, name: &str, height: usize, width: usize| {
                let x = linear(b, name, input, width).unwrap();
                b.add(&format!("{name}.cut"), Slice { axis: 1, start: 0, end: height }, &[x]).unwrap()
            };
            let left = side(&mut b, "left", rows, inner);
            let right = side(&mut b, "right", height, width);
            let x = b.add("product", MatMul { transpose }, &[left, right]).unwrap();
            Case::new(head(b, x, CLASSES).unwrap(), run)
        },
    )
}

pub(crate) fn moves() -> impl Strategy<Value = Case> {
    let axes = Just(vec![0usize, 1, 2]).prop_shuffle();
    let rows = prop::collection::vec(0usize..2, 1..5);
    (prop::array::uniform3(2usize..7), axes, (0usize..3, 0usize..2, 0usize..4), rows, runs()).prop_map(
        |(shape, axes, (axis, start, end), rows, run)| {
            let graph = image(&shape, |b, x| {
                let cut = Slice { axis, start, end: (start + 1 + end).min(shape[axis]) };
                let cut = b.add("cut", cut, &[x]).unwrap();
                let joined = b.add("joined", Concat { axis }, &[cut, x, cut]).unwrap();
                let moved = b.add("moved", Permute(axes), &[joined]).unwrap();
                let chosen = b.add("chosen", Gather(rows), &[moved]).unwrap();
                let product = b.add("product", Mul, &[chosen, chosen]).unwrap();
                b.add("sum", Add, &[product, chosen]).unwrap()
            });
            Case::new(graph, run)
        },
    )
}

/// Every kind of target, with dropout and auxiliary outputs.
pub(crate) fn losses() -> impl Strategy<Value = Case> {
    let dropout = prop::option::of((0.1f32..0.8, any::<bool>()));
    let auxiliary = prop::option::of(0.1f32..2.0);
    let sizes = (2usize..7, 1usize..4, 1usize..4);
    (sizes, 0usize..4, 0.0f32..0.5, dropout, auxiliary, runs()).prop_map(
        |((classes, height, width), kind, smoothing, dropout, auxiliary, (samples, views, options))| {
            let mut b = GraphBuilder::new(&[3, height, width]);
            let spec = || ConvSpec::new(classes, Window::square(1));
            let mut x = b.conv("conv", b.input(), spec().bias()).unwrap();
            if let Some((rate, channels)) = dropout {
                let op = if channels { Dropout::of_channels(rate) } else { Dropout::of_values(rate) };
                x = b.add("dropout", op, &[x]).unwrap();
            }
            if let Some(weight) = auxiliary {
                b.auxiliary(x, weight);
                x = b.conv("main", x, spec()).unwrap();
            }
            let loss = match kind {
                3 => Loss::SquaredError,
                _ => Loss::CrossEntropy { label_smoothing: smoothing },
            };
            let graph = b.finish(x, loss).unwrap();
            let positions = samples * views * height * width;
            let value = |name: &str, index: usize| uniform(name, index) as f32;
            let label =
                |i: u32| if kind == 1 && i.is_multiple_of(3) { IGNORED } else { i * 7 % classes as u32 };
            let values = || (0..positions * classes).map(|i| value("value", i).abs()).collect();
            let answers = match kind {
                0 | 1 => Answers::Classes((0..positions as u32).map(label).collect()),
                2 => Answers::Probabilities(values()),
                _ => Answers::Values(values()),
            };
            let inputs = (0..3 * positions).map(|i| value("input", i)).collect();
            let records = dropout.map(|_| (0..samples).map(|sample| 11 + 3 * sample).collect());
            Case { graph, options, inputs, answers, views, records }
        },
    )
}

pub(crate) fn convolutions() -> impl Strategy<Value = Case> {
    let channels = (1usize..4, 1usize..9, 1usize..9);
    let windows = (1usize..4, 1usize..4, 0usize..3, 1usize..3);
    let runs = (1usize..4, 1usize..3, 1usize..4, 1usize..3);
    (channels, windows, (5usize..10, 5usize..10), any::<bool>(), any::<bool>(), runs).prop_map(
        |(
            (groups, channels, out),
            (kernel, stride, padding, dilation),
            (height, width),
            bias,
            standardise,
            run,
        )| {
            let window = Window::square(kernel).stride(stride).padding(padding).dilation(dilation);
            let mut spec = ConvSpec::new(out * groups, window).groups(groups);
            spec.bias = bias;
            // A filter with a single weight has no deviation to divide by.
            spec.standardise = (standardise && channels * kernel > 1).then_some(1e-5);
            let (samples, views, threads, group) = run;
            let options = CpuOptions { threads, group, ..CpuOptions::default() };
            Case::new(
                scaled_conv(&[channels * groups, height, width], spec, false),
                (samples, views, options),
            )
        },
    )
}

/// Convolutions of shapes that nobody would usually choose.
pub(crate) fn odd_convolutions() -> impl Strategy<Value = Case> {
    let channels = (1usize..3, 1usize..13, 1usize..40);
    let pair = |from: usize, to: usize| prop::collection::vec(from..to, 2);
    let windows = (pair(1, 6), pair(1, 4), pair(0, 3), pair(1, 3));
    (channels, windows, (6usize..24, 6usize..40), any::<bool>(), any::<bool>(), 1usize..3)
        .prop_filter("an image that the window fits in", |(_, windows, (height, width), ..)| {
            let (kernel, _, padding, dilation) = windows;
            let fits =
                |axis: usize, size: usize| (kernel[axis] - 1) * dilation[axis] < size + 2 * padding[axis];
            fits(0, *height) && fits(1, *width)
        })
        .prop_map(|((groups, channels, out), windows, (height, width), bias, standardise, views)| {
            let (kernel, stride, padding, dilation) = windows;
            let mut spec =
                ConvSpec::new(groups * out, Window { kernel, stride, padding, dilation }).groups(groups);
            spec.bias = bias;
            let weights = channels * spec.window.taps();
            spec.standardise = (standardise && weights > 1).then_some(1e-5);
            Case::new(
                scaled_conv(&[groups * channels, height, width], spec, false),
                (3, views, two_threads()),
            )
        })
}

pub(crate) fn wide_convolutions_over_few_positions() -> impl Strategy<Value = Case> {
    ((17usize..40, 30usize..80), (1usize..4, 1usize..3), any::<bool>(), (1usize..3, 1usize..3)).prop_map(
        |((channels, out), (size, stride), standardise, (samples, views))| {
            let mut spec = ConvSpec::new(out, Window::square(3).stride(stride).padding(1));
            spec.standardise = standardise.then_some(1e-5);
            Case::new(scaled_conv(&[channels, size, size], spec, false), (samples, views, two_threads()))
        },
    )
}

pub(crate) fn convolutions_by_minimal_filtering() -> impl Strategy<Value = Case> {
    let sizes = (4usize..12, 4usize..12, 0usize..3);
    let runs = (1usize..3, 1usize..3, 1usize..4);
    ((2usize..4, 2usize..5), sizes, any::<bool>(), any::<bool>(), any::<bool>(), runs).prop_map(
        |((channels, out), (height, width, padding), bias, relu, standardise, (samples, views, threads))| {
            let mut spec = ConvSpec::new(16 * out, Window::square(3).padding(padding));
            spec.bias = bias;
            spec.standardise = standardise.then_some(1e-5);
            let options = CpuOptions { threads, ..CpuOptions::default() };
            Case::new(scaled_conv(&[16 * channels, height, width], spec, relu), (samples, views, options))
        },
    )
}

pub(crate) fn linear_layers_over_tokens() -> impl Strategy<Value = Case> {
    ((1usize..12, 1usize..40, 1usize..70), (1usize..4, 1usize..3)).prop_map(
        |((tokens, features, hidden), (samples, views))| {
            let mut b = GraphBuilder::new(&[tokens, features]);
            let input = b.input();
            let x = linear(&mut b, "first", input, hidden).unwrap();
            let x = b.add("gelu", Activation::Gelu, &[x]).unwrap();
            let x = linear(&mut b, "second", x, 3).unwrap();
            let x = b.add("flat", Reshape(vec![tokens * 3]), &[x]).unwrap();
            Case::new(b.finish(x, CLASSES).unwrap(), (samples, views, two_threads()))
        },
    )
}
