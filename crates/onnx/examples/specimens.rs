//! Writes an ONNX file for every operation, with inputs and what the reference executor says about them, for `python/tests/test_onnx.py`.
//!
//!     cargo run -p dapple-onnx --example specimens -- FOLDER
#![allow(clippy::unwrap_used, reason = "a program for tests")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use dapple_engine::reference::ReferenceExecutor;
use dapple_graph::op::{
    Activation, AdaptiveAvgPool, AvgPool, Dropout, LayerNorm, NormAxes, PooledAttention, RelativeTable,
    Reshape, Slice, TokenConv,
};
use dapple_graph::{Graph, GraphBuilder, Init, Window, for_each_operation, zoo};
use safetensors::tensor::{Dtype, TensorView};

const SAMPLES: usize = 3;

/// The names of all operations, as the list has them.
macro_rules! names {
    ($($operation:ident)+) => {
        const OPERATIONS: &[&str] = &[$(stringify!($operation)),+];
        fn variant(op: &dapple_graph::Op) -> &'static str {
            match op { $(dapple_graph::Op::$operation(_) => stringify!($operation),)+ }
        }
    };
}
for_each_operation!(names);

fn main() {
    let folder = std::env::args().nth(1).expect("the folder to write to");
    let mut graphs = common::specimens();
    graphs.push(("own", own()));
    graphs.push(("tokens", tokens(false)));
    graphs.push(("tokens_of_a_subset", tokens(true)));
    graphs.push(("transformer_of_a_subset", transformer_of_a_subset()));
    let seen: BTreeSet<&str> =
        graphs.iter().flat_map(|(_, graph)| graph.nodes()).map(|node| variant(&node.op)).collect();
    let missing: Vec<&&str> = OPERATIONS.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(missing.is_empty(), "no specimen has {missing:?}");
    for (name, graph) in &graphs {
        write(Path::new(&folder), name, graph);
    }
}

/// What no specimen of the engine has: windows with holes, uneven and even pooling, norms without scales, dropout.
fn own() -> Graph {
    let mut b = GraphBuilder::new(&[4, 9, 10]);
    let window = Window::square(2).dilation(2).padding(1);
    let x = b.add("holes", AvgPool(window), &[b.input()]).unwrap();
    let x = b.group_norm("groups", x, 2).unwrap();
    let plain = LayerNorm { over: NormAxes::Channels, centred: true, eps: 1e-5, affine: None };
    let x = b.add("plain", plain, &[x]).unwrap();
    let plain = LayerNorm { over: NormAxes::Last(2), centred: false, eps: 1e-3, affine: None };
    let x = b.add("plain_root", plain, &[x]).unwrap();
    let x = b.rms_norm("root", x, NormAxes::Channels, 1e-5).unwrap();
    let x = b.add("dropout", Dropout::of_channels(0.4), &[x]).unwrap();
    let x = b.add("silu", Activation::Silu, &[x]).unwrap();
    let x = b.channel_scale("channels", x, 0, 0.5).unwrap();
    let x = b.channel_scale("columns", x, 2, 0.5).unwrap();
    let x = b.add("uneven", AdaptiveAvgPool(vec![4, 6]), &[x]).unwrap();
    let x = b.add("even", AdaptiveAvgPool(vec![2, 3]), &[x]).unwrap();
    common::head(b, x, common::CLASSES).unwrap()
}

/// Pooled tokens with tables that are resampled, with or without a number for each token that says whether anybody attends to it.
fn tokens(subset: bool) -> Graph {
    let (places, features) = (2 * 3 * 4, 8);
    let mut b = GraphBuilder::new(&[(1 + places) * (features + 1)]);
    let flat = (1 + places) * features;
    let x = b.add("values", Slice { axis: 0, start: 0, end: flat }, &[b.input()]).unwrap();
    let x = b.add("rows", Reshape(vec![1 + places, features]), &[x]).unwrap();
    let numbers =
        b.add("numbers", Slice { axis: 0, start: flat, end: flat + 1 + places }, &[b.input()]).unwrap();
    // Half of the numbers become zero; the first is a sum of many and does not.
    let numbers = b.add("positive", Activation::Relu, &[numbers]).unwrap();
    let weight = b.parameter("conv.weight", &[4, 1, 3, 3, 3], Init::Normal(0.3), false).unwrap();
    let window = Window { stride: vec![1, 2, 2], ..Window::new(3, 3).padding(1) };
    let conv = TokenConv { grid: [2, 3, 4], window, heads: 2, weight };
    let query = b.add("query", conv, &[x]).unwrap();
    let tables = [(3, "time"), (4, "height"), (7, "width")].map(|(rows, name)| {
        let values = b.parameter(name, &[rows, 4], Init::Normal(0.5), false).unwrap();
        RelativeTable { rows, values }
    });
    let attention = PooledAttention { heads: 2, queries: [2, 2, 2], keys: [2, 3, 4], tables };
    let mut inputs = vec![query, x, x];
    inputs.extend(subset.then_some(numbers));
    let x = b.add("attention", attention, &inputs).unwrap();
    common::head(b, x, common::CLASSES).unwrap()
}

fn transformer_of_a_subset() -> Graph {
    let model = zoo::VisionTransformer::named("vit-ti-16").unwrap();
    zoo::vision_transformer_on_subsets(model, &[3, 48, 32], 5).unwrap()
}

fn write(folder: &Path, name: &str, graph: &Graph) {
    let parameters = common::parameters(graph);
    let length: usize = graph.input_shape().iter().product();
    let mut inputs = common::Data::new(graph, SAMPLES, 1).inputs;
    if name == "transformer_of_a_subset" {
        // Behind the image: the class token, which all attend to, and a share for every second patch.
        let image = 3 * 48 * 32;
        for sample in inputs.chunks_exact_mut(length) {
            sample[image..]
                .iter_mut()
                .enumerate()
                .for_each(|(place, share)| *share = ((place + 1) % 2) as f32);
        }
    }
    let executor = ReferenceExecutor::new(graph, &parameters).unwrap();
    let outputs = inputs.chunks_exact(length).flat_map(|input| executor.forward(input).unwrap());
    let outputs: Vec<f32> = outputs.map(|value| value as f32).collect();
    let mut file = File::create(folder.join(format!("{name}.onnx"))).unwrap();
    dapple_onnx::write(graph, &parameters, &[("specimen", name)], &mut file).unwrap();
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let stored =
        [("input", graph.input_shape(), bytes(&inputs)), ("output", graph.output_shape(), bytes(&outputs))];
    let views = stored.iter().map(|(name, shape, bytes)| {
        (*name, TensorView::new(Dtype::F32, [&[SAMPLES][..], shape].concat(), bytes).unwrap())
    });
    std::fs::write(folder.join(format!("{name}.safetensors")), safetensors::serialize(views, None).unwrap())
        .unwrap();
}
