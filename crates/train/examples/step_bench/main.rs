//! Measures the whole training step against the engine alone, and the parts of the step that are not the engine: `step_bench MODEL SIDE
//! CHANNELS BATCH STEPS [VIEWS]`, e.g. `step_bench wrn-16-4 32 3 256 6`. With `cuda` at the end, it measures a card in every precision.
//!
//! The images are random bytes in numpy files with 4 more pixels on each side, so that every step reads, crops and normalises. The engine
//! alone runs the same number of samples per step from memory.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use dapple_data::{Loader, LoaderKeys, LoaderOptions, MasterKey, Purpose, Sampler, SamplerKeys, Views};
use dapple_engine::{Batch, Clipping, ClippingRule, CpuExecutor, CpuOptions, Layout, Targets};
use dapple_graph::{Graph, Parameters, zoo};
use dapple_plan::{DataPlan, OptimiserPlan, Plan, PlanSpec};
use dapple_private::{Noise, Optimiser};
use dapple_train::{Event, Observer, Request, optimiser_settings, start};

#[cfg(feature = "cuda")]
mod card;
#[path = "../../tests/common/mod.rs"]
mod common;

const RECORDS: usize = 2000;

fn write_data(folder: &Path, records: usize, side: usize, channels: usize) {
    let outer = side + 8;
    let len = records * outer * outer * channels;
    let pixels: Vec<u8> =
        (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let labels: Vec<u8> = (0..records).flat_map(|i| ((i % 10) as i64).to_le_bytes()).collect();
    let shape = format!("{records}, {outer}, {outer}, {channels}");
    std::fs::write(folder.join("train.npy"), common::npy("|u1", &shape, &pixels)).expect("a writable folder");
    std::fs::write(folder.join("train-labels.npy"), common::npy("<i8", &format!("{records},"), &labels))
        .expect("a writable folder");
}

/// Processor seconds of all threads so far, from the scheduler's own account, which other processes do not change.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

/// When the first and the last step ended, with the processor seconds of the whole process by then. Asking the system at every step would
/// take time of its own.
#[derive(Default)]
struct Clock {
    ends: Vec<(Instant, f64)>,
    samples: Vec<usize>,
}

impl Observer for Clock {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if let Event::Step(report) = event {
            if report.step == 1 || report.step == report.steps {
                self.ends.push((Instant::now(), cpu_seconds()));
            }
            self.samples.push(report.drawn);
        }
        ControlFlow::Continue(())
    }
}

fn graph(model: &str, shape: &[usize]) -> Graph {
    match model {
        "small-cnn" => zoo::small_cnn(shape, 10),
        "resnet-18" => zoo::resnet(zoo::ResNet::R18, shape, 10, zoo::Norm::Group(32)),
        _ => zoo::wide_resnet(zoo::WideResNet::W16x4, shape, 10),
    }
    .expect("a model for this shape")
}

/// The most memory that the process has had, in MiB.
fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes / 1024.0)
}

/// Samples per second, and per processor second, of the engine on batches of these sizes.
fn engine(graph: &Graph, sizes: &[usize], views: usize) -> (f64, f64) {
    let mut executor = CpuExecutor::new(graph, CpuOptions::default()).expect("threads");
    let parameters = Parameters::init(graph, 1);
    let len = graph.input_shape().iter().product::<usize>() * views;
    let most = sizes.iter().copied().max().unwrap_or(1);
    let inputs: Vec<f32> = (0..most * len).map(|i| ((i * 7919) % 1013) as f32 / 506.5 - 1.0).collect();
    let classes: Vec<u32> = (0..(most * views) as u32).map(|i| i % 10).collect();
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, executor.layout()).expect("it fits");
    let mut gradient = Vec::new();
    let (mut began, mut cpu) = (Instant::now(), cpu_seconds());
    for (step, &size) in sizes.iter().enumerate() {
        if step == 1 {
            (began, cpu) = (Instant::now(), cpu_seconds());
        }
        let mut sum = executor.gradient_sum_in(std::mem::take(&mut gradient));
        let mut loaded = executor.load(&parameters).expect("same graph");
        let targets = Targets::Classes(&classes[..size * views]);
        let batch = Batch { views, ..Batch::new(&inputs[..size * len], targets) };
        loaded.clipped_sum(&batch, &rule, &mut sum).expect("a good batch");
        gradient = loaded.gradient(sum).expect("same graph");
    }
    let samples = sizes[1..].iter().sum::<usize>() as f64;
    (samples / began.elapsed().as_secs_f64(), samples / (cpu_seconds() - cpu))
}

/// Seconds that one thread takes to read, crop and normalise a batch.
fn load_seconds(folder: &Path, batch: usize) -> f64 {
    let text = std::fs::read_to_string(folder.join("run/plan.toml")).expect("the run's plan");
    let spec = PlanSpec::from_toml(&text).expect("a plan");
    let plan = Plan::check(&spec).expect("a plan");
    let data_plan = DataPlan::check(&spec).expect("a plan");
    let data = dapple_data::open(&data_plan, Path::new("")).expect("data");
    let views = Views::new(plan.spatial(), &data_plan.views, &*data.train).expect("views");
    let master = MasterKey::from_seed(1);
    let sampler = Sampler::new(&plan, RECORDS, SamplerKeys::of(&master)).expect("a plan");
    let options = LoaderOptions { threads: 1, ..LoaderOptions::default() };
    let began = Instant::now();
    let loader =
        Loader::train(data.train, sampler, vec![views], LoaderKeys::of(&master), 0..plan.steps(), options);
    let mut loader = loader.expect("threads");
    let mut records = 0;
    while let Some(microbatch) = loader.next() {
        let microbatch = microbatch.expect("good data");
        records += microbatch.records.len();
        loader.recycle(microbatch);
    }
    began.elapsed().as_secs_f64() * batch as f64 / records as f64
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let on_card = arguments.pop_if(|last| last == "cuda").is_some();
    let [model, side, channels, batch, steps, views @ ..] = &arguments[..] else {
        println!("step_bench MODEL SIDE CHANNELS BATCH STEPS [VIEWS] [cuda]");
        return;
    };
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let views = views.first().map_or(1, number);
    let (side, channels, batch, steps) = (number(side), number(channels), number(batch), number(steps));
    if on_card {
        #[cfg(feature = "cuda")]
        return card::measure(model, [side, channels, batch, steps], views);
        #[cfg(not(feature = "cuda"))]
        return println!("built without the feature `cuda`");
    }
    let folder = std::env::temp_dir().join(format!("dapple-step-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    write_data(&folder, RECORDS, side, channels);
    let text = format!(
        "[data]\nformat = 'npy'\ntrain = 'train.npy'\ntrain_labels = 'train-labels.npy'\nmean = {0}\nstd = {0}\nflip = true\n\
         [model]\nname = '{model}'\n[optimiser]\nlearning_rate = 0.01\nmomentum = 0.9\nema = 0.999\n\
         [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[pipeline]\ncrop = '{side}x{side}'\nviews = {views}\n\
         [sampling]\nbatch = {batch}\nsteps = {steps}\n",
        format_args!("{:?}", vec![0.5; channels]),
    );
    let spec = PlanSpec::from_toml(&text).expect("a plan");
    let mut clock = Clock::default();
    start(&Request { spec, base: folder.clone(), masks: Vec::new() }, &folder.join("run"), &mut clock)
        .expect("a run");
    // The first step is left out, because it plans memory and waits for the first batch.
    let [(began, began_cpu), (ended, ended_cpu)] = clock.ends[..] else {
        println!("give at least two steps");
        return;
    };
    let peak_mb = peak_mb();
    let seconds = (ended - began).as_secs_f64();
    let samples = clock.samples[1..].iter().sum::<usize>() as f64;
    let (whole, whole_cpu) = (samples / seconds, samples / (ended_cpu - began_cpu));
    let graph = graph(model, &[channels, side, side]);
    let (alone, alone_cpu) = engine(&graph, &clock.samples, views);

    let loading = load_seconds(&folder, batch);

    let layout = Layout::new(&graph);
    let mut parameters = Parameters::init(&graph, 1);
    let mut gradient = vec![0.1; layout.len()];
    let noise = Noise::new(1.0).expect("a deviation");
    let key = MasterKey::from_seed(1).purpose(Purpose::Noise);
    let best = |run: &mut dyn FnMut(u64)| {
        let times = (0..20).map(|step| {
            let began = Instant::now();
            run(step);
            began.elapsed().as_secs_f64()
        });
        times.fold(f64::INFINITY, f64::min)
    };
    let noise_seconds =
        best(&mut |step| noise.add(&mut gradient, &[], 1.0, &key.step(step)).expect("a unit"));
    let spec = PlanSpec::from_toml("[optimiser]\nlearning_rate = 0.01\nmomentum = 0.9").expect("a plan");
    let mut optimiser = Optimiser::new(
        &optimiser_settings(&OptimiserPlan::check(&spec.optimiser).expect("settings"), &graph)
            .expect("a model"),
        &layout,
        &parameters,
    );
    let optimiser_seconds = best(&mut |_| optimiser.update(&mut parameters, &gradient, 0.01, 0.0));
    let step_seconds = seconds / (steps - 1) as f64;
    println!(
        "{{\"model\":\"{model}\",\"batch\":{batch},\"views\":{views},\"peak_mb\":{peak_mb:.0},\"processor_ms_a_record\":{:.2},\"parameters\":{},\"whole_samples_per_second\":{whole:.1},\"engine_samples_per_second\":{alone:.1},\"share\":{:.3},\"share_of_processor_time\":{:.3},\"step_ms\":{:.2},\"noise_ms\":{:.3},\"noise_share\":{:.4},\"noise_ns_per_coordinate\":{:.2},\"optimiser_ms\":{:.3},\"load_ms_one_thread\":{:.3}}}",
        1e3 / whole_cpu,
        layout.len(),
        whole / alone,
        whole_cpu / alone_cpu,
        1e3 * step_seconds,
        1e3 * noise_seconds,
        noise_seconds / step_seconds,
        1e9 * noise_seconds / layout.len() as f64,
        1e3 * optimiser_seconds,
        1e3 * loading,
    );
    // If this fails, only a temporary folder is left behind.
    let _ = std::fs::remove_dir_all(&folder);
}
