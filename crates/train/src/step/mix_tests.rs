//! Tests what a contribution is: the mean over all that is shown of a record and beside it, or of the records of a group, clipped once.
//! The oracle is a loop over single views in double precision.

use dapple_data::{Labels, Loader, LoaderKeys, LoaderOptions, MasterKey, Microbatch, Sampler, SamplerKeys};
use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Targets};

use super::*;
use crate::test_data as common;

const CLASSES: usize = 4;
const CLIP: f64 = 0.7;

/// A trainer of plain gradient descent with a learning rate of 1 and no noise, and what it trains.
fn prepared(folder: &std::path::Path, rest: &str) -> Prepared {
    common::write_data(folder, "train", 24, 28);
    common::write_pool(&folder.join("pool"), 9, 20);
    common::write_small_cnn(folder);
    let request = common::request(
        folder,
        &format!(
            "flip = true\n[model]\nname = 'small-cnn'\nweights = 'small-cnn.safetensors'\n[optimiser]\nlearning_rate = 1.0\n\
             [sampling]\nbatch = 12\nsteps = 2\n[privacy]\nmax_grad_norm = {CLIP}\nnoise_multiplier = 1.0\ndelta = 1e-5\n{rest}"
        ),
    );
    Prepared::new(&request).unwrap()
}

fn loader(prepared: &Prepared, microbatch: usize) -> Loader {
    let master = MasterKey::from_seed(5);
    let train = prepared.data.train.clone();
    let sampler = Sampler::new(prepared.plan(), train.len(), SamplerKeys::of(&master)).unwrap();
    let options = LoaderOptions { microbatch, ..LoaderOptions::default() };
    Loader::train(train, sampler, prepared.views.clone(), LoaderKeys::of(&master), 0..1, options).unwrap()
}

/// By how much one step moves the parameters.
fn step(prepared: &Prepared) -> (Vec<f64>, Taken) {
    let mut trainer = Trainer::new(prepared, &mut Vec::new()).unwrap();
    trainer.parts.iter_mut().for_each(|part| part.noise = None);
    let master = MasterKey::from_seed(5);
    let before = prepared.parameters.values().to_vec();
    let taken = trainer.step(&mut loader(prepared, 5), None, &StepKeys::of(&master), 0).unwrap();
    let after = trainer.weights().unwrap().values();
    (before.iter().zip(after).map(|(before, after)| f64::from(*before) - f64::from(*after)).collect(), taken)
}

/// The probabilities of all classes for one view, and its values.
fn views(microbatch: &Microbatch) -> Vec<(Vec<f32>, &[f32])> {
    let hot = |class: u32| (0..CLASSES as u32).map(|other| f32::from(other == class)).collect();
    let labels: Vec<Vec<f32>> = match &microbatch.labels {
        Labels::Classes(classes) => classes.iter().map(|&class| hot(class)).collect(),
        Labels::Probabilities(all) => all.chunks_exact(CLASSES).map(<[f32]>::to_vec).collect(),
    };
    labels.into_iter().zip(microbatch.inputs.chunks_exact(28 * 28)).collect()
}

/// The sum over samples of the clipped mean over their views, divided by the number of contributions.
fn expected(prepared: &Prepared, contributions: f64) -> Vec<f64> {
    let reference = ReferenceExecutor::new(&prepared.graphs[0], &prepared.parameters).unwrap();
    let mut sum = vec![0.0; prepared.parameters.values().len()];
    for microbatch in loader(prepared, 0) {
        let microbatch = microbatch.unwrap();
        for sample in views(&microbatch).chunks_exact(microbatch.views) {
            let mut mean = vec![0.0; sum.len()];
            for (label, view) in sample {
                let batch = Batch::new(view, Targets::Probabilities(label));
                let (_, gradient) = reference.gradient(&batch, 0).unwrap();
                mean.iter_mut().zip(gradient).for_each(|(mean, g)| *mean += g / sample.len() as f64);
            }
            let norm = mean.iter().map(|value| value * value).sum::<f64>().sqrt();
            let factor = (CLIP / norm).min(1.0) / contributions;
            sum.iter_mut().zip(mean).for_each(|(sum, value)| *sum += factor * value);
        }
    }
    sum
}

fn assert_close(found: &[f64], expected: &[f64]) {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    let length = norm(&mut expected.iter().copied());
    let difference = norm(&mut found.iter().zip(expected).map(|(found, expected)| found - expected));
    // Half a unit a coordinate is taken off the clip norm, and weights are in single precision.
    assert!(difference < 1e-3 * length && length > 0.0, "{difference} of {length}");
}

#[test]
fn a_contribution_is_the_clipped_mean_over_all_its_views() {
    for (rest, contributions, views) in [
        ("[pipeline]\nviews = 2\n", 12.0, 2),
        ("[pipeline]\nviews = 2\n[mix]\npool = 'pool'\nsynthetic = 2\nself_mix = 3\n", 12.0, 7),
        (
            "[pipeline]\nviews = 0\n[mix]\npool = 'pool'\nsynthetic = 3\nself_mix = 2\nallow = 'pure-synthetic'\n",
            12.0,
            5,
        ),
        ("records_per_clip = 2\n", 6.0, 1),
        ("records_per_clip = 3\n[mix]\npool = 'pool'\nsynthetic = 1\nself_mix = 2\n", 4.0, 4),
        ("records_per_clip = 5\n[pipeline]\nviews = 2\n[mix]\nself_mix = 1\n", 3.0, 3),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let prepared = prepared(folder.path(), rest);
        assert_eq!(prepared.views[0].count(), views, "{rest}");
        let (moved, taken) = step(&prepared);
        assert_close(&moved, &expected(&prepared, contributions));
        assert_eq!(
            taken.drawn(),
            loader(&prepared, 0).map(|microbatch| microbatch.unwrap().records.len()).sum::<usize>()
        );
    }
}
