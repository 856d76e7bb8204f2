//! Tests whole runs against PyTorch: loss curves without noise, and statistics with it.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{Recorder, request, write_data, write_small_cnn};
use dapple_graph::op::Reshape;
use dapple_graph::weights;
use dapple_train::{Silent, start};
use serde::Deserialize;

#[derive(Deserialize)]
struct Goldens {
    linear: Vec<f64>,
    small_cnn: Vec<f64>,
    linear_clipped_first: Vec<f64>,
    linear_noisy: Noisy,
}

#[derive(Deserialize)]
struct Noisy {
    runs: f64,
    mean: Vec<f64>,
    deviation: Vec<f64>,
}

fn goldens() -> Goldens {
    serde_json::from_str(include_str!("goldens/training.json")).unwrap()
}

fn losses(folder: &Path, plan: &str) -> Vec<f64> {
    let mut recorder = Recorder::default();
    start(&request(folder, plan), &folder.join("run"), &mut recorder).unwrap();
    recorder.losses.into_iter().map(Option::unwrap).collect()
}

/// The linear model of the goldens as a weights file.
fn write_linear(folder: &Path) {
    let mut builder = dapple_graph::GraphBuilder::new(&[1, 6, 6]);
    let flat = builder.add("flatten", Reshape(vec![36]), &[builder.input()]).unwrap();
    let zero = dapple_graph::Init::Constant(0.0);
    let output = builder.linear("fc", flat, 4, zero, zero).unwrap();
    let graph = builder.finish(output, dapple_graph::Loss::CrossEntropy { label_smoothing: 0.0 }).unwrap();
    weights::save(&graph, &common::filled(&graph), &folder.join("linear.safetensors")).unwrap();
}

#[test]
fn a_convex_problem_follows_pytorch_without_privacy() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 24, 6);
    write_linear(folder.path());
    let ours = losses(
        folder.path(),
        "[model]\nname = 'linear'\nweights = 'linear.safetensors'\n[optimiser]\nlearning_rate = 0.2\nmomentum = 0.9\n\
         [train]\nprivate = false\n[sampling]\nbatch = 24\nsteps = 12\n",
    );
    for (step, (ours, theirs)) in ours.iter().zip(&goldens().linear).enumerate() {
        // Sums in single precision are taken in another order.
        assert!((ours / theirs - 1.0).abs() < 1e-4, "step {step}: {ours} {theirs}");
    }
}

#[test]
fn a_small_network_follows_pytorch_whatever_the_microbatches() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 32, 28);
    write_small_cnn(folder.path());
    let mut curves = Vec::new();
    for microbatch in [0, 5, 32] {
        let run = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::default();
        let plan = format!(
            "[model]\nname = 'small-cnn'\nweights = 'small-cnn.safetensors'\n\
             [optimiser]\nlearning_rate = 0.02\nmomentum = 0.9\nnesterov = true\n[train]\nprivate = false\n\
             [sampling]\nbatch = 32\nsteps = 12\n[performance]\nmicrobatch = {microbatch}\nthreads = 2\n"
        );
        start(&request(folder.path(), &plan), run.path(), &mut recorder).unwrap();
        curves.push((recorder.losses, common::model_bytes(run.path())));
    }
    assert!(curves.windows(2).all(|pair| pair[0] == pair[1]));
    for (step, (ours, theirs)) in curves[0].0.iter().zip(&goldens().small_cnn).enumerate() {
        // Twelve steps of a network with kinks amplify single-precision rounding a little more.
        assert!((ours.unwrap() / theirs - 1.0).abs() < 1e-3, "step {step}: {ours:?} {theirs}");
    }
}

const NOISY: &str = "[model]\nname = 'linear'\nweights = 'linear.safetensors'\n[optimiser]\nlearning_rate = 2.0\n\
    [privacy]\nmax_grad_norm = 0.5\nnoise_multiplier = 4.0\ndelta = 1e-5\n[sampling]\nbatch = 24\n";

#[test]
fn the_first_noisy_step_is_the_clipped_mean_and_the_stated_noise() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 24, 6);
    write_linear(folder.path());
    let clean = goldens().linear_clipped_first;
    let mut residuals = Vec::new();
    for run in 0..20 {
        let out = folder.path().join(format!("run-{run}"));
        start(&request(folder.path(), &format!("{NOISY}steps = 1\n")), &out, &mut Silent).unwrap();
        let bytes = common::model_bytes(&out);
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let values = ["fc.weight", "fc.bias"].into_iter().flat_map(|name| {
            let data = file.tensor(name).unwrap().data().to_vec();
            data.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect::<Vec<f32>>()
        });
        // By w = w0 - rate (sum + noise) / batch, the residual is in units of the noise's deviation, 4 * 0.5.
        residuals.extend(
            values.zip(&clean).map(|(ours, clean)| (clean - f64::from(ours)) * 24.0 / (2.0 * 4.0 * 0.5)),
        );
    }
    let n = residuals.len() as f64;
    assert_eq!(n, 20.0 * 148.0);
    let mean = residuals.iter().sum::<f64>() / n;
    let variance = residuals.iter().map(|r| r * r).sum::<f64>() / n;
    // Every run draws fresh noise, so each of the two tests fails by chance once in 1.7 million runs.
    assert!(mean.abs() < 5.0 / n.sqrt(), "{mean}");
    assert!((variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{variance}");
}

#[test]
fn noisy_loss_curves_have_pytorchs_mean() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 24, 6);
    write_linear(folder.path());
    let Noisy { runs, mean, deviation } = goldens().linear_noisy;
    let seeds = 30;
    let mut sums = vec![0.0; mean.len()];
    for seed in 0..seeds {
        let run = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::default();
        let plan = format!("{NOISY}steps = 10\n[train]\nseed = {seed}\n");
        start(&request(folder.path(), &plan), run.path(), &mut recorder).unwrap();
        for (sum, loss) in sums.iter_mut().zip(&recorder.losses) {
            *sum += loss.unwrap() / f64::from(seeds);
        }
    }
    for (step, ours) in sums.iter().enumerate() {
        // Both means have an error, so allow five deviations of their difference. The first step has no noise, so allow single precision
        // there.
        let error = deviation[step] * (1.0 / f64::from(seeds) + 1.0 / runs).sqrt();
        assert!(
            (ours - mean[step]).abs() < 5.0 * error + 1e-5,
            "step {step}: {ours} {} +- {error}",
            mean[step]
        );
    }
}
