//! Tests what a record adds to the sum of a split model: the gradient of the submodel that it drew, both parts of it clipped apart. The
//! oracle is a loop over single records in double precision.

use std::collections::BTreeSet;

use dapple_data::{Labels, Loader, LoaderKeys, LoaderOptions, MasterKey, Purpose, Sampler};
use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Layout, Targets};

use super::*;
use crate::test_data as common;

const CLIP: f64 = 0.7;
const SEED: u64 = 5;
const PARTS: [f64; 2] = [0.8, 0.6];

/// A trainer of plain gradient descent with a learning rate of 1, and what it trains.
fn prepared(folder: &std::path::Path, batch: u64, partition: &str) -> Prepared {
    common::write_data(folder, "train", 24, 8);
    let request = common::request(
        folder,
        &format!(
            "[model]\nname = 'small-hybrid'\n[optimiser]\nlearning_rate = 1.0\n[sampling]\nbatch = {batch}\nsteps = 2\n\
             [privacy]\nmax_grad_norm = {CLIP}\nnoise_multiplier = 1.0\ndelta = 1e-5\n[pipeline]\nviews = 2\n[performance]\nthreads = 1\n\
             [partition]\nblocks = ['blocks.0..blocks.3']\n{partition}\n"
        ),
    );
    Prepared::new(&request).unwrap()
}

fn loader(prepared: &Prepared, seed: u64, microbatch: usize) -> Loader {
    let master = MasterKey::from_seed(seed);
    let train = prepared.data.train.clone();
    let sampler = Sampler::new(prepared.plan(), train.len(), master.purpose(Purpose::Sampling)).unwrap();
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
    let [noise, count, dropout] =
        [Purpose::Noise, Purpose::CountNoise, Purpose::Dropout].map(|purpose| master.purpose(purpose));
    let before = prepared.parameters.values().to_vec();
    trainer.step(&mut loader(prepared, seed, 5), &StepKeys { noise, count, dropout }, 0).unwrap();
    let after = trainer.weights().unwrap().values();
    before.iter().zip(after).map(|(before, after)| f64::from(*before) - f64::from(*after)).collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The sum over records of the gradients of their submodels, clipped, divided by the expected batch; and the submodels that were drawn.
fn expected(prepared: &Prepared) -> (Vec<f64>, BTreeSet<usize>) {
    let submodels = prepared.split.as_ref().unwrap().submodels(&prepared.graphs[0]).unwrap();
    let layout = Layout::new(&prepared.graphs[0]);
    let (mut sum, mut drawn) = (vec![0.0; layout.len()], BTreeSet::new());
    for microbatch in loader(prepared, SEED, 0) {
        let microbatch = microbatch.unwrap();
        let submodel = microbatch.submodel.unwrap();
        drawn.insert(submodel);
        let reference = ReferenceExecutor::new(&submodels[submodel], &prepared.parameters).unwrap();
        let Labels::Classes(classes) = &microbatch.labels else { panic!("one class each") };
        let batch =
            Batch { views: microbatch.views, ..Batch::new(&microbatch.inputs, Targets::Classes(classes)) };
        for sample in 0..microbatch.records.len() {
            let (_, gradient) = reference.gradient(&batch, sample).unwrap();
            let of = |split: bool| {
                layout.entries().iter().filter(move |entry| entry.name.starts_with("blocks") == split)
            };
            for (split, part) in [true, false].into_iter().zip(PARTS) {
                let own: Vec<f64> =
                    of(split).flat_map(|entry| gradient[entry.range.clone()].to_vec()).collect();
                let factor = (part * CLIP / norm(&own)).min(1.0) / 12.0;
                let places = of(split).flat_map(|entry| entry.range.clone());
                places.for_each(|place| sum[place] += factor * gradient[place]);
            }
        }
    }
    (sum, drawn)
}

/// The blocks whose parameters did not move at all.
fn still(prepared: &Prepared, moved: &[f64]) -> Vec<usize> {
    let layout = Layout::new(&prepared.graphs[0]);
    let of = |block: usize| {
        let name = format!("blocks.{block}.");
        let own: Vec<_> = layout.entries().iter().filter(|entry| entry.name.starts_with(&name)).collect();
        assert!(!own.is_empty());
        own.iter().all(|entry| moved[entry.range.clone()].iter().all(|&value| value == 0.0))
    };
    (0..4).filter(|&block| of(block)).collect()
}

#[test]
fn a_record_adds_the_clipped_gradient_of_its_submodel() {
    let norms = format!("split_norm = {}\nnonsplit_norm = {}", PARTS[0], PARTS[1]);
    for partition in ["submodels = 2", "submodels = 4", "mixture = [[2, 0.5], [3, 0.5]]", "submodels = 1"] {
        let folder = tempfile::tempdir().unwrap();
        let prepared = prepared(folder.path(), 12, &format!("{partition}\n{norms}"));
        let (expected, drawn) = expected(&prepared);
        assert!(drawn.len() > 1 || partition == "submodels = 1", "{drawn:?}");
        let moved = step(&prepared, SEED, false);
        let difference: Vec<f64> =
            moved.iter().zip(&expected).map(|(moved, expected)| moved - expected).collect();
        // Half a unit a coordinate is taken off the clip norm, and weights are in single precision.
        assert!(
            norm(&difference) < 2e-3 * norm(&expected),
            "{partition}: {} of {}",
            norm(&difference),
            norm(&expected)
        );
    }
}

/// In a step whose records all drew one submodel, the blocks of the others get exactly nothing before the noise, and noise like all with it.
#[test]
fn blocks_of_other_submodels_get_noise_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(folder.path(), 1, "submodels = 4\nsplit_fraction = 0.5");
    let drawn = |seed: &u64| -> BTreeSet<Option<usize>> {
        loader(&prepared, *seed, 0).map(|microbatch| microbatch.unwrap().submodel).collect()
    };
    let alone = |seed: &u64| drawn(seed).len() == 1 && !drawn(seed).contains(&None);
    for seed in (0..).filter(alone).take(3) {
        let own = drawn(&seed).into_iter().flatten().next().unwrap();
        let others: Vec<usize> = (0..4).filter(|&block| block != own).collect();
        assert_eq!(still(&prepared, &step(&prepared, seed, false)), others);
        let noisy = step(&prepared, seed, true);
        assert!(still(&prepared, &noisy).is_empty());
        let unmoved = noisy.iter().filter(|&&value| value == 0.0).count();
        // The lattice is so fine that hardly any coordinate gets noise of exactly zero, or so little that its weight does not change.
        assert!(unmoved < noisy.len() / 100, "{unmoved} of {}", noisy.len());
    }
}
