//! Runs of split models: what they are without a split, what resumes, who answers, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, model_bytes, request, write_data};
use dapple_data::{Image, Values};
use dapple_geometry::Size;
use dapple_plan::spec::Performance;
use dapple_train::{
    Look, Prediction, Predictor, Silent, TrainError, Verdict, evaluate, resume, start, verify,
};

const BLOCKS: &str = "blocks = ['blocks.0..blocks.3']\n";
const SPLIT: &str = "submodels = 2\nsplit_fraction = 0.9\n";

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 24, 8);
    write_data(folder.path(), "test", 8, 8);
    folder
}

fn plan(partition: &str, rest: &str) -> String {
    format!(
        "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[model]\nname = 'small-hybrid'\n{rest}\n[optimiser]\nlearning_rate = 0.1\n\
         [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[train]\nseed = 3\ncheckpoint_every = 1\n[performance]\nthreads = 1\n{partition}"
    )
}

const POISSON: &str = "[sampling]\nbatch = 8\nsteps = 4\n";

fn run(folder: &Path, name: &str, text: &str) -> Result<(), TrainError> {
    start(&request(folder, text), &folder.join(name), &mut Silent).map(|_| ())
}

fn split(partition: &str) -> String {
    plan(&format!("[partition]\n{partition}{POISSON}"), "")
}

#[test]
fn one_submodel_is_no_splitting_to_the_bit() {
    let folder = data();
    run(folder.path(), "whole", &plan(POISSON, "")).unwrap();
    run(folder.path(), "one", &split(&format!("{BLOCKS}submodels = 1\n"))).unwrap();
    run(folder.path(), "two", &split(&format!("{BLOCKS}{SPLIT}"))).unwrap();
    let [whole, one, two] = ["whole", "one", "two"].map(|name| model_bytes(&folder.path().join(name)));
    assert_eq!(whole, one);
    assert_ne!(whole, two);
}

#[test]
fn a_stopped_run_goes_on_with_the_same_draws() {
    let folder = data();
    let text = split(&format!("{BLOCKS}{SPLIT}"));
    run(folder.path(), "whole", &text).unwrap();
    let parts = folder.path().join("parts");
    let mut recorder = Recorder { stop_after: Some(2), ..Recorder::default() };
    start(&request(folder.path(), &text), &parts, &mut recorder).unwrap();
    resume(&parts, &mut Silent).unwrap();
    assert_eq!(model_bytes(&parts), model_bytes(&folder.path().join("whole")));
    assert!(matches!(verify(&parts, None).unwrap(), Verdict::Valid { .. }));
}

/// What is public of a run says that there are submodels, and of no record or step which one it was.
#[test]
fn no_public_file_tells_a_draw() {
    let folder = data();
    run(folder.path(), "run", &split(&format!("{BLOCKS}{SPLIT}"))).unwrap();
    let run = folder.path().join("run");
    let read = |file: &str| fs::read_to_string(run.join(file)).unwrap();
    assert!(read("certificate.json").contains("each record updates one of 2 submodels"));
    for file in ["ledger.jsonl", "metrics.jsonl", "model.json"] {
        assert!(!read(file).contains("submodel"), "{file}");
    }
    for entry in fs::read_dir(&run).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.contains("submodel"), "{name}");
    }
}

#[test]
fn the_whole_model_or_its_submodels_answer() {
    let folder = data();
    let mut answers = Vec::new();
    for predict in ["all", "ensemble"] {
        run(folder.path(), predict, &split(&format!("{BLOCKS}{SPLIT}predict = '{predict}'\n"))).unwrap();
        let run = folder.path().join(predict);
        let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let told: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
        let evaluation = evaluate(&run, Look::default()).unwrap();
        assert_eq!(told["loss"].as_f64(), Some(evaluation.loss));
        let mut predictor = Predictor::open(&run, Look::default(), &Performance::default()).unwrap();
        let values = Values::Bytes((0..64).map(|i| (i * 3) as u8).collect());
        let image = Image::new(Size::new(8, 8).unwrap(), 1, values).unwrap();
        let Prediction::Class(probabilities) = predictor.predict(&image, "an image").unwrap() else {
            panic!("one class")
        };
        assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        answers.push((evaluation.loss, probabilities));
    }
    assert_eq!(model_bytes(&folder.path().join("all")), model_bytes(&folder.path().join("ensemble")));
    assert!(answers[0].0 != answers[1].0 && answers[0].1 != answers[1].1);
}

#[test]
fn mixtures_and_balanced_sampling_train() {
    let folder = data();
    let mixture = "mixture = [[2, 0.5], [3, 0.5]]\nsplit_norm = 0.8\nnonsplit_norm = 0.6\n";
    run(folder.path(), "mixture", &split(&format!("{BLOCKS}{mixture}"))).unwrap();
    let balanced = format!(
        "[partition]\n{BLOCKS}submodels = 4\n[sampling]\nscheme = 'balanced'\nper_record = 1\nbatch = 8\nepochs = 2\n"
    );
    run(folder.path(), "balanced", &plan(&balanced, "trainable = ['blocks']")).unwrap();
    assert!(matches!(verify(&folder.path().join("balanced"), None).unwrap(), Verdict::Valid { .. }));
}

#[test]
fn what_cannot_be_split_is_refused_with_what_to_write() {
    let folder = data();
    for (partition, rest, key, words) in [
        (SPLIT, "", "partition.blocks", "is missing"),
        ("submodels = 2\nblocks = ['layer3.1']\n", "", "partition.blocks", "blocks are blocks.0 to blocks.3"),
        ("submodels = 5\nblocks = ['blocks.0..blocks.3']\n", "", "partition.blocks", "4 blocks"),
        ("submodels = 2\nblocks = ['blocks.0..blocks.3']\n", "", "partition.split_fraction", "only 0.8939"),
        (
            "submodels = 2\nblocks = ['blocks.0..blocks.3']\n",
            "tune = 'head'",
            "partition.blocks",
            "none of their",
        ),
        (
            "submodels = 2\nblocks = ['blocks.0..blocks.3']\nsplit_fraction = 0.5\n",
            "trainable = ['blocks']",
            "partition.nonsplit_norm",
            "every trained parameter",
        ),
        ("dropout = 0.5\n", "", "partition.dropout", "not trained"),
        ("blocks = ['blocks.0']\n", "", "partition.blocks", "no meaning"),
    ] {
        let text = plan(&format!("[partition]\n{partition}{POISSON}"), rest);
        let error = run(folder.path(), "run", &text).unwrap_err();
        assert!(
            error.to_string().starts_with(key) && error.to_string().contains(words),
            "{partition}: {error}"
        );
        assert!(error.hint().is_some(), "{error}");
        assert!(!folder.path().join("run").exists());
    }
    let text = split(&format!("{BLOCKS}{SPLIT}")).replace("[train]\n", "[train]\nclipping = 'automatic'\n");
    let error = run(folder.path(), "run", &text).unwrap_err();
    assert!(error.to_string().starts_with("train.clipping"), "{error}");
}
