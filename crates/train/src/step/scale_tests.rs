//! Tests steps whose gradients are scaled before they are clipped against a loop over single records in double precision.

use dapple_data::{Labels, Loader, LoaderKeys, LoaderOptions, MasterKey, Sampler, SamplerKeys};
use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Layout, Targets};

use super::*;
use crate::test_data as common;

const CLIP: f64 = 0.7;
const BATCH: f64 = 12.0;
const STEPS: u64 = 4;
const BETAS: [f64; 2] = [0.6, 0.8];
const RATE: f64 = 0.3;
/// No scale is more than this many times another.
const MOST_APART: f64 = 32.0;

fn prepared(folder: &std::path::Path) -> Prepared {
    common::write_data(folder, "train", 24, 28);
    common::write_small_cnn(folder);
    let plan = format!(
        "[model]\nname = 'small-cnn'\nweights = 'small-cnn.safetensors'\n\
         [optimiser]\nkind = 'adam'\nlearning_rate = {RATE}\nscale_first = true\nbetas = {BETAS:?}\n\
         [sampling]\nbatch = {BATCH}\nsteps = {STEPS}\n[privacy]\nmax_grad_norm = {CLIP}\nnoise_multiplier = 1.0\ndelta = 1e-5\n"
    );
    Prepared::new(&common::request(folder, &plan)).unwrap()
}

fn loader(prepared: &Prepared, steps: std::ops::Range<u64>) -> Loader {
    let master = MasterKey::from_seed(5);
    let train = prepared.data.train.clone();
    let sampler = Sampler::new(prepared.plan(), train.len(), SamplerKeys::of(&master)).unwrap();
    let options = LoaderOptions { microbatch: 0, ..LoaderOptions::default() };
    Loader::train(train, sampler, prepared.views.clone(), LoaderKeys::of(&master), steps, options).unwrap()
}

/// The sum of the scaled and clipped gradients of a step's records, over the expected batch.
fn scaled_mean(prepared: &Prepared, parameters: &Parameters, scales: &[f64], step: u64) -> Vec<f64> {
    let reference = ReferenceExecutor::new(&prepared.graphs[0], parameters).unwrap();
    let mut mean = vec![0.0; parameters.values().len()];
    for microbatch in loader(prepared, step..step + 1) {
        let microbatch = microbatch.unwrap();
        let Labels::Classes(classes) = &microbatch.labels else { panic!("records have classes") };
        for (class, image) in classes.iter().zip(microbatch.inputs.chunks_exact(28 * 28)) {
            let batch = Batch::new(image, Targets::Classes(std::slice::from_ref(class)));
            let (_, mut gradient) = reference.gradient(&batch, 0).unwrap();
            gradient.iter_mut().zip(scales).for_each(|(value, scale)| *value *= scale);
            let norm = gradient.iter().map(|value| value * value).sum::<f64>().sqrt();
            let factor = (CLIP / norm).min(1.0) / BATCH;
            mean.iter_mut().zip(gradient).for_each(|(mean, value)| *mean += factor * value);
        }
    }
    mean
}

/// Without noise, so that scales follow from gradients alone. All parameters train, in the order of the layout.
#[test]
fn a_step_scales_clips_and_learns_its_scales() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path());
    let layout = Layout::new(&prepared.graphs[0]);
    let mut trainer = Trainer::new(&prepared, &mut Vec::new()).unwrap();
    trainer.parts.iter_mut().for_each(|part| part.noise = None);
    let keys = StepKeys::of(&MasterKey::from_seed(5));
    let mut batches = loader(&prepared, 0..STEPS);
    let len = layout.len();
    let (mut scales, mut moments) = (vec![1.0; len], vec![0.0; layout.entries().len()]);
    let mut mean = vec![0.0; len];
    let mut apart = 1.0;
    for step in 0..STEPS {
        let before = trainer.weights().unwrap().clone();
        let released = scaled_mean(&prepared, &before, &scales, step);
        trainer.step(&mut batches, None, &keys, step).unwrap();
        let after = trainer.weights().unwrap();
        let power = 1.0 - BETAS[0].powi(step as i32 + 1);
        mean.iter_mut().zip(&released).for_each(|(m, g)| *m = BETAS[0] * *m + (1.0 - BETAS[0]) * g);
        let length = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let moved = before.values().iter().zip(after.values()).map(|(b, a)| f64::from(*b) - f64::from(*a));
        let errors: Vec<f64> = moved.zip(&mean).map(|(moved, m)| moved - RATE * m / power).collect();
        let wanted = RATE * length(&mean) / power;
        // Half a unit a coordinate is taken off the clip norm, and weights are in single precision.
        assert!(
            length(&errors) < 1e-3 * wanted && wanted > 0.0,
            "step {step}: {} of {wanted}",
            length(&errors)
        );
        for (entry, moment) in layout.entries().iter().zip(&mut moments) {
            let square = |index: usize| (released[index] / scales[index]).powi(2);
            let own = entry.range.clone().map(square).sum::<f64>() / entry.range.len() as f64;
            *moment = BETAS[1] * *moment + (1.0 - BETAS[1]) * own;
        }
        let largest = moments.iter().copied().fold(0.0, f64::max);
        for (entry, moment) in layout.entries().iter().zip(&moments) {
            scales[entry.range.clone()].fill(1.0 / moment.max(largest / (MOST_APART * MOST_APART)).sqrt());
        }
        let root = length(&scales) / (len as f64).sqrt();
        scales.iter_mut().for_each(|scale| *scale /= root);
        let ends = scales.iter().fold([f64::INFINITY, 0.0], |[a, b], &s| [a.min(s), b.max(s)]);
        apart = ends[1] / ends[0];
    }
    // Scales were at work.
    assert!(apart > 3.0, "{apart}");
}
