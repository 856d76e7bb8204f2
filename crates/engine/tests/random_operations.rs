//! The CPU executor against the reference executor on every operation that is no convolution of an image and no linear layer, with
//! random shapes, views, threads and batches, the empty one among them.
#![allow(clippy::unwrap_used)]

mod common;

use common::{CLASSES, agree, agree_on, cases, head, linear};
use dapple_engine::{Batch, Dropout, Options, Targets};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, IGNORED, Loss, NodeId, Op, Window};
use proptest::prelude::*;

/// Samples, views, threads and samples a thread takes together.
fn runs() -> impl Strategy<Value = (usize, usize, Options)> {
    (0usize..4, 1usize..4, 1usize..4, 0usize..3, any::<bool>()).prop_map(
        |(samples, views, threads, group, checkpoints)| {
            (samples, views, Options { threads, group, checkpoints, ..Options::default() })
        },
    )
}

/// An image through a pointwise convolution, so that the operation's data gradient is seen, an operation, and the head.
fn image(shape: &[usize], operation: impl FnOnce(&mut GraphBuilder, NodeId) -> NodeId) -> Graph {
    let mut b = GraphBuilder::new(shape);
    let spec = ConvSpec::new(shape[0], Window::new(shape.len() - 1, 1)).bias();
    let x = b.conv("first", b.input(), spec).unwrap();
    let x = operation(&mut b, x);
    head(b, x, CLASSES).unwrap()
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

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn clips(
        (channels, out, groups) in (1usize..4, 1usize..4, 1usize..3),
        (kernel, stride, padding, dilation) in (1usize..4, 1usize..3, 0usize..2, 1usize..3),
        (depth, height, width) in (5usize..7, 5usize..7, 5usize..7),
        (samples, views, options) in runs(),
    ) {
        let window = Window::new(3, kernel).stride(stride).padding(padding).dilation(dilation);
        let graph = image(&[channels * groups, depth, height, width], |b, x| {
            b.conv("clip", x, ConvSpec::new(out * groups, window).groups(groups).bias()).unwrap()
        });
        agree(graph, samples, views, options)?;
    }

    #[test]
    fn depthwise_convolutions(
        channels in 2usize..20,
        (height, width) in (5usize..9, 5usize..9),
        window in window(),
        (samples, views, options) in runs(),
    ) {
        let graph = image(&[channels, height, width], |b, x| {
            b.conv("depthwise", x, ConvSpec::new(channels, window).groups(channels)).unwrap()
        });
        agree(graph, samples, views, options)?;
    }

    #[test]
    fn pooling(
        (channels, height, width) in (1usize..20, 5usize..9, 5usize..9),
        window in window(),
        (rows, columns) in (1usize..6, 1usize..6),
        kind in 0usize..3,
        (samples, views, options) in runs(),
    ) {
        let graph = image(&[channels, height, width], |b, x| {
            let op = match kind {
                0 => Op::MaxPool(window),
                1 => Op::AvgPool(window),
                _ => Op::AdaptiveAvgPool(vec![rows, columns]),
            };
            b.add("pool", op, &[x]).unwrap()
        });
        agree(graph, samples, views, options)?;
    }

    #[test]
    fn upsampling(
        (channels, height, width) in (1usize..20, 1usize..6, 1usize..6),
        (rows, columns) in (1usize..9, 1usize..9),
        (samples, views, options) in runs(),
    ) {
        let graph = image(&[channels, height, width], |b, x| b.add("up", Op::Upsample([rows, columns]), &[x]).unwrap());
        agree(graph, samples, views, options)?;
    }

    #[test]
    fn group_and_batch_norms(
        (groups, size) in (1usize..70, 1usize..4),
        (height, width) in (2usize..6, 2usize..6),
        relu: bool,
        frozen: bool,
        (samples, views, options) in runs(),
    ) {
        let graph = image(&[groups * size, height, width], |b, x| {
            let x = match frozen {
                true => b.batch_norm("norm", x, false).unwrap(),
                false => b.group_norm("norm", x, groups).unwrap(),
            };
            if relu { b.add("relu", Op::Relu, &[x]).unwrap() } else { x }
        });
        agree(graph, samples, views, options)?;
    }

    #[test]
    fn layer_norms_and_activations(
        (tokens, features) in (1usize..6, 3usize..40),
        op in prop::sample::select(vec![Op::Relu, Op::Relu6, Op::Gelu, Op::Silu, Op::Tanh, Op::Scale(-0.4), Op::Softmax]),
        (samples, views, options) in runs(),
    ) {
        let mut b = GraphBuilder::new(&[tokens, features]);
        let input = b.input();
        let x = linear(&mut b, "first", input, features).unwrap();
        let x = b.layer_norm("norm", x, 1e-5).unwrap();
        let x = b.add("activation", op, &[x]).unwrap();
        agree(head(b, x, CLASSES).unwrap(), samples, views, options)?;
    }

    #[test]
    fn attention(
        (tokens, keys) in (1usize..20, 1usize..20),
        (heads, width) in (1usize..4, 1usize..9),
        (samples, views, options) in runs(),
    ) {
        let features = heads * width;
        let mut b = GraphBuilder::new(&[tokens.max(keys), 5]);
        let input = b.input();
        let [query, key, value] =
            ["query", "key", "value"].map(|name| linear(&mut b, name, input, features).unwrap());
        let first = |b: &mut GraphBuilder, name: &str, x: NodeId, end: usize| {
            b.add(name, Op::Slice { axis: 0, start: 0, end }, &[x]).unwrap()
        };
        let query = first(&mut b, "queries", query, tokens);
        let key = first(&mut b, "keys", key, keys);
        let value = first(&mut b, "values", value, keys);
        let x = b.add("attention", Op::Attention { heads }, &[query, key, value]).unwrap();
        agree(head(b, x, CLASSES).unwrap(), samples, views, options)?;
    }

    #[test]
    fn matrix_products(
        (batches, rows, inner, columns) in (1usize..3, 1usize..20, 1usize..20, 1usize..20),
        transpose: bool,
        (samples, views, options) in runs(),
    ) {
        let mut b = GraphBuilder::new(&[batches, rows.max(columns).max(inner), 3]);
        let input = b.input();
        let (height, width) = if transpose { (columns, inner) } else { (inner, columns) };
        let side = |b: &mut GraphBuilder, name: &str, height: usize, width: usize| {
            let x = linear(b, name, input, width).unwrap();
            b.add(&format!("{name}.cut"), Op::Slice { axis: 1, start: 0, end: height }, &[x]).unwrap()
        };
        let left = side(&mut b, "left", rows, inner);
        let right = side(&mut b, "right", height, width);
        let x = b.add("product", Op::MatMul { transpose }, &[left, right]).unwrap();
        agree(head(b, x, CLASSES).unwrap(), samples, views, options)?;
    }

    #[test]
    fn moves(
        shape in prop::array::uniform3(2usize..7),
        axes in Just(vec![0usize, 1, 2]).prop_shuffle(),
        (axis, start, end) in (0usize..3, 0usize..2, 0usize..4),
        rows in prop::collection::vec(0usize..2, 1..5),
        (samples, views, options) in runs(),
    ) {
        let graph = image(&shape, |b, x| {
            let cut = Op::Slice { axis, start, end: (start + 1 + end).min(shape[axis]) };
            let cut = b.add("cut", cut, &[x]).unwrap();
            let joined = b.add("joined", Op::Concat { axis }, &[cut, x, cut]).unwrap();
            let moved = b.add("moved", Op::Permute(axes), &[joined]).unwrap();
            let chosen = b.add("chosen", Op::Gather(rows), &[moved]).unwrap();
            let product = b.add("product", Op::Mul, &[chosen, chosen]).unwrap();
            b.add("sum", Op::Add, &[product, chosen]).unwrap()
        });
        agree(graph, samples, views, options)?;
    }

    #[test]
    fn losses(
        (classes, height, width) in (2usize..7, 1usize..4, 1usize..4),
        kind in 0usize..4,
        smoothing in 0.0f32..0.5,
        dropout in prop::option::of((0.1f32..0.8, any::<bool>())),
        auxiliary in prop::option::of(0.1f32..2.0),
        (samples, views, options) in runs(),
    ) {
        let mut b = GraphBuilder::new(&[3, height, width]);
        let mut x = b.conv("conv", b.input(), ConvSpec::new(classes, Window::square(1)).bias()).unwrap();
        if let Some((rate, channels)) = dropout {
            let op = if channels { Op::ChannelDropout(rate) } else { Op::Dropout(rate) };
            x = b.add("dropout", op, &[x]).unwrap();
        }
        if let Some(weight) = auxiliary {
            b.auxiliary(x, weight);
            x = b.conv("main", x, ConvSpec::new(classes, Window::square(1))).unwrap();
        }
        let loss = if kind == 3 { Loss::SquaredError } else { Loss::CrossEntropy { label_smoothing: smoothing } };
        let graph = b.finish(x, loss).unwrap();
        let positions = samples * views * height * width;
        let value = |name: &str, index: usize| common::uniform(name, index) as f32;
        let inputs: Vec<f32> = (0..3 * positions).map(|i| value("input", i)).collect();
        let labels: Vec<u32> = (0..positions as u32)
            .map(|i| if kind == 1 && i % 3 == 0 { IGNORED } else { i * 7 % classes as u32 })
            .collect();
        let values: Vec<f32> = (0..positions * classes).map(|i| value("value", i).abs()).collect();
        let targets = match kind {
            0 | 1 => Targets::Classes(&labels),
            2 => Targets::Probabilities(&values),
            _ => Targets::Values(&values),
        };
        let records: Vec<usize> = (0..samples).map(|sample| 11 + 3 * sample).collect();
        let dropout = dropout.map(|_| Dropout { seed: 3, records: &records });
        agree_on(&graph, &Batch { views, dropout, ..Batch::new(&inputs, targets) }, options)?;
    }
}
