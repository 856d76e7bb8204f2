//! Tests whole runs on a card beside runs on the processor. Tests that need a card are ignored; `cargo test --release --features cuda -p
//! dapple-train --test on_a_card -- --ignored` runs them, one at a time.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "../common/mod.rs"]
mod common;
mod curves;
mod evaluation;
mod features;
mod group;
mod mix;
mod stopped;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dapple_plan::spec::{DeviceChoice, Performance};
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
