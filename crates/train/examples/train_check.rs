//! Training on a GPU: `train_check` compares it with training on the processor, `train_check MODEL SIDE CHANNELS BATCH STEPS` measures
//! the whole step against the executor alone in every precision. Without a GPU it says so and succeeds.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use dapple_engine::cuda::{CudaError, CudaExecutor, CudaOptions, Precision};
use dapple_engine::{Batch, Clipping, Targets};
use dapple_graph::{Graph, Parameters, weights, zoo};
use dapple_plan::spec::{DeviceChoice, FactorPrecision, Performance};
use dapple_train::{Event, Observer, Request, Status, TrainError, certify, resume, resume_with, start};

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Recorder, model_bytes, request, write_data};

/// The share by which first weights are moved to see how much a curve makes of a small difference.
const MOVED: f32 = 1e-5;
/// The card's curve may differ from the processor's so many times as much as the processor's own does from other first weights.
const FACTOR: f64 = 10.0;

const CPU: Performance = on(DeviceChoice::Cpu);
const GPU: Performance = on(DeviceChoice::Cuda(0));

const fn on(device: DeviceChoice) -> Performance {
    Performance { threads: None, microbatch: None, prefetch: None, device: Some(device), precision: None }
}

/// A seeded plan over images of one channel and four classes.
fn plan(folder: &Path, model: &str, optimiser: &str, performance: &Performance) -> Request {
    let mut request = request(
        folder,
        &format!(
            "[model]\nname = '{model}'\nseed = 1\n[optimiser]\n{optimiser}\n[train]\nseed = 1\ncheckpoint_every = 5\n\
             [privacy]\nnoise_multiplier = 0.3\ndelta = 1e-5\n[sampling]\nbatch = 64\nsteps = 20\n"
        ),
    );
    request.spec.performance = performance.clone();
    request
}

/// Losses of twenty steps.
fn losses(folder: &Path, name: &str, request: &Request) -> Vec<f64> {
    let mut recorder = Recorder::default();
    start(request, &folder.join(name), &mut recorder).expect("a run");
    recorder.losses.into_iter().flatten().collect()
}

/// The largest share by which two curves differ.
fn difference(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one / other - 1.0).abs()).fold(0.0, f64::max)
}

/// Compares the curve on the card with the processor's, beside what the processor makes of slightly other first weights.
fn curves(folder: &Path, model: &str, optimiser: &str) {
    let graph = graph(model, &[1, 28, 28], 4);
    let save = |name: &str, parameters: &Parameters| {
        weights::save(&graph, parameters, &folder.join(name)).expect("a writable folder");
    };
    let mut parameters = Parameters::init(&graph, 1);
    save("first", &parameters);
    for (i, value) in parameters.values_mut().iter_mut().enumerate() {
        *value *= if i % 2 == 0 { 1.0 + MOVED } else { 1.0 - MOVED };
    }
    save("moved", &parameters);
    let run = |name: &str, first: &str, performance: Performance| {
        let mut request = plan(folder, model, optimiser, &performance);
        request.spec.model.weights = Some(first.to_owned());
        losses(folder, &format!("{model}-{name}"), &request)
    };
    let processor = run("cpu", "first", CPU);
    let moved = difference(&run("moved", "moved", CPU), &processor);
    print!(
        "{model}: from first weights moved by {MOVED:.0e}, losses of 20 steps differ by {moved:.1e}; on the card"
    );
    for precision in [FactorPrecision::F32, FactorPrecision::Tf32, FactorPrecision::Bf16] {
        let card = run(precision.name(), "first", Performance { precision: Some(precision), ..GPU });
        let share = difference(&card, &processor);
        print!(" by {share:.1e} in {}", precision.name());
        assert!(share < FACTOR * moved || precision != FactorPrecision::F32, "{model}");
    }
    println!();
}

/// A run that is stopped on the card and goes on there ends as one that was not; one may also go on elsewhere.
fn stopped(folder: &Path) {
    let optimiser = "kind = 'adam'\nlearning_rate = 0.01\nema = 0.9";
    let request = plan(folder, "small-cnn", optimiser, &GPU);
    losses(folder, "whole", &request);
    for (name, performance) in [("parts", &GPU), ("elsewhere", &CPU)] {
        let out = folder.join(name);
        let mut recorder = Recorder { stop_after: Some(7), ..Recorder::default() };
        start(&request, &out, &mut recorder).expect("a run");
        let mut recorder = Recorder::default();
        let outcome = resume_with(&out, performance, &mut recorder).expect("a run");
        assert_eq!((outcome.updates, outcome.certificate.status), (20, Status::Finished));
        let same = model_bytes(&out) == model_bytes(&folder.join("whole"));
        println!(
            "{name}: same bits {same}, {:?}, told {:?}",
            outcome.certificate.machines, recorder.warnings
        );
        assert_eq!((same, recorder.warnings.len()), (name == "parts", usize::from(name == "elsewhere")));
    }
}

/// A card that runs out of memory in the first step.
fn out_of_memory(folder: &Path) {
    let records = 33_000;
    write_data(folder, "large", records, 32);
    // The deeper network: more activations than any card holds at the most samples that kernels can count.
    let text = "[model]\nname = 'wrn-40-4'\n[optimiser]\nlearning_rate = 0.1\n[privacy]\nrelation = 'replace'\nnoise_multiplier = 1.0\n\
        delta = 1e-5\n[sampling]\nscheme = 'without-replacement'\nbatch = 32767\nsteps = 3\n\
        [performance]\ndevice = 'cuda'\nmicrobatch = 32767\n";
    let mut request = request(folder, text);
    request.spec.data.train = Some("large.npy".to_owned());
    request.spec.data.train_labels = Some("large-labels.npy".to_owned());
    let out = folder.join("large");
    let error = start(&request, &out, &mut Recorder::default()).expect_err("more memory than there is");
    println!("{error}; hint: {}", error.hint().unwrap_or_default());
    assert!(
        matches!(&error, TrainError::Step { step: 1, source } if matches!(**source, TrainError::Device { .. }))
    );
    let certificate = certify(&out).expect("a folder that holds");
    assert_eq!((certificate.status, certificate.steps_spent), (Status::Running, 1));
    let smaller = Performance { microbatch: Some(1024), ..Performance::default() };
    let outcome = resume_with(&out, &smaller, &mut Recorder::default()).expect("enough memory");
    assert_eq!((outcome.updates, outcome.certificate.steps_spent), (2, 3));
}

fn check() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write_data(folder, "train", 512, 28);
    let momentum = "learning_rate = 0.05\nmomentum = 0.9\nnesterov = true\nweight_decay = 0.001";
    let adam = "kind = 'adam'\nlearning_rate = 0.0005\nema = 0.9";
    for (model, optimiser) in [("small-cnn", momentum), ("wrn-16-4", adam), ("resnet-18", momentum)] {
        curves(folder, model, optimiser);
    }
    stopped(folder);
    out_of_memory(folder);
    // A run that was finished is left as it is.
    resume(&folder.join("whole"), &mut Recorder::default()).expect("a finished run");
    println!("training on the card agrees with training on the processor");
}

/// When each step ended, and how many records it drew.
#[derive(Default)]
struct Clock(Vec<(Instant, usize)>);

impl Observer for Clock {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if let Event::Step(report) = event {
            self.0.push((Instant::now(), report.drawn));
        }
        ControlFlow::Continue(())
    }
}

/// Steps that a rate leaves out: they measure algorithms and fill buffers.
const WARM: usize = 10;

fn measure(model: &str, side: usize, channels: usize, batch: usize, steps: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (records, outer) = (20 * batch, side + 8);
    let bytes = (0..(records * outer * outer * channels) as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8);
    let labels: Vec<u8> = (0..records).flat_map(|i| ((i % 10) as i64).to_le_bytes()).collect();
    let shape = format!("{records}, {outer}, {outer}, {channels}");
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes).expect("room");
    write("train.npy", common::npy("|u1", &shape, &bytes.collect::<Vec<u8>>()));
    write("train-labels.npy", common::npy("<i8", &format!("{records},"), &labels));
    for (name, precision) in [
        (FactorPrecision::F32, Precision::F32),
        (FactorPrecision::Tf32, Precision::Tf32),
        (FactorPrecision::Bf16, Precision::Bf16),
    ] {
        let mut request = request(
            folder.path(),
            &format!(
                "flip = true\n[model]\nname = '{model}'\n[optimiser]\nlearning_rate = 0.01\nmomentum = 0.9\nema = 0.999\n\
                 [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[pipeline]\ncrop = '{side}x{side}'\n\
                 [sampling]\nbatch = {batch}\nsteps = {steps}\n"
            ),
        );
        (request.spec.data.mean, request.spec.data.std) =
            (Some(vec![0.5; channels]), Some(vec![0.25; channels]));
        request.spec.performance = Performance { precision: Some(name), ..GPU };
        let mut clock = Clock::default();
        let out = folder.path().join(name.name());
        start(&request, &out, &mut clock).expect("a run");
        let timed = &clock.0[WARM..];
        let seconds = (timed[timed.len() - 1].0 - timed[0].0).as_secs_f64();
        let drawn: Vec<usize> = clock.0.iter().map(|(_, drawn)| *drawn).collect();
        let whole = drawn[WARM + 1..].iter().sum::<usize>() as f64 / seconds;
        let alone = executor(&graph(model, &[channels, side, side], 10), precision, &drawn);
        println!(
            "{{\"model\":\"{model}\",\"batch\":{batch},\"precision\":\"{}\",\"whole_samples_per_second\":{whole:.0},\
             \"executor_samples_per_second\":{alone:.0},\"share\":{:.3}}}",
            name.name(),
            whole / alone
        );
    }
}

fn graph(model: &str, shape: &[usize], classes: usize) -> Graph {
    match model {
        "small-cnn" => zoo::small_cnn(shape, classes),
        "resnet-18" => zoo::resnet(zoo::ResNet::R18, shape, classes, zoo::Norm::Group(32)),
        _ => zoo::wide_resnet(zoo::WideResNet::W16x4, shape, classes),
    }
    .expect("a model for this shape")
}

/// Samples a second of the executor alone on batches of these sizes, with parameters that stay on the card.
fn executor(graph: &Graph, precision: Precision, sizes: &[usize]) -> f64 {
    let mut executor =
        CudaExecutor::new(graph, CudaOptions { precision, ..CudaOptions::default() }).expect("a card");
    executor.load(&Parameters::init(graph, 1)).expect("its parameters");
    let len: usize = graph.input_shape().iter().product();
    let most = sizes.iter().copied().max().unwrap_or(1);
    let inputs: Vec<f32> = (0..most * len).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    let classes: Vec<u32> = (0..most as u32).map(|i| i % 10).collect();
    let mut began = Instant::now();
    for (step, &size) in sizes.iter().enumerate() {
        let mut sum = executor.gradient_sum().expect("memory");
        let batch = Batch::new(&inputs[..size * len], Targets::Classes(&classes[..size]));
        let mut loaded = executor.resident().expect("parameters");
        loaded.clipped_sum(&batch, &Clipping::Flat { max_norm: 1.0 }, &mut sum).expect("a good batch");
        if step == WARM {
            began = Instant::now();
        }
    }
    sizes[WARM + 1..].iter().sum::<usize>() as f64 / began.elapsed().as_secs_f64()
}

fn main() {
    let probe = zoo::small_cnn(&[1, 28, 28], 4).expect("a model");
    match CudaExecutor::new(&probe, CudaOptions::default()) {
        Err(error @ (CudaError::Library { .. } | CudaError::NoDevice { .. })) => {
            println!("nothing to check: {error}");
            return;
        }
        Err(error) => println!("{error}"),
        Ok(executor) => println!("{}", executor.device_name()),
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &String| text.parse::<usize>().expect("a number");
    match &arguments[..] {
        [] => check(),
        [model, side, channels, batch, steps] => {
            measure(model, number(side), number(channels), number(batch), number(steps));
        }
        _ => println!("train_check [MODEL SIDE CHANNELS BATCH STEPS]"),
    }
}
