//! Tests that evaluations on the processor and on the card agree.

use std::path::Path;

use dapple_data::open;
use dapple_plan::PlanSpec;
use dapple_plan::spec::EvaluationKind;
use dapple_train::{Evaluation, Look, Prediction, Predictor, Request, Silent, evaluate_with, start};

use crate::common::write_data;
use crate::{alone, cpu, gpu, plan};

/// Scores of the two agree to a ten-thousandth of the largest, as the engine's conformance suite demands. So a pixel gets another class
/// only if its two likeliest classes are that close: fewer than one in a thousand, unless scores are crowded.
const OTHERWISE: f64 = 1e-3;
/// A class may be so rare that such pixels are a larger share of it.
const MEAN_IOU: f64 = 5e-3;
/// The loss averages scores that differ by a ten-thousandth over the pixels of all images.
const LOSS: f64 = 1e-3;

/// Models that give one class to an image.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn classes_are_scored_alike() {
    let (_card, folder) = alone();
    let folder = folder.path();
    let mut request = plan(folder, "small-cnn", "learning_rate = 0.05\nmomentum = 0.9", &cpu());
    write_data(folder, "test", 200, 28);
    request.spec.data.test = Some("test.npy".to_owned());
    request.spec.data.test_labels = Some("test-labels.npy".to_owned());
    let out = folder.join("classes");
    start(&request, &out, &mut Silent).unwrap();
    agree("small-cnn", &out, Look::default());
}

/// Models that give a class to every pixel: images are seen at once and window by window, and label maps are as `dapple predict` writes
/// them.
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn label_maps_are_scored_and_predicted_alike() {
    let (_card, folder) = alone();
    for (model, steps) in [("small-fcn", 30), ("deeplab-v3-plus-resnet-18", 4)] {
        maps(folder.path(), model, steps);
    }
}

fn maps(folder: &Path, model: &str, steps: u32) {
    let text = format!(
        "[data]\nformat = 'street-scenes'\nmean = [0.5]\nstd = [0.25]\n[model]\nname = '{model}'\n\
         [optimiser]\nlearning_rate = 0.1\n[privacy]\nnoise_multiplier = 0.5\ndelta = 1e-3\n[region]\npatch = [8, 8]\n\
         [pipeline]\ncrop = [64, 48]\n[train]\nseed = 3\n[sampling]\nbatch = 12\nsteps = {steps}\n\
         [performance]\ndevice = 'cpu'\n"
    );
    let out = folder.join(model);
    let spec = PlanSpec::from_toml(&text).unwrap();
    let request = Request { spec, base: folder.to_owned(), masks: Vec::new() };
    start(&request, &out, &mut Silent).unwrap();
    for kind in [EvaluationKind::Whole, EvaluationKind::Sliding] {
        let look = Look { kind: Some(kind), ..Look::default() };
        agree(&format!("{model}, {kind:?}"), &out, look);
        let [mut on_cpu, mut on_card] = [cpu(), gpu()].map(|way| Predictor::open(&out, look, &way).unwrap());
        let test = open(&on_cpu.plan().data, Path::new("")).unwrap().test.unwrap();
        let (mut pixels, mut otherwise) = (0, 0);
        for record in (0..test.len()).step_by(10) {
            let image = test.read(record).unwrap();
            let maps =
                [&mut on_cpu, &mut on_card].map(|predictor| predictor.predict(&image, "street").unwrap());
            let [Prediction::Map(cpu), Prediction::Map(card)] = &maps else {
                panic!("a model of streets names no map");
            };
            pixels += cpu.labels().len();
            otherwise += cpu.labels().iter().zip(card.labels()).filter(|(one, other)| one != other).count();
        }
        println!(
            "{model}, {kind:?}: {otherwise} of {pixels} predicted pixels are of another class on the card"
        );
        assert!((otherwise as f64) < OTHERWISE * pixels as f64, "{model}, {kind:?}: {otherwise} of {pixels}");
    }
}

/// Asserts that processor and card score a model alike.
fn agree(name: &str, out: &Path, look: Look) {
    let [cpu, card] = [cpu(), gpu()].map(|way| evaluate_with(out, look, &way).unwrap());
    let apart = |of: fn(&Evaluation) -> f64| (of(&cpu) - of(&card)).abs();
    let (accuracy, score) = (apart(|own| own.accuracy), apart(|own| own.score().value));
    let loss = apart(|own| own.loss) / cpu.loss;
    println!("{name}: accuracy {accuracy:.1e}, score {score:.1e}, loss {loss:.1e} apart");
    // Of some hundred records, one may be as close as such a pixel.
    let otherwise = OTHERWISE.max(1.5 / cpu.confusion.iter().flatten().sum::<u64>() as f64);
    assert!(accuracy < otherwise, "{name}: accuracy {accuracy:.1e} apart");
    assert!(score < MEAN_IOU && loss < LOSS, "{name}: score {score:.1e}, loss {loss:.1e} apart");
}
