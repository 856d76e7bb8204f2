//! The CPU executor against the reference executor on convolutions and linear layers of random shape.
#![allow(clippy::unwrap_used)]

mod common;

use common::{agree, cases};
use dapple_engine::Options;
use dapple_graph::{ConvSpec, Graph, GraphBuilder, Init, Op, Window};
use proptest::prelude::*;

/// A convolution between a pointwise one and a linear layer. Standardised weights have variance one whatever the fan-in, so their
/// output is scaled back: large logits would turn their own rounding into the largest error.
fn conv(shape: &[usize], spec: ConvSpec, relu: bool) -> Graph {
    let mut builder = GraphBuilder::new(shape);
    let input = builder.input();
    let mut x = builder.conv("first", input, ConvSpec::new(shape[0], Window::square(1)).bias()).unwrap();
    let fan_in = shape[0] / spec.groups * spec.window.taps();
    let scale = if spec.standardise.is_some() { 1.0 / (fan_in as f32).sqrt() } else { 1.0 };
    x = builder.conv("conv", x, spec).unwrap();
    if relu {
        x = builder.add("relu", Op::Relu, &[x]).unwrap();
    }
    x = builder.add("scale", Op::Scale(scale), &[x]).unwrap();
    let len = builder.shape(x).iter().product();
    x = builder.add("flatten", Op::Reshape(vec![len]), &[x]).unwrap();
    x = builder.linear("head", x, 4, Init::XavierUniform, Init::Constant(0.0)).unwrap();
    builder.finish(x, common::CLASSES).unwrap()
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn convolutions(
        (groups, channels, out) in (1usize..4, 1usize..9, 1usize..9),
        (kernel, stride, padding, dilation) in (1usize..4, 1usize..4, 0usize..3, 1usize..3),
        (height, width) in (5usize..10, 5usize..10),
        bias: bool,
        standardise: bool,
        (samples, views, threads, group) in (1usize..4, 1usize..3, 1usize..4, 1usize..3),
    ) {
        let mut spec = ConvSpec::new(out * groups, Window::square(kernel).stride(stride).padding(padding).dilation(dilation))
            .groups(groups);
        spec.bias = bias;
        // A filter with a single weight has no deviation to divide by.
        spec.standardise = (standardise && channels * kernel > 1).then_some(1e-5);
        let graph = conv(&[channels * groups, height, width], spec, false);
        agree(graph, samples, views, Options { threads, group, ..Options::default() })?;
    }

    #[test]
    fn wide_convolutions_over_few_positions(
        (channels, out) in (17usize..40, 30usize..80),
        (size, stride) in (1usize..4, 1usize..3),
        standardise: bool,
        (samples, views) in (1usize..3, 1usize..3),
    ) {
        let mut spec = ConvSpec::new(out, Window::square(3).stride(stride).padding(1));
        spec.standardise = standardise.then_some(1e-5);
        let graph = conv(&[channels, size, size], spec, false);
        agree(graph, samples, views, Options { threads: 2, ..Options::default() })?;
    }

    #[test]
    fn convolutions_by_minimal_filtering(
        (channels, out) in (2usize..4, 2usize..5),
        (height, width, padding) in (4usize..12, 4usize..12, 0usize..3),
        bias: bool,
        relu: bool,
        standardise: bool,
        (samples, views, threads) in (1usize..3, 1usize..3, 1usize..4),
    ) {
        let mut spec = ConvSpec::new(16 * out, Window::square(3).padding(padding));
        spec.bias = bias;
        spec.standardise = standardise.then_some(1e-5);
        let graph = conv(&[16 * channels, height, width], spec, relu);
        agree(graph, samples, views, Options { threads, ..Options::default() })?;
    }

    #[test]
    fn linear_layers_over_tokens(
        (tokens, features, hidden) in (1usize..12, 1usize..40, 1usize..70),
        (samples, views) in (1usize..4, 1usize..3),
    ) {
        let mut builder = GraphBuilder::new(&[tokens, features]);
        let input = builder.input();
        let x = builder.linear("first", input, hidden, Init::XavierUniform, Init::Constant(0.0)).unwrap();
        let x = builder.add("gelu", Op::Gelu, &[x]).unwrap();
        let x = builder.linear("second", x, 3, Init::XavierUniform, Init::Constant(0.0)).unwrap();
        let x = builder.add("flat", Op::Reshape(vec![tokens * 3]), &[x]).unwrap();
        let graph = builder.finish(x, common::CLASSES).unwrap();
        agree(graph, samples, views, Options { threads: 2, ..Options::default() })?;
    }
}
