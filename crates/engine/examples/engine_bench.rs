//! Measures the CPU executor and prints one line of JSON for each batch size: `engine_bench MODEL THREADS SECONDS BATCH..`.
//!
//! Models are small-cnn, wrn-16-4, resnet-18, vgg-11, resnet-50, vit-b-16 and its like, each at the input size of the peer benches, and the
//! segmentation models with the side of the image, for example `deeplab-v3-plus-resnet-50@505`. In the place of a model, `matmul` measures
//! how fast the kernels are on large matrix products, and `conv:CHANNELS:OUT:SIZE:KERNEL` measures four convolutions of one shape, twice
//! there and back; a fifth number is their dilation, a sixth their groups.
//!
//! The environment decides the rest: `NORM` (group, frozen or removed, of a segmentation model), `TRAINABLE` (how the names of parameters
//! that train begin), `GROUP`, `MEMORY_MB` and `CHECKPOINTS`.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic)]

#[path = "machine/mod.rs"]
mod machine;
#[path = "models/mod.rs"]
mod models;

use std::time::Instant;

use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Layout, Targets};
use dapple_graph::op::{AdaptiveAvgPool, Gather, Reshape};
use dapple_graph::{ConvSpec, Graph, GraphBuilder, GraphError, Init, Loss, Parameters, Window, zoo};
use machine::{cpu_seconds, peak_mb};

fn model(name: &str) -> Graph {
    let built = match name {
        // The rows of one sample are multiplied by a square weight, so forward, data gradient and weight gradient are all plain products.
        "matmul" => {
            let mut builder = GraphBuilder::new(&[1024, 1024]);
            let mut x = builder.input();
            for layer in 0..8 {
                let name = format!("linear{layer}");
                x = builder.linear(&name, x, 1024, Init::XavierUniform, Init::Constant(0.0)).expect("fits");
            }
            x = builder.add("row", Gather(vec![0]), &[x]).expect("fits");
            x = builder.add("flatten", Reshape(vec![1024]), &[x]).expect("fits");
            builder.finish(x, Loss::CrossEntropy { label_smoothing: 0.0 })
        }
        other => match other.split_once('@') {
            Some((name, side)) => segmentation(name, side.parse().expect("a side")),
            None => models::named(other).unwrap_or_else(|| convolutions(other)),
        },
    };
    let mut graph = built.expect("the zoo's models fit their inputs");
    if let Ok(prefix) = std::env::var("TRAINABLE") {
        graph.set_trainable(|name| name.starts_with(&prefix));
    }
    graph
}

/// A segmentation model for the 19 classes of Cityscapes.
fn segmentation(name: &str, side: usize) -> Result<Graph, GraphError> {
    use zoo::{Backbone, Norm, OutputStride, ResNet};
    let norm = match std::env::var("NORM").as_deref() {
        Ok("frozen") => Norm::Frozen,
        Ok("removed") => Norm::Removed,
        _ => Norm::Group(32),
    };
    let (backbone, decoder) = match name.strip_prefix("psp-net-") {
        Some(backbone) => (backbone, None),
        None => (name.strip_prefix("deeplab-v3-plus-").unwrap_or(name), Some(OutputStride::Sixteen)),
    };
    let backbone = match backbone {
        "resnet-18" => Backbone::ResNet(ResNet::R18),
        "resnet-34" => Backbone::ResNet(ResNet::R34),
        "resnet-50" => Backbone::ResNet(ResNet::R50),
        "resnet-101" => Backbone::ResNet(ResNet::R101),
        "mobilenet-v2" => Backbone::MobileNetV2,
        other => panic!("unknown backbone {other}"),
    };
    let shape = [3, side, side];
    match (decoder, backbone) {
        (Some(stride), backbone) => zoo::deeplab_v3_plus(backbone, stride, &shape, 19, norm),
        (None, Backbone::ResNet(depth)) => zoo::psp_net(depth, &shape, 19, norm),
        (None, Backbone::MobileNetV2) => panic!("PSPNet has no such backbone"),
    }
}

/// Four convolutions of one shape, `conv:CHANNELS:OUT:SIZE:KERNEL[:DILATION[:GROUPS]]`, then a small head.
fn convolutions(shape: &str) -> Result<Graph, GraphError> {
    let numbers: Vec<usize> =
        shape.split(':').skip(1).map(|number| number.parse().expect("numbers")).collect();
    let (channels, out, size, kernel, dilation, groups) = match numbers[..] {
        [channels, out, size, kernel] => (channels, out, size, kernel, 1, 1),
        [channels, out, size, kernel, dilation] => (channels, out, size, kernel, dilation, 1),
        [channels, out, size, kernel, dilation, groups] => (channels, out, size, kernel, dilation, groups),
        _ => panic!("unknown model {shape}"),
    };
    let mut builder = GraphBuilder::new(&[channels, size, size]);
    let mut x = builder.input();
    for (layer, out) in [out, channels, out, channels].into_iter().enumerate() {
        let window = Window::square(kernel).padding(dilation * (kernel / 2)).dilation(dilation);
        let spec = ConvSpec::new(out, window).groups(groups);
        x = builder.conv(&format!("conv{layer}"), x, spec)?;
    }
    x = builder.add("pool", AdaptiveAvgPool(vec![1, 1]), &[x])?;
    x = builder.add("flatten", Reshape(vec![channels]), &[x])?;
    x = builder.linear("head", x, 10, Init::XavierUniform, Init::Constant(0.0))?;
    builder.finish(x, Loss::CrossEntropy { label_smoothing: 0.0 })
}

/// How many samples the step has that is not measured.
const WARM: usize = 32;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("a model");
    let threads: usize = arguments.next().and_then(|n| n.parse().ok()).expect("threads");
    let seconds: f64 = arguments.next().and_then(|n| n.parse().ok()).expect("seconds");
    let graph = model(&name);
    let setting = |name: &str| std::env::var(name).ok().and_then(|g| g.parse::<usize>().ok()).unwrap_or(0);
    let (group, memory) = (setting("GROUP"), setting("MEMORY_MB") << 20);
    let options = CpuOptions { threads, group, memory, checkpoints: setting("CHECKPOINTS") > 0 };
    let mut executor = CpuExecutor::new(&graph, options).expect("threads");
    let parameters = Parameters::init(&graph, 1);
    let operations = executor.operations() as f64;
    let input: usize = graph.input_shape().iter().product();
    let mut gradient = Vec::new();
    for batch in arguments.map(|b| b.parse::<usize>().expect("a batch size")) {
        let inputs: Vec<f32> = (0..batch * input).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
        let positions: usize = graph.output_shape()[1..].iter().product();
        let classes: Vec<u32> = (0..(batch * positions) as u32).map(|i| i % 10).collect();
        let layout = Layout::new(&graph);
        let rule = |clipping| ClippingRule::new(&clipping, &layout).expect("a rule that fits");
        let mut step = |samples: usize, rule: &ClippingRule| {
            let (began, cpu) = (Instant::now(), cpu_seconds());
            let mut sum = executor.gradient_sum_in(std::mem::take(&mut gradient));
            let mut loaded = executor.load(&parameters).expect("same graph");
            let targets = Targets::Classes(&classes[..samples * positions]);
            let batch = Batch::new(&inputs[..samples * input], targets);
            loaded.clipped_sum(&batch, rule, &mut sum).expect("a good batch");
            gradient = loaded.gradient(sum).expect("same graph");
            (began.elapsed().as_secs_f64(), cpu_seconds() - cpu)
        };
        let mut modes = [("on", Clipping::Flat { max_norm: 1.0 }), ("off", Clipping::Off)]
            .map(|(mode, clipping)| (mode, rule(clipping), f64::INFINITY, f64::INFINITY));
        // Memory is touched for the first time before the measurement. The two modes take turns, so that neither has the quieter machine.
        for (_, rule, ..) in &modes {
            step(batch.min(WARM), rule);
        }
        let began = Instant::now();
        let mut steps = 0;
        while steps < 1 || (began.elapsed().as_secs_f64() < 2.0 * seconds && steps < 200) {
            for (_, rule, best, least) in &mut modes {
                let (wall, cpu) = step(batch, rule);
                *best = best.min(wall);
                *least = least.min(cpu);
            }
            steps += 1;
        }
        for (mode, _, best, least) in modes {
            println!(
                "{{\"task\":\"{name}\",\"batch\":{batch},\"threads\":{threads},\"clipping\":\"{mode}\",\"samples_per_second\":{:.3},\"cpu_seconds\":{least:.4},\"gflops\":{:.2},\"gflops_per_cpu_second\":{:.2},\"peak_mb\":{:.1},\"steps\":{steps}}}",
                batch as f64 / best,
                operations * batch as f64 / best / 1e9,
                operations * batch as f64 / least / 1e9,
                peak_mb()
            );
        }
    }
}
