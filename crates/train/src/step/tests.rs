//! Tests the private step without its noise against a PyTorch loop over single samples (tests/goldens/training.py).

use dapple_data::{Loader, LoaderKeys, LoaderOptions, MasterKey, Sampler, SamplerKeys};

use super::*;
use crate::prepare::Request;

use crate::test_data as common;

fn losses(request: &Request, change: impl Fn(&mut Trainer)) -> Vec<f64> {
    let prepared = Prepared::new(request).unwrap();
    let mut trainer = Trainer::new(&prepared, &mut Vec::new()).unwrap();
    change(&mut trainer);
    let master = MasterKey::from_seed(1);
    let sampler = Sampler::new(prepared.plan(), prepared.data.train.len(), SamplerKeys::of(&master)).unwrap();
    let steps = prepared.plan().steps();
    let (views, keys) = (prepared.views.clone(), LoaderKeys::of(&master));
    let options = LoaderOptions { microbatch: 7, ..LoaderOptions::default() };
    let mut loader =
        Loader::train(prepared.data.train.clone(), sampler, views, keys, 0..steps, options).unwrap();
    let keys = StepKeys::of(&master);
    (0..steps).map(|step| trainer.step(&mut loader, None, &keys, step).unwrap().loss().unwrap()).collect()
}

#[test]
fn clipped_gradients_follow_pytorch() {
    let goldens: serde_json::Value =
        serde_json::from_str(include_str!("../../tests/goldens/training.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 32, 28);
    common::write_small_cnn(folder.path());
    let request = common::request(
        folder.path(),
        "[model]\nname = 'small-cnn'\nweights = 'small-cnn.safetensors'\n[optimiser]\nlearning_rate = 0.5\n\
         [privacy]\nmax_grad_norm = 1.0\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 32\nsteps = 6\n",
    );
    let ours = losses(&request, |trainer| trainer.parts.iter_mut().for_each(|part| part.noise = None));
    let theirs = goldens["small_cnn_clipped"].as_array().unwrap();
    for (step, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        // Norms have a slack of 1e-5, which the steps amplify.
        assert!((ours / theirs.as_f64().unwrap() - 1.0).abs() < 1e-3, "step {step}: {ours} {theirs}");
    }
    // With noise the curve is different.
    assert_ne!(super::tests::losses(&request, |_| {}), ours);
}

#[test]
fn batches_that_no_sum_holds_cost_no_step() {
    let graph = dapple_graph::zoo::small_cnn(&[1, 28, 28], 10).unwrap();
    let layout = dapple_engine::Layout::new(&graph);
    let rule = ClippingRule::new(&Clipping::Flat { max_norm: 1.0 }, &layout).unwrap();
    for (batch, records, held) in [
        (1 << 24, u64::MAX, true),
        (1 << 26, u64::MAX, false),
        // No more records are drawn than there are.
        (1 << 26, 1 << 26, true),
        (1, (1 << 26) + 1, true),
    ] {
        assert_eq!(fits(&rule, batch, records).is_ok(), held, "{batch} of {records}");
    }
}
