//! Tests that a card computes the features of a frozen trunk once, and the same ones every time.

use std::fs;
use std::path::Path;

use dapple_plan::spec::{FactorPrecision, Performance};
use dapple_train::{Request, resume, start};

use crate::common::{Recorder, model_bytes, request};
use crate::{alone, cpu, gpu, losses};

/// How far losses on the card may be from the processor's, as a share. Features are off by a ten-thousandth of the largest at the most, and
/// twenty steps of training add to that.
const APART: f64 = 1e-3;

fn plan(folder: &Path, performance: Performance) -> Request {
    let text = "[model]\nname = 'small-cnn'\nseed = 1\ntrainable = ['fc2']\n[optimiser]\nlearning_rate = 0.05\nmomentum = 0.9\n\
        [train]\nseed = 1\ncheckpoint_every = 5\n[privacy]\nnoise_multiplier = 0.3\ndelta = 1e-5\n\
        [sampling]\nbatch = 64\nsteps = 20\n";
    let mut request = request(folder, text);
    request.spec.performance = performance;
    request
}

/// A run on features is near the processor's. If it is stopped and its features are gone, they are made again, and it ends with the same
/// bits. Another precision has features of its own.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn features_are_computed_once_and_alike() {
    let (_card, folder) = alone();
    let folder = folder.path();
    let features = |name: &str| {
        let path = folder.join(name).join("private/features");
        fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let on_card = losses(folder, "card", &plan(folder, gpu()));
    let on_processor = losses(folder, "processor", &plan(folder, cpu()));
    for (card, processor) in on_card.iter().zip(&on_processor) {
        assert!((card - processor).abs() <= APART * processor.abs(), "{card} and {processor}");
    }
    assert_eq!(on_card.len(), 20);
    let parts = folder.join("parts");
    let mut recorder = Recorder { stop_after: Some(7), ..Recorder::default() };
    start(&plan(folder, gpu()), &parts, &mut recorder).unwrap();
    let first = features("parts");
    fs::remove_file(parts.join("private/features")).unwrap();
    resume(&parts, &mut Recorder::default()).unwrap();
    assert!(features("parts") == first && features("card")[130..] == first[130..]);
    assert!(model_bytes(&parts) == model_bytes(&folder.join("card")));
    let reduced = Performance { precision: Some(FactorPrecision::Bf16), ..gpu() };
    losses(folder, "reduced", &plan(folder, reduced));
    assert!(features("reduced") != features("card") && features("processor") != features("card"));
}
