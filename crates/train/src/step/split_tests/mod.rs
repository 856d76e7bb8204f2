//! Tests what a record adds to the sum of a split model: a gradient in what it drew, both parts of it clipped apart. The oracle is a loop over
//! single records in double precision.

mod blocks;
mod dropout;

use dapple_data::{Labels, LoaderKeys, LoaderOptions, Sampler, SamplerKeys};
use dapple_engine::Layout;

use super::*;
use crate::test_data as common;

const CLIP: f64 = 0.7;
const SEED: u64 = 5;
/// The bounds of what is split and of the rest, in clip norms.
const PARTS: [f64; 2] = [0.8, 0.6];
const BATCH: u64 = 12;

/// What a trainer of plain gradient descent with a learning rate of 1 trains: a model, on images with sides of this many pixels.
fn prepared(folder: &std::path::Path, (model, side): (&str, usize), batch: u64, rest: &str) -> Prepared {
    common::write_data(folder, "train", 24, side);
    let request = common::request(
        folder,
        &format!(
            "[model]\n{model}\n[optimiser]\nlearning_rate = 1.0\n[sampling]\nbatch = {batch}\nsteps = 2\n\
             [privacy]\nmax_grad_norm = {CLIP}\nnoise_multiplier = 1.0\ndelta = 1e-5\n[performance]\nthreads = 1\n\
             [pipeline]\nviews = 2\n{rest}"
        ),
    );
    Prepared::new(&request).unwrap()
}

fn loader(prepared: &Prepared, seed: u64, microbatch: usize) -> Loader {
    let master = MasterKey::from_seed(seed);
    let train = prepared.data.train.clone();
    let sampler = Sampler::new(prepared.plan(), train.len(), SamplerKeys::of(&master)).unwrap();
    let options = LoaderOptions { microbatch, ..LoaderOptions::default() };
    Loader::train(train, sampler, prepared.views.clone(), LoaderKeys::of(&master), 0..1, options).unwrap()
}

/// By how much one step moves the parameters, with or without its noise.
fn step(prepared: &Prepared, seed: u64, noisy: bool) -> Vec<f64> {
    let mut trainer = Trainer::new(prepared, &mut Vec::new()).unwrap();
    if !noisy {
        trainer.parts.iter_mut().for_each(|part| part.noise = None);
    }
    let master = MasterKey::from_seed(seed);
    let before = prepared.parameters.values().to_vec();
    trainer.step(&mut loader(prepared, seed, 5), None, &StepKeys::of(&master), 0).unwrap();
    let after = trainer.weights().unwrap().values();
    before.iter().zip(after).map(|(before, after)| f64::from(*before) - f64::from(*after)).collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// Adds a record's gradient to the sum, each of its parts clipped by itself, divided by the expected batch.
fn add_clipped(sum: &mut [f64], gradient: &[f64], layout: &Layout, is_split: impl Fn(&str) -> bool) {
    let of = |split: bool| {
        let is_split = &is_split;
        layout.entries().iter().filter(move |entry| is_split(&entry.name) == split)
    };
    for (split, part) in [true, false].into_iter().zip(PARTS) {
        let own: Vec<f64> = of(split).flat_map(|entry| gradient[entry.range.clone()].to_vec()).collect();
        let factor = (part * CLIP / norm(&own)).min(1.0) / BATCH as f64;
        let places = of(split).flat_map(|entry| entry.range.clone());
        places.for_each(|place| sum[place] += factor * gradient[place]);
    }
}

fn assert_close(what: &str, moved: &[f64], expected: &[f64]) {
    let difference: Vec<f64> = moved.iter().zip(expected).map(|(moved, expected)| moved - expected).collect();
    // Half a unit a coordinate is taken off the clip norm, and weights are in single precision.
    assert!(norm(&difference) < 2e-3 * norm(expected), "{what}: {} of {}", norm(&difference), norm(expected));
}

/// The lattice is so fine that hardly any coordinate gets noise of exactly zero, or so little that its weight does not change.
fn assert_moves_everything(noisy: &[f64]) {
    let unmoved = noisy.iter().filter(|&&value| value == 0.0).count();
    assert!(unmoved < noisy.len() / 100, "{unmoved} of {}", noisy.len());
}
