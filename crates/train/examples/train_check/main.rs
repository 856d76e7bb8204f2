//! Training on a GPU. `train_check` compares it with training on the processor, part by part; names of parts do those alone. `train_check
//! MODEL SIDE CHANNELS BATCH STEPS` measures the whole step against the executor alone in every precision. Without a GPU it says so and
//! succeeds; where a part fails it exits with 1.
#![allow(clippy::print_stdout)]

mod curves;
mod evaluation;
mod group;
mod speed;
mod stopped;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use dapple_engine::cuda::{CudaError, CudaExecutor, CudaOptions};
use dapple_graph::{Graph, zoo};
use dapple_plan::spec::{DeviceChoice, Performance};
use dapple_train::{Request, start};

#[path = "../../tests/common/mod.rs"]
mod common;

fn cpu() -> Performance {
    on(DeviceChoice::Cpu)
}

fn gpu() -> Performance {
    on(DeviceChoice::Cuda(0))
}

fn on(device: DeviceChoice) -> Performance {
    Performance { device: Some(device), ..Performance::default() }
}

/// What a part found wrong.
type Fault = Box<dyn std::error::Error>;

/// A name, and what it checks with files in a folder of its own.
type Part = (&'static str, fn(&Path) -> Result<(), Fault>);

const PARTS: [Part; 5] = [
    ("curves", curves::check),
    ("stop", stopped::check),
    ("memory", stopped::check_memory),
    ("evaluation", evaluation::check),
    ("group", group::check),
];

/// What must hold, and what to say where it does not.
fn expect(holds: bool, problem: impl FnOnce() -> String) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(problem().into()) }
}

/// A seeded plan over images of one channel and four classes.
fn plan(folder: &Path, model: &str, optimiser: &str, performance: &Performance) -> Request {
    let mut request = common::request(
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
fn losses(folder: &Path, name: &str, request: &Request) -> Result<Vec<f64>, Fault> {
    let mut recorder = common::Recorder::default();
    start(request, &folder.join(name), &mut recorder)?;
    Ok(recorder.losses.into_iter().flatten().collect())
}

fn graph(model: &str, shape: &[usize], classes: usize) -> Result<Graph, Fault> {
    Ok(match model {
        "small-cnn" => zoo::small_cnn(shape, classes),
        "resnet-18" => zoo::resnet(zoo::ResNet::R18, shape, classes, zoo::Norm::Group(32)),
        _ => zoo::wide_resnet(zoo::WideResNet::W16x4, shape, classes),
    }?)
}

/// Does the parts; whether all of them hold.
fn check(parts: &[Part]) -> Result<bool, Fault> {
    let mut all = true;
    for (name, part) in parts {
        let folder = tempfile::tempdir()?;
        common::write_data(folder.path(), "train", 512, 28);
        let began = Instant::now();
        let result = part(folder.path());
        let seconds = began.elapsed().as_secs_f64();
        match &result {
            Ok(()) => println!("PASS {name} ({seconds:.1} s)"),
            Err(fault) => println!("FAIL {name} ({seconds:.1} s): {fault}"),
        }
        all &= result.is_ok();
    }
    Ok(all)
}

fn main() -> Result<ExitCode, Fault> {
    let probe = zoo::small_cnn(&[1, 28, 28], 4)?;
    match CudaExecutor::new(&probe, CudaOptions::default()) {
        Err(error @ (CudaError::Library { .. } | CudaError::NoDevice { .. })) => {
            println!("nothing to check: {error}");
            return Ok(ExitCode::SUCCESS);
        }
        Err(error) => return Err(error.into()),
        Ok(executor) => println!("{}", executor.device_name()),
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [model, numbers @ ..] = &arguments[..]
        && let Ok([side, channels, batch, steps]) =
            <[usize; 4]>::try_from(numbers.iter().filter_map(|text| text.parse().ok()).collect::<Vec<_>>())
    {
        speed::measure(model, side, channels, batch, steps)?;
        return Ok(ExitCode::SUCCESS);
    }
    let asked = |(name, _): &&Part| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    let parts: Vec<Part> = PARTS.iter().filter(asked).copied().collect();
    if parts.len() < arguments.len() {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        println!("train_check [{}].. | MODEL SIDE CHANNELS BATCH STEPS", names.join(" | "));
        return Ok(ExitCode::from(2));
    }
    Ok(if check(&parts)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
