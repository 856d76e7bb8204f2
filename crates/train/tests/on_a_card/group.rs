//! Tests whole runs on all cards, and on cards that do not exist.

use dapple_engine::cuda::device_count;
use dapple_plan::spec::{DeviceChoice, Performance};
use dapple_train::{Silent, StepError, TrainError, start};

use crate::common::model_bytes;
use crate::{alone, gpu, losses, on, plan};

const OPTIMISER: &str = "learning_rate = 0.05\nmomentum = 0.9\nema = 0.9";

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn all_cards_give_the_same_bits_again() {
    let (_card, folder) = alone();
    let folder = folder.path();
    let run = |name: &str, performance: &Performance| {
        let losses = losses(folder, name, &plan(folder, "small-cnn", OPTIMISER, performance));
        (losses, model_bytes(&folder.join(name)))
    };
    let all = run("all", &on(DeviceChoice::AllCards));
    assert!(all == run("again", &on(DeviceChoice::AllCards)), "the same cards gave other bits");
    if device_count().unwrap() == 1 {
        assert!(all == run("first", &gpu()), "one card has other bits as a group");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn cards_that_are_not_there_are_refused_before_anything_is_written() {
    let (_card, folder) = alone();
    let folder = folder.path();
    let missing = folder.join("missing");
    let mut request = plan(folder, "small-cnn", OPTIMISER, &on("cuda:0,99".parse().unwrap()));
    for seed in [Some(1), None] {
        request.spec.train.seed = seed;
        let error = start(&request, &missing, &mut Silent).unwrap_err();
        assert!(
            matches!(error, TrainError::Private(StepError::Device { .. })) && error.hint().is_some(),
            "{error}"
        );
        assert!(!missing.exists(), "{error}");
    }
}
