//! Tests what a user adds to the sum of a run: what its local steps come to in the submodel that it drew, or under its mask, clipped as a whole.
//! The oracle is a loop over users and single records in double precision.

use std::collections::BTreeSet;
use std::path::Path;

use dapple_data::{Labels, LoaderKeys, LoaderOptions, Sampler, SamplerKeys};
use dapple_engine::reference::ReferenceExecutor;
use dapple_engine::{Batch, Layout, Targets};

use super::*;
use crate::test_data as common;

const SEED: u64 = 5;
const CLIP: f64 = 0.3;
const STEPS: usize = 3;
const RATE: f64 = 0.2;
/// The bounds of what is split and of the rest, in clip norms.
const PARTS: [f64; 2] = [0.8, 0.6];
const BATCH: u64 = 6;

/// Nine users with 24 records in turn, so that some have two and some three.
fn prepared(folder: &Path, model: &str, rest: &str) -> Prepared {
    common::write_data(folder, "train", 24, 8);
    let users: String = (0..24).map(|record| format!("{record},user {}\n", record % 9)).collect();
    std::fs::write(folder.join("users.csv"), format!("record,user\n{users}")).unwrap();
    let request = common::request(
        folder,
        &format!(
            "users = 'users.csv'\n[user]\nlocal_steps = {STEPS}\nlocal_learning_rate = {RATE}\n[model]\n{model}\n\
             [optimiser]\nlearning_rate = 1.0\n[sampling]\nbatch = {BATCH}\nsteps = 2\n\
             [privacy]\nrelation = 'user'\nmax_grad_norm = {CLIP}\nnoise_multiplier = 1.0\ndelta = 1e-5\n\
             [performance]\nthreads = 2\n{rest}"
        ),
    );
    Prepared::new(&request).unwrap()
}

fn loader(prepared: &Prepared, seed: u64) -> Loader {
    let master = MasterKey::from_seed(seed);
    let train = prepared.data.train.clone();
    let sampler = Sampler::new(prepared.plan(), train.units(), SamplerKeys::of(&master)).unwrap();
    // However small microbatches are, a user comes as one.
    let options = LoaderOptions { microbatch: 1, ..LoaderOptions::default() };
    Loader::train(train, sampler, prepared.views.clone(), LoaderKeys::of(&master), 0..1, options).unwrap()
}

/// By how much one step moves the parameters, with or without its noise.
fn step(prepared: &Prepared, seed: u64, noisy: bool) -> (Vec<f64>, Taken) {
    let mut trainer = Trainer::new(prepared, &mut Vec::new()).unwrap();
    if !noisy {
        trainer.parts.iter_mut().for_each(|part| part.noise = None);
    }
    let before = prepared.parameters.values().to_vec();
    let keys = StepKeys::of(&MasterKey::from_seed(seed));
    let taken = trainer.step(&mut loader(prepared, seed), None, &keys, 0).unwrap();
    let after = trainer.weights().unwrap().values();
    (before.iter().zip(after).map(|(before, after)| f64::from(*before) - f64::from(*after)).collect(), taken)
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// What a user sends: its first weights less its last ones.
fn update(graph: &Graph, start: &Parameters, batch: &Batch<'_>, records: usize) -> Vec<f64> {
    let layout = Layout::new(graph);
    let mut weights = start.clone();
    for _ in 0..STEPS {
        let reference = ReferenceExecutor::new(graph, &weights).unwrap();
        let mut mean = vec![0.0; layout.len()];
        for sample in 0..records {
            let (_, gradient) = reference.gradient(batch, sample).unwrap();
            mean.iter_mut().zip(gradient).for_each(|(mean, value)| *mean += value / records as f64);
        }
        for entry in layout.entries() {
            let values = weights.get_mut(entry.id).iter_mut().zip(&mean[entry.range.clone()]);
            values.for_each(|(value, gradient)| *value = (f64::from(*value) - RATE * gradient) as f32);
        }
    }
    let ends = |entry: &dapple_engine::LayoutEntry| {
        let pairs = start.get(entry.id).iter().zip(weights.get(entry.id));
        pairs.map(|(start, end)| f64::from(*start) - f64::from(*end)).collect::<Vec<f64>>()
    };
    layout.entries().iter().flat_map(ends).collect()
}

/// The sum over users of their updates, each part clipped by itself, divided by the expected number of users; and what users drew.
fn expected(
    prepared: &Prepared,
    parts: &[f64],
    is_first: impl Fn(&str) -> bool,
) -> (Vec<f64>, BTreeSet<Option<usize>>) {
    let graph = &prepared.graphs[0];
    let submodels = prepared.split.as_ref().map(|split| split.submodels(graph).unwrap()).unwrap_or_default();
    let layout = Layout::new(graph);
    let (mut sum, mut drawn) = (vec![0.0; layout.len()], BTreeSet::new());
    for microbatch in loader(prepared, SEED) {
        let microbatch = microbatch.unwrap();
        // Each microbatch has all records of one user, in some order.
        let user = microbatch.user.unwrap();
        let records: BTreeSet<usize> = microbatch.records.iter().copied().collect();
        assert_eq!(records, prepared.data.train.users().unwrap().records(user).iter().copied().collect());
        assert!(records.iter().all(|record| record % 9 == user));
        drawn.insert(microbatch.submodel);
        let own = microbatch.submodel.map_or(graph, |submodel| &submodels[submodel]);
        let Labels::Classes(classes) = &microbatch.labels else { panic!("one class each") };
        let batch = Batch::new(&microbatch.inputs, Targets::Classes(classes));
        let update = update(own, &prepared.parameters, &batch, records.len());
        for (part, bound) in parts.iter().enumerate() {
            let of_part = || layout.entries().iter().filter(|entry| is_first(&entry.name) == (part == 0));
            let values: Vec<f64> = of_part().flat_map(|entry| update[entry.range.clone()].to_vec()).collect();
            let factor = (bound * CLIP / norm(&values)).min(1.0) / BATCH as f64;
            let places = of_part().flat_map(|entry| entry.range.clone());
            places.for_each(|place| sum[place] += factor * update[place]);
        }
    }
    (sum, drawn)
}

fn assert_close(what: &str, moved: &[f64], expected: &[f64]) {
    let difference: Vec<f64> = moved.iter().zip(expected).map(|(moved, expected)| moved - expected).collect();
    // Half a unit a coordinate is taken off the clip norm, and weights are in single precision.
    assert!(norm(&difference) < 3e-3 * norm(expected), "{what}: {} of {}", norm(&difference), norm(expected));
}

#[test]
fn a_user_adds_its_clipped_update() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["name = 'linear'", "name = 'small-hybrid'"] {
        let prepared = prepared(folder.path(), model, "");
        let (expected, drawn) = expected(&prepared, &[1.0], |_| true);
        assert_eq!(drawn, BTreeSet::from([None]));
        let (moved, taken) = step(&prepared, SEED, false);
        assert_close(model, &moved, &expected);
        assert_eq!(taken.norms().len(), taken.drawn());
        assert!(taken.drawn() > 2 && taken.drawn() < 9 && taken.not_finite() == 0);
        // Some are clipped, or the oracle's clipping would not be seen.
        assert!(taken.clipped().unwrap() > 0.0, "{:?}", taken.norms());
    }
}

const BLOCKS: &str = "[partition]\nblocks = ['blocks.0..blocks.3']\nsubmodels = 4\n";

/// A user keeps the submodel that it drew for all local steps: the oracle does.
#[test]
fn a_user_adds_the_clipped_update_of_its_submodel() {
    let folder = tempfile::tempdir().unwrap();
    let norms = format!("split_norm = {}\nnonsplit_norm = {}\n", PARTS[0], PARTS[1]);
    let prepared = prepared(folder.path(), "name = 'small-hybrid'", &format!("{BLOCKS}{norms}"));
    let (expected, drawn) = expected(&prepared, &PARTS, |name| name.starts_with("blocks"));
    assert!(drawn.len() > 1 && !drawn.contains(&None), "{drawn:?}");
    assert_close("submodels", &step(&prepared, SEED, false).0, &expected);
}

/// In a step with one user, after all of its local steps, the blocks of other submodels get exactly nothing before the noise.
#[test]
fn blocks_of_other_submodels_get_noise_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let prepared =
        prepared(folder.path(), "name = 'small-hybrid'", &format!("{BLOCKS}split_fraction = 0.5\n"));
    let layout = Layout::new(&prepared.graphs[0]);
    let still = |moved: &[f64]| -> Vec<usize> {
        let of = |block: usize| {
            let name = format!("blocks.{block}.");
            let mut own = layout.entries().iter().filter(|entry| entry.name.starts_with(&name));
            own.all(|entry| moved[entry.range.clone()].iter().all(|&value| value == 0.0))
        };
        (0..4).filter(|&block| of(block)).collect()
    };
    let drawn = |seed: u64| -> Vec<Option<usize>> {
        loader(&prepared, seed).map(|microbatch| microbatch.unwrap().submodel).collect()
    };
    for seed in (0..).filter(|&seed| drawn(seed).iter().collect::<BTreeSet<_>>().len() == 1).take(2) {
        let own = drawn(seed)[0].unwrap();
        let others: Vec<usize> = (0..4).filter(|&block| block != own).collect();
        assert_eq!(still(&step(&prepared, seed, false).0), others);
        assert!(still(&step(&prepared, seed, true).0).is_empty());
    }
}

/// Dropout that splits the model drops the same nodes for all records of a user and in all its steps: what touches them does not move.
#[test]
fn a_user_has_one_mask_for_all_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let partition =
        format!("[partition]\ndropout = 0.5\nsplit_norm = {}\nnonsplit_norm = {}\n", PARTS[0], PARTS[1]);
    let prepared = prepared(folder.path(), "name = 'linear'\nhead_dropout = 0.5", &partition);
    let units = prepared.graphs[0].dropout_units();
    let layout = Layout::new(&prepared.graphs[0]);
    let users = |seed: u64| -> BTreeSet<usize> {
        loader(&prepared, seed).filter_map(|microbatch| microbatch.unwrap().user).collect()
    };
    for seed in (0..).filter(|&seed| users(seed).len() == 1).take(2) {
        let user = users(seed).into_iter().next().unwrap();
        let key = StepKeys::of(&MasterKey::from_seed(seed)).units.step(0);
        let kept = dapple_private::draw_unit_masks(&key, &[user], &units);
        let (moved, _) = step(&prepared, seed, false);
        let weight =
            layout.entries().iter().find(|entry| entry.range.len() > kept.len()).unwrap().range.clone();
        let mut moves = 0;
        for (place, &value) in moved[weight].iter().enumerate() {
            let is_kept = kept[place % kept.len()];
            assert!(is_kept || value == 0.0, "{place} moves by {value}");
            moves += usize::from(value != 0.0);
        }
        assert!(moves > 0);
    }
}
