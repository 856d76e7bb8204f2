//! Runs on images with label maps: trained, stopped, evaluated, asked, refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, model_bytes, write_pairs};
use dapple_data::{Target, UNLABELLED, open};
use dapple_plan::PlanSpec;
use dapple_plan::spec::{EvaluationKind, Performance};
use dapple_train::{
    Answers, Look, ModelDescription, Prediction, Predictor, Request, RunOutcome, Silent, Status, TrainError,
    evaluate, resume, start,
};

/// Crops of drawn streets for a small model.
const STREETS: &str = "[data]\nformat = 'street-scenes'\nmean = [0.5]\nstd = [0.25]\nflip = true\n[model]\nname = 'small-fcn'\n\
    [optimiser]\nlearning_rate = 0.5\nschedule = 'poly'\n[privacy]\nnoise_multiplier = 0.5\ndelta = 1e-3\n[region]\npatch = [8, 8]\n\
    [pipeline]\ncrop = [24, 16]\n";

fn request(base: &Path, text: &str) -> Request {
    Request { spec: PlanSpec::from_toml(text).unwrap(), base: base.to_owned(), masks: Vec::new() }
}

fn run(folder: &Path, name: &str, text: &str) -> Result<RunOutcome, TrainError> {
    start(&request(folder, text), &folder.join(name), &mut Silent)
}

/// A batch of 200 records gives the same whether they are shown two at a time or all at once.
#[test]
fn microbatches_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |rest: &str| {
        format!(
            "{STREETS}[train]\nseed = 3\n[sampling]\nscheme = 'without-replacement'\nbatch = 200\nsteps = 2\n{rest}"
        )
    };
    run(folder.path(), "two", &plan("[performance]\nmicrobatch = 2\n")).unwrap();
    run(folder.path(), "all", &plan("[performance]\nmicrobatch = 200\nthreads = 1\n")).unwrap();
    assert_eq!(model_bytes(&folder.path().join("two")), model_bytes(&folder.path().join("all")));
}

#[test]
fn a_stopped_run_goes_on_and_its_model_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let plan = format!(
        "{STREETS}[train]\nseed = 3\nevaluation = 'sliding'\nevaluation_stride = 0.75\nlabel_smoothing = 0.1\n[sampling]\nbatch = 12\nsteps = 12\n"
    );
    run(folder.path(), "whole", &plan).unwrap();
    let parts = folder.path().join("parts");
    let mut recorder = Recorder { stop_after: Some(5), ..Recorder::default() };
    let stopped = start(&request(folder.path(), &plan), &parts, &mut recorder).unwrap();
    assert_eq!(stopped.certificate.status, Status::Stopped);
    // The model of a run that is not finished can be asked as well.
    Predictor::open(&parts, Look::default(), &Performance::default()).unwrap();
    let outcome = resume(&parts, &mut Silent).unwrap();
    assert_eq!(model_bytes(&parts), model_bytes(&folder.path().join("whole")));

    let evaluation = outcome.evaluation.unwrap();
    let overlap = evaluation.overlap.clone().unwrap();
    assert_eq!((evaluation.records, overlap.per_class_iou.len()), (120, 6));
    assert_eq!(overlap.pixel_accuracy, evaluation.accuracy);
    assert_eq!(evaluate(&parts, Look::default()).unwrap(), evaluation);
    let line = fs::read_to_string(parts.join("metrics.jsonl")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line.lines().last().unwrap()).unwrap();
    assert_eq!(line["miou"].as_f64(), Some(overlap.miou));
    let at_once = Look { kind: Some(EvaluationKind::Whole), ..Look::default() };
    assert_ne!(evaluate(&parts, at_once).unwrap().confusion, evaluation.confusion);

    // What the model says about the test images is what was evaluated.
    let description = ModelDescription::read(&parts).unwrap();
    assert_eq!((description.answers, description.classes[0].name.as_str()), (Answers::LabelMap, "road"));
    let mut predictor = Predictor::open(&parts, Look::default(), &Performance::default()).unwrap();
    let test = open(&predictor.plan().data, Path::new("")).unwrap().test.unwrap();
    let mut confusion = vec![vec![0; 6]; 6];
    for record in 0..test.len() {
        let image = test.read(record).unwrap();
        let Prediction::Map(map) = predictor.predict(&image, &test.place(record)).unwrap() else {
            panic!("a map was asked for");
        };
        let Target::Map(truth) = test.target(record).unwrap() else { panic!("streets have maps") };
        assert_eq!(map.size(), image.size());
        for (&is, &said) in truth.labels().iter().zip(map.labels()).filter(|(is, _)| **is != UNLABELLED) {
            confusion[usize::from(is)][usize::from(said)] += 1;
        }
    }
    assert_eq!(confusion, evaluation.confusion);
}

const PAIRS: &str = "[data]\nformat = 'image-pairs'\ntrain = 'pairs'\nclasses = 3\n[model]\nname = 'small-fcn'\n[optimiser]\nlearning_rate = 0.5\n\
    [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n[pipeline]\nimage = [20, 20]\ncrop = [16, 16]\n";

/// Records whose pixels are all ignored add nothing, so steps of them alone leave the model as it was.
#[test]
fn images_without_labels_have_no_gradient() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |steps: u32| {
        format!("{PAIRS}[train]\nprivate = false\nseed = 1\n[sampling]\nbatch = 3\nsteps = {steps}\n")
    };
    let bytes = |name: &str, steps| {
        run(folder.path(), name, &plan(steps)).unwrap();
        model_bytes(&folder.path().join(name))
    };
    write_pairs(&folder.path().join("pairs"), 5, |_, _| 255);
    assert_eq!(bytes("one", 1), bytes("several", 6));
    // One labelled pixel in the middle, which every crop shows, is enough to learn from.
    write_pairs(&folder.path().join("pairs"), 5, |_, pixel| if pixel == 10 * 20 + 10 { 1 } else { 255 });
    assert_ne!(bytes("labelled", 1), bytes("more", 6));
}

#[test]
fn records_without_labels_do_not_change_the_sum() {
    let folder = tempfile::tempdir().unwrap();
    // Every record joins every step, so the sums differ only by the unlabelled records, and the divisor is the same.
    let plan = |batch: u32| {
        format!("{PAIRS}[train]\nprivate = false\nseed = 1\n[sampling]\nbatch = {batch}\nsteps = 3\n")
            .replace("learning_rate = 0.5", &format!("learning_rate = {}", 0.25 * f64::from(batch)))
            .replace("crop = [16, 16]\n", "")
    };
    write_pairs(&folder.path().join("pairs"), 2, |record, pixel| ((record + pixel) % 3) as u8);
    run(folder.path(), "two", &plan(2)).unwrap();
    write_pairs(
        &folder.path().join("pairs"),
        4,
        |record, pixel| {
            if record < 2 { ((record + pixel) % 3) as u8 } else { 255 }
        },
    );
    run(folder.path(), "four", &plan(4)).unwrap();
    assert_eq!(model_bytes(&folder.path().join("two")), model_bytes(&folder.path().join("four")));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_pairs(&folder.path().join("pairs"), 3, |_, pixel| (pixel % 3) as u8);
    let plan = format!("{PAIRS}[sampling]\nbatch = 2\nsteps = 1\n");
    for (from, to, key, words) in [
        ("small-fcn", "resnet-18", "model.name", "one class an image"),
        (
            "[sampling]",
            "[train]\nevaluation_grid = 2\n[sampling]",
            "train.evaluation_grid",
            "a class a pixel",
        ),
        ("[sampling]", "[train]\nevaluation_stride = 2.0\n[sampling]", "train.evaluation_stride", "at once"),
        ("'small-fcn'", "'small-fcn'\noutput_stride = 8", "model.output_stride", "no choice"),
    ] {
        let error = run(folder.path(), "run", &plan.replace(from, to)).unwrap_err();
        assert!(error.to_string().starts_with(key) && error.to_string().contains(words), "{error}");
        assert!(error.hint().is_some() && !folder.path().join("run").exists(), "{error}");
    }
    let classes = "[data]\nformat = 'fashion-scenes'\nsize = [16, 16]\n[model]\nname = 'small-fcn'\n[optimiser]\nlearning_rate = 0.5\n\
         [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n[sampling]\nbatch = 2\nsteps = 1\n";
    let error = run(folder.path(), "run", classes).unwrap_err();
    assert!(error.to_string().contains("one an image") && error.hint().is_some(), "{error}");
}

#[test]
fn a_classifier_can_be_asked_about_pictures_of_any_kind() {
    let folder = tempfile::tempdir().unwrap();
    common::write_data(folder.path(), "train", 12, 16);
    let plan = "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n\
         [sampling]\nbatch = 4\nsteps = 2\n";
    start(&common::request(folder.path(), plan), &folder.path().join("run"), &mut Silent).unwrap();
    let mut predictor =
        Predictor::open(&folder.path().join("run"), Look::default(), &Performance::default()).unwrap();
    assert_eq!(predictor.description().classes.len(), 4);
    let size = dapple_geometry::Size::new(16, 16).unwrap();
    let ask = |predictor: &mut Predictor, channels: usize| {
        let values = (0..256u32).flat_map(|pixel| vec![pixel as u8; channels]).collect();
        let image = dapple_data::Image::new(size, channels, dapple_data::Values::Bytes(values)).unwrap();
        predictor.predict(&image, "picture.png")
    };
    // A grey picture decoded in three channels is still the same picture.
    let Prediction::Class(probabilities) = ask(&mut predictor, 1).unwrap() else {
        panic!("a class was asked for")
    };
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert_eq!(ask(&mut predictor, 3).unwrap(), Prediction::Class(probabilities));
    let error = ask(&mut predictor, 2).unwrap_err();
    assert!(error.to_string().contains("picture.png"), "{error}");
}
