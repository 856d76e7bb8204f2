//! Runs of split models: what they are without a split, what resumes, who answers, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{goes_on_alike, model_bytes, request, write_data, write_pairs};
use dapple_data::{Image, Values};
use dapple_geometry::Size;
use dapple_plan::PlanSpec;
use dapple_plan::spec::Performance;
use dapple_train::{
    Look, Prediction, Predictor, Request, Silent, TrainError, Verdict, evaluate, start, verify,
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
    goes_on_alike(folder.path(), &request(folder.path(), &split(&format!("{BLOCKS}{SPLIT}"))));
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

/// Phases that change batch and noise, and adapters of low rank in the blocks that are dealt out.
#[test]
fn phases_and_adapters_train() {
    let folder = data();
    let phases = split(&format!("{BLOCKS}{SPLIT}")).replace("steps = 4\n", "")
        + "[[phases]]\nsteps = 2\n[[phases]]\nsteps = 2\nnoise_multiplier = 2.0\nbatch = 12\n";
    run(folder.path(), "phases", &phases).unwrap();
    let adapters = plan(
        &format!("[partition]\n{BLOCKS}{SPLIT}{POISSON}"),
        "tune = 'lora'\nlora_rank = 2\nlora_targets = ['attn.qkv']",
    );
    run(folder.path(), "adapters", &adapters).unwrap();
    for name in ["phases", "adapters"] {
        assert!(matches!(verify(&folder.path().join(name), None).unwrap(), Verdict::Valid { .. }), "{name}");
    }
}

/// A model of label maps deals out the blocks of its backbone.
#[test]
fn label_maps_train() {
    let folder = tempfile::tempdir().unwrap();
    write_pairs(&folder.path().join("pairs"), 8, |record, pixel| ((record + pixel / 20) % 3) as u8);
    let text = "[data]\nformat = 'image-pairs'\ntrain = 'pairs'\nclasses = 3\n[model]\nname = 'deeplab-v3-plus-resnet-18'\n\
        [optimiser]\nlearning_rate = 0.1\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n[pipeline]\nimage = [20, 20]\ncrop = [16, 16]\n\
        [train]\nseed = 3\n[sampling]\nbatch = 4\nsteps = 2\n\
        [partition]\nsubmodels = 2\nblocks = ['backbone.layer1.0', 'backbone.layer1.1']\nsplit_norm = 0.5\nnonsplit_norm = 1.0\n";
    let request = Request {
        spec: PlanSpec::from_toml(text).unwrap(),
        base: folder.path().to_owned(),
        masks: Vec::new(),
    };
    start(&request, &folder.path().join("run"), &mut Silent).unwrap();
    let split = folder.path().join("run");
    assert!(matches!(verify(&split, None).unwrap(), Verdict::Valid { .. }));
    let ensemble =
        Request { spec: PlanSpec::from_toml(&format!("{text}predict = 'ensemble'\n")).unwrap(), ..request };
    let error = start(&ensemble, &folder.path().join("ensemble"), &mut Silent).unwrap_err();
    assert!(error.to_string().starts_with("partition.predict"), "{error}");
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
        ("dropout = 0.5\n", "", "partition.dropout", "small-hybrid has no dropout layer"),
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
