//! Features of a frozen trunk are computed once, and nothing else changes.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, model_bytes, request, write_data};
use dapple_plan::PlanSpec;
use dapple_train::{FeatureShelf, Request, RunOutcome, Silent, TrainError, resume, start, start_beside};

const RECORDS: usize = 16;
const BATCH: usize = 4;
/// The fewest steps for which features are worth computing: two epochs.
const WORTH: usize = 2 * RECORDS / BATCH;

fn plan(folder: &Path, model: &str, steps: usize) -> Request {
    request(
        folder,
        &format!(
            "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[model]\n{model}\n[optimiser]\nlearning_rate = 0.3\n\
             momentum = 0.5\nema = 0.9\n[privacy]\nnoise_multiplier = 0.5\ndelta = 1e-3\n\
             [train]\nseed = 1\ncheckpoint_every = 1\n[sampling]\nbatch = {BATCH}\nsteps = {steps}\n"
        ),
    )
}

/// Takes the first step of a run, does something to its folder, and goes on. Returns all losses.
fn in_two_parts(
    plan: &Request,
    run: &Path,
    between: impl FnOnce(),
) -> Result<(RunOutcome, Vec<Option<f64>>), TrainError> {
    let mut first = Recorder { stop_after: Some(1), ..Recorder::default() };
    start(plan, run, &mut first)?;
    between();
    let mut second = Recorder::default();
    let outcome = resume(run, &mut second)?;
    Ok((outcome, [first.losses, second.losses].concat()))
}

#[test]
fn steps_on_features_are_steps_on_records_to_the_last_bit() {
    for (model, side) in [
        ("name = 'vit-ti-8'\ntune = 'head'", 16),
        ("name = 'small-cnn'\ntrainable = ['fc2']", 28),
        ("name = 'small-cnn'\ntrainable = ['fc1', 'fc2']", 28),
        ("name = 'resnet-18'\nnorm = 'frozen'\ntune = 'head'", 28),
        ("name = 'mobilenet-v2'\nnorm = 'frozen'\ntune = 'head'", 36),
        (
            "name = 'small-cnn'\nhead_dropout = 0.5\ntrainable = ['fc2.weight']\n[partition]\ndropout = 0.5",
            28,
        ),
        (
            "name = 'mobilenet-v2'\nnorm = 'frozen'\ntune = 'head'\n[partition]\ndropout = 0.5\nsplit_fraction = 0.9",
            36,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_data(folder.path(), "train", RECORDS, side);
        write_data(folder.path(), "test", 6, side);
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        let features = |run: &Path| run.join("private/features");
        let plan = plan(folder.path(), model, WORTH);
        let mut told = Recorder::default();
        let outcome = start(&plan, &whole, &mut told).unwrap();
        assert!(features(&whole).is_file(), "{model}");
        // After the first step too few are left for features, so these steps see the records themselves.
        let gone = || fs::remove_file(features(&parts)).unwrap();
        let (other, losses) = in_two_parts(&plan, &parts, gone).unwrap();
        assert!(!features(&parts).exists(), "{model}");
        assert_eq!((losses, other.evaluation), (told.losses, outcome.evaluation), "{model}");
        assert!(model_bytes(&whole) == model_bytes(&parts), "{model}");
    }
}

#[test]
fn features_are_read_again_and_never_trusted_blindly() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", RECORDS, 28);
    write_data(folder.path(), "test", 6, 28);
    let plan = plan(folder.path(), "name = 'small-cnn'\ntrainable = ['fc2']", WORTH + 1);
    let whole = folder.path().join("whole");
    start(&plan, &whole, &mut Silent).unwrap();
    let kept = fs::read(whole.join("private/features")).unwrap();
    type Damage = fn(&Path);
    let damages = [
        ("kept", (|_| {}) as Damage),
        ("gone", |path| fs::remove_file(path).unwrap()),
        ("changed", |path| {
            let mut bytes = fs::read(path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("cut", |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() - 4]).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let run = folder.path().join(name);
        let path = run.join("private/features");
        in_two_parts(&plan, &run, || damage(&path)).unwrap();
        assert!(model_bytes(&run) == model_bytes(&whole), "{name}");
        // Each run hides the fingerprint of the data by a key of its own, and the first line of the file depends on it.
        assert_eq!(fs::read(&path).unwrap()[65..], kept[65..], "{name}");
    }
}

#[test]
fn records_that_are_shown_in_several_ways_have_no_features() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", RECORDS, 28);
    write_data(folder.path(), "test", 6, 28);
    type Change = fn(&mut PlanSpec);
    for (name, change) in [
        ("flipped", (|spec| spec.data.flip = Some(true)) as Change),
        ("augmented", |spec| spec.data.augment = Some(vec!["noise 0.1".to_owned()])),
        ("seldom", |spec| spec.sampling.steps = Some(WORTH as u64 - 1)),
        ("all", |spec| spec.model.trainable = None),
        ("cropped", |spec| spec.set("pipeline.crop", "28x28").unwrap()),
        ("views", |spec| spec.set("pipeline.views", "2").unwrap()),
    ] {
        let mut plan = plan(folder.path(), "name = 'small-cnn'\ntrainable = ['fc2']", WORTH);
        change(&mut plan.spec);
        let run = folder.path().join(name);
        start(&plan, &run, &mut Silent).unwrap();
        assert!(!run.join("private/features").exists(), "{name}");
    }
}

/// Runs of one process that share a frozen trunk end where each would alone. Those of other records or another trunk get features of their own.
#[test]
fn runs_that_share_features_end_where_they_would_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (name, records, side) in [("train", RECORDS, 28), ("test", 6, 28), ("other", RECORDS, 28)] {
        write_data(folder.path(), name, records, side);
    }
    // Other records, under other names.
    let mut bytes = fs::read(folder.path().join("other.npy")).unwrap();
    bytes.iter_mut().skip(200).for_each(|byte| *byte ^= 1);
    fs::write(folder.path().join("other.npy"), bytes).unwrap();
    let shelf = FeatureShelf::default();
    let plan = |change: fn(&mut PlanSpec)| {
        let mut plan = plan(folder.path(), "name = 'small-cnn'\ntrainable = ['fc2']", WORTH);
        change(&mut plan.spec);
        plan
    };
    for (number, plan) in [
        plan(|_| {}),
        plan(|spec| spec.privacy.noise_multiplier = Some(1.5)),
        plan(|spec| spec.data.train = Some("other.npy".to_owned())),
        plan(|spec| spec.model.seed = Some(9)),
        plan(|spec| spec.data.mean = Some(vec![0.3])),
    ]
    .iter()
    .enumerate()
    {
        let runs = ["alone", "beside"].map(|name| folder.path().join(format!("{name}-{number}")));
        let alone = start(plan, &runs[0], &mut Silent).unwrap();
        let beside = start_beside(plan, &runs[1], (None, &shelf), &mut Silent).unwrap();
        assert_eq!(alone.evaluation, beside.evaluation, "{number}");
        assert!(model_bytes(&runs[0]) == model_bytes(&runs[1]), "{number}");
    }
}
