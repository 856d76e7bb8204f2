//! Runs of models that dropout splits: what resumes, who answers, what is told, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{goes_on_alike, model_bytes, request, write_data, write_pairs};
use dapple_plan::PlanSpec;
use dapple_train::{Evaluation, Look, Request, Silent, TrainError, Verdict, evaluate, start, verify};

const MODEL: &str = "name = 'small-cnn'\nhead_dropout = 0.5\n";
const SPLIT: &str = "dropout = 0.5\nsplit_fraction = 0.6\n";

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 24, 28);
    write_data(folder.path(), "test", 8, 28);
    folder
}

fn plan(model: &str, partition: &str) -> String {
    format!(
        "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[model]\n{model}\n[optimiser]\nlearning_rate = 0.1\n\
         [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[train]\nseed = 3\ncheckpoint_every = 1\n[performance]\nthreads = 1\n\
         [sampling]\nbatch = 8\nsteps = 4\n[partition]\n{partition}\n"
    )
}

fn run(folder: &Path, name: &str, text: &str) -> Result<(), TrainError> {
    start(&request(folder, text), &folder.join(name), &mut Silent).map(|_| ())
}

#[test]
fn a_stopped_run_goes_on_with_the_same_masks() {
    let folder = data();
    goes_on_alike(folder.path(), &request(folder.path(), &plan(MODEL, SPLIT)));
}

/// Without a seed, a process that goes on has keys of its own, and masks that no earlier one drew.
#[test]
fn without_a_seed_no_two_runs_draw_the_same() {
    let folder = data();
    let text = plan(MODEL, SPLIT).replace("seed = 3\n", "");
    run(folder.path(), "one", &text).unwrap();
    run(folder.path(), "two", &text).unwrap();
    assert_ne!(model_bytes(&folder.path().join("one")), model_bytes(&folder.path().join("two")));
}

/// Dropout is off where the model answers: what the training executor evaluates is what the released weights say, twice alike.
#[test]
fn no_mask_stands_between_the_model_and_its_answers() {
    let folder = data();
    run(folder.path(), "run", &plan(MODEL, SPLIT)).unwrap();
    let run = folder.path().join("run");
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let told: serde_json::Value = serde_json::from_str(metrics.lines().last().unwrap()).unwrap();
    let ask = || -> Evaluation { evaluate(&run, Look::default()).unwrap() };
    assert_eq!(told["loss"].as_f64(), Some(ask().loss));
    assert_eq!(ask(), ask());
}

/// What is public of a run says that dropout splits it, and of no record or step what was dropped.
#[test]
fn no_public_file_tells_a_mask() {
    let folder = data();
    run(folder.path(), "run", &plan(MODEL, SPLIT)).unwrap();
    let run = folder.path().join("run");
    let read = |file: &str| fs::read_to_string(run.join(file)).unwrap();
    assert!(
        read("certificate.json")
            .contains("Dropout keeps each node of its layers by an independent fair coin")
    );
    for file in ["ledger.jsonl", "metrics.jsonl", "model.json"] {
        let text = read(file);
        assert!(!text.contains("mask") && !text.contains("kept") && !text.contains("dropped"), "{file}");
    }
    let mut stack = vec![run];
    while let Some(path) = stack.pop() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.contains("mask") && !name.contains("unit"), "{name}");
        if path.is_dir() {
            stack.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

/// The rate of a model's own layers becomes one half, which changes what is learned.
#[test]
fn layers_of_the_model_drop_nodes_at_one_half() {
    let folder = data();
    let model = "name = 'mobilenet-v2'\ntune = 'head'";
    run(folder.path(), "split", &plan(model, "dropout = 0.5\nsplit_fraction = 0.9992")).unwrap();
    let plain = plan(model, "").replace("[partition]\n", "");
    run(folder.path(), "plain", &plain).unwrap();
    assert_ne!(model_bytes(&folder.path().join("split")), model_bytes(&folder.path().join("plain")));
}

/// Crops of two sizes, and balanced steps of a model of which every trained parameter is split.
#[test]
fn phases_and_balanced_sampling_train() {
    let folder = data();
    let phases = format!(
        "{}[[phases]]\nsteps = 2\ncrop = [16, 16]\n[[phases]]\nsteps = 2\nnoise_multiplier = 2.0\ncrop = [24, 24]\n",
        plan("name = 'mobilenet-v2'\ntune = 'head'", "dropout = 0.5\nsplit_fraction = 0.9992\n")
            .replace("steps = 4\n", "")
    );
    run(folder.path(), "phases", &phases).unwrap();
    let balanced = plan(&format!("{MODEL}trainable = ['fc1', 'fc2.weight']"), "dropout = 0.5")
        .replace("steps = 4", "scheme = 'balanced'\nper_record = 1\nepochs = 2");
    run(folder.path(), "balanced", &balanced).unwrap();
    for name in ["phases", "balanced"] {
        assert!(matches!(verify(&folder.path().join(name), None).unwrap(), Verdict::Valid { .. }), "{name}");
    }
}

/// Channels before the scores of every pixel are nodes as well.
#[test]
fn label_maps_train() {
    let folder = tempfile::tempdir().unwrap();
    write_pairs(&folder.path().join("pairs"), 8, |record, pixel| ((record + pixel / 20) % 3) as u8);
    let text = "[data]\nformat = 'image-pairs'\ntrain = 'pairs'\nclasses = 3\n[model]\nname = 'psp-net-resnet-18'\ntune = 'head'\n\
        [optimiser]\nlearning_rate = 0.1\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n[pipeline]\nimage = [20, 20]\ncrop = [16, 16]\n\
        [train]\nseed = 3\n[sampling]\nbatch = 4\nsteps = 2\n[partition]\ndropout = 0.5\nsplit_norm = 1.0\nnonsplit_norm = 0.25\n";
    let request = Request {
        spec: PlanSpec::from_toml(text).unwrap(),
        base: folder.path().to_owned(),
        masks: Vec::new(),
    };
    start(&request, &folder.path().join("run"), &mut Silent).unwrap();
}

#[test]
fn what_dropout_cannot_split_is_refused_with_what_to_write() {
    let folder = data();
    for (model, partition, key, words) in [
        ("name = 'small-cnn'", SPLIT, "partition.dropout", "small-cnn has no dropout layer"),
        (MODEL, "dropout = 0.5", "partition.split_fraction", "only 0.6"),
        (MODEL, "dropout = 0.5\nblocks = ['conv1']", "partition.blocks", "dropout splits the model"),
        (MODEL, "dropout = 0.5\npredict = 'ensemble'", "partition.predict", "more submodels"),
        (
            "name = 'small-cnn'\nhead_dropout = 0.3",
            SPLIT,
            "model.head_dropout",
            "0.3 is another rate than that of partition.dropout",
        ),
        ("name = 'small-cnn'\nhead_dropout = 1.0", "", "model.head_dropout", "1 is no rate"),
        (
            "name = 'mobilenet-v2'\nhead_dropout = 0.5",
            SPLIT,
            "model.head_dropout",
            "stands before it already",
        ),
        (
            "name = 'small-cnn'\nhead_dropout = 0.5\ntrainable = ['conv1']",
            SPLIT,
            "partition.dropout",
            "no trained parameter",
        ),
        (
            "name = 'small-cnn'\nhead_dropout = 0.5\ntrainable = ['fc1', 'fc2.weight']",
            SPLIT,
            "partition.nonsplit_norm",
            "every trained parameter is a weight",
        ),
    ] {
        let error = run(folder.path(), "run", &plan(model, partition)).unwrap_err();
        assert!(
            error.to_string().starts_with(key) && error.to_string().contains(words),
            "{model} {partition}: {error}"
        );
        assert!(error.hint().is_some(), "{error}");
        assert!(!folder.path().join("run").exists());
    }
    let error = run(folder.path(), "run", &plan("name = 'small-cnn'", SPLIT)).unwrap_err();
    let hint = error.hint().unwrap();
    assert!(
        hint.contains("model.head_dropout = 0.5") && hint.contains("vgg-11, vgg-16, mobilenet-v2"),
        "{hint}"
    );
}
