//! Measures a step of a split model and prints one line of JSON: `submodel_bench SUBMODELS SECONDS BATCH [SIDE [cuda]]`.
//!
//! The model is ResNet-101 with group norm on images of this side, 64 unless told otherwise. Its blocks `layer3.1..layer3.22` are dealt out
//! to the submodels, and the samples of a batch are shared out among them; one submodel is the whole model. Each number of submodels needs a
//! process of its own, because the most memory is that of the process. With `cuda`, a card computes.
#![allow(clippy::print_stdout, clippy::expect_used, clippy::panic)]

#[path = "machine/mod.rs"]
mod machine;

use std::time::Instant;

#[cfg(feature = "cuda")]
use dapple_engine::cuda::{CudaExecutor, CudaOptions};
use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Layout, Targets};
use dapple_graph::{Graph, Parameters, zoo};
use machine::{cpu_seconds, peak_mb};

/// How many steps do not count, the first of which plans and, on a card, measures algorithms.
const WARM_UPS: usize = 2;
const MOST: usize = 100;

/// Samples, in parts that go through one submodel each.
struct Parts {
    inputs: Vec<f32>,
    classes: Vec<u32>,
    sample: usize,
    submodels: usize,
}

impl Parts {
    fn batches(&self) -> impl Iterator<Item = Batch<'_>> {
        let each = self.classes.len().div_ceil(self.submodels);
        let parts = self.inputs.chunks(each * self.sample).zip(self.classes.chunks(each)).enumerate();
        parts.map(|(part, (inputs, classes))| Batch {
            submodel: (self.submodels != 1).then_some(part),
            ..Batch::new(inputs, Targets::Classes(classes))
        })
    }
}

/// What the quickest of several steps took.
#[derive(Clone, Copy)]
struct Quickest {
    seconds: f64,
    cpu_seconds: f64,
}

fn quickest(seconds: f64, mut step: impl FnMut()) -> Quickest {
    (0..WARM_UPS).for_each(|_| step());
    let mut best = Quickest { seconds: f64::INFINITY, cpu_seconds: f64::INFINITY };
    let (began, mut taken) = (Instant::now(), 0);
    while taken < 1 || (began.elapsed().as_secs_f64() < seconds && taken < MOST) {
        let (start, cpu) = (Instant::now(), cpu_seconds());
        step();
        best.seconds = best.seconds.min(start.elapsed().as_secs_f64());
        best.cpu_seconds = best.cpu_seconds.min(cpu_seconds() - cpu);
        taken += 1;
    }
    best
}

fn on_processor(
    graph: &Graph,
    submodels: Vec<Graph>,
    parts: &Parts,
    rule: &ClippingRule,
    seconds: f64,
) -> (Quickest, f64) {
    let mut executor = CpuExecutor::with_submodels(graph, submodels, CpuOptions::default()).expect("threads");
    let parameters = Parameters::init(graph, 1);
    let mut gradient = Vec::new();
    let time = quickest(seconds, || {
        let mut sum = executor.gradient_sum_in(std::mem::take(&mut gradient));
        let mut loaded = executor.load(&parameters).expect("same graph");
        for batch in parts.batches() {
            loaded.clipped_sum(&batch, rule, &mut sum).expect("a good batch");
        }
        gradient = loaded.gradient(sum).expect("same graph");
    });
    (time, peak_mb())
}

#[cfg(feature = "cuda")]
fn on_card(
    graph: &Graph,
    submodels: Vec<Graph>,
    parts: &Parts,
    rule: &ClippingRule,
    seconds: f64,
) -> (Quickest, f64) {
    let batch = parts.classes.len().div_ceil(parts.submodels);
    let options = CudaOptions { batch, ..CudaOptions::default() };
    let mut executor = CudaExecutor::with_submodels(graph, submodels, options).expect("a card that works");
    executor.load(&Parameters::init(graph, 1)).expect("same graph");
    let time = quickest(seconds, || {
        let mut sum = executor.gradient_sum().expect("memory");
        let mut loaded = executor.resident().expect("loaded before");
        for batch in parts.batches() {
            loaded.clipped_sum(&batch, rule, &mut sum).expect("a good batch");
        }
        loaded.gradient(sum).expect("same graph");
    });
    (time, executor.peak_bytes() as f64 / (1 << 20) as f64)
}

#[cfg(not(feature = "cuda"))]
fn on_card(_: &Graph, _: Vec<Graph>, _: &Parts, _: &ClippingRule, _: f64) -> (Quickest, f64) {
    panic!("build with --features cuda")
}

/// The submodels; none where there is only one, which is the model itself.
fn submodels(graph: &Graph, count: usize) -> Vec<Graph> {
    let blocks = graph.blocks_named(&["layer3.1..layer3.22".to_owned()]).expect("blocks of ResNet-101");
    match count {
        1 => Vec::new(),
        count => graph.submodels(&blocks, count).expect("blocks that keep their shape"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<f64>().ok());
    let (count, seconds) = (number(0).expect("submodels") as usize, number(1).expect("seconds"));
    let (batch, side) = (number(2).expect("a batch") as usize, number(3).unwrap_or(64.0) as usize);
    let cuda = arguments.iter().any(|argument| argument == "cuda");
    let graph = zoo::resnet(zoo::ResNet::R101, &[3, side, side], 10, zoo::Norm::Group(32)).expect("an image");
    let sample = 3 * side * side;
    let inputs = (0..batch * sample).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    let classes = (0..batch as u32).map(|i| i % 10).collect();
    let parts = Parts { inputs, classes, sample, submodels: count };
    let rule =
        ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, &Layout::new(&graph)).expect("a rule that fits");
    let run = if cuda { on_card } else { on_processor };
    let (Quickest { seconds, cpu_seconds }, peak) =
        run(&graph, submodels(&graph, count), &parts, &rule, seconds);
    println!(
        "{{\"submodels\":{count},\"batch\":{batch},\"side\":{side},\"cuda\":{cuda},\"seconds\":{seconds:.4},\"cpu_seconds\":{cpu_seconds:.4},\"peak_mb\":{peak:.0}}}"
    );
}
