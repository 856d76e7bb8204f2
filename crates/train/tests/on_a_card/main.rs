//! Tests whole runs on a card beside runs on the processor. Tests that need a card are ignored; `cargo test --release --features cuda -p
//! dapple-train --test on_a_card -- --ignored` runs them, one at a time.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod correlated;
mod curves;
mod evaluation;
mod features;
mod group;
mod mix;
mod ranks;
mod split;
mod stopped;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dapple_plan::PlanSpec;
use dapple_plan::spec::{DeviceChoice, FactorPrecision, Performance};
use dapple_train::{Request, start};
use tempfile::TempDir;

fn cpu() -> Performance {
    on(DeviceChoice::Cpu)
}

fn gpu() -> Performance {
    on(DeviceChoice::Cuda(0))
}

fn on(device: DeviceChoice) -> Performance {
    Performance { device: Some(device), ..Performance::default() }
}

static CARD: Mutex<()> = Mutex::new(());

/// Reserves the card for one test, because one of them takes all of its memory, and makes a folder with records.
fn alone() -> (MutexGuard<'static, ()>, TempDir) {
    let card = CARD.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 512, 28);
    (card, folder)
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
fn losses(folder: &Path, name: &str, request: &Request) -> Vec<f64> {
    let mut recorder = common::Recorder::default();
    start(request, &folder.join(name), &mut recorder).unwrap();
    recorder.losses.into_iter().flatten().collect()
}

/// Asserts that the losses of a plan, under a layer that says more of it, are the same on a card and on the processor but for rounding.
fn follows_the_processor(folder: &Path, name: &str, model: &str, layer: &PlanSpec) {
    let run = |performance: Performance| {
        let request = plan(folder, model, "learning_rate = 0.05", &performance);
        let request = Request { spec: request.spec.merge(layer), ..request };
        let device = performance.device.map(|device| device.to_string()).unwrap_or_default();
        losses(folder, &format!("{name}-{device}"), &request)
    };
    let precision = Some(FactorPrecision::F32);
    let (processor, card) = (run(cpu()), run(Performance { precision, ..gpu() }));
    assert_eq!(processor.len(), card.len());
    let apart = processor.iter().zip(&card).map(|(one, other)| (one / other - 1.0).abs());
    let apart = apart.fold(0.0, f64::max);
    println!("{name}: losses {apart:.1e} apart");
    // Twenty steps at a small rate amplify the rounding of single precision, 1e-7, and the slack of norms, 1e-5, a little.
    assert!(apart < 1e-3, "{name}: {processor:?} {card:?}");
}
