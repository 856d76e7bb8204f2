//! Runs whose noise cancels across steps.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Recorder, model_bytes, request, write_data};
use dapple_train::{
    History, RunOutcome, Silent, Status, TrainError, Verdict, certify, resume, start, steps_lost, verify,
};

/// A folder with data of 40 records.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 6);
    folder
}

fn plan(train: &str, more: &str) -> String {
    format!(
        "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.2\nmomentum = 0.9\n[privacy]\nnoise_multiplier = 1.5\ndelta = 1e-5\n\
         [sampling]\nbatch = 10\nsteps = 21\n[train]\n{train}\n{more}\n"
    )
}

const BANDS: &str = "[noise]\nbands = 4";

fn run(folder: &Path, name: &str, plan: &str) -> RunOutcome {
    start(&request(folder, plan), &folder.join(name), &mut Silent).unwrap()
}

fn stopped(folder: &Path, name: &str, plan: &str) -> PathBuf {
    let out = folder.join(name);
    let mut recorder = Recorder { stop_after: Some(10), ..Recorder::default() };
    let outcome = start(&request(folder, plan), &out, &mut recorder).unwrap();
    assert_eq!(outcome.certificate.status, Status::Stopped);
    assert!((10..21).contains(&outcome.certificate.steps_spent));
    out
}

#[test]
fn a_run_is_certified_as_it_was_priced() {
    let folder = data();
    let outcome = run(folder.path(), "run", &plan("", BANDS));
    let certificate = outcome.certificate;
    assert_eq!((certificate.steps_spent, &certificate.spent), (21, &certificate.planned));
    let spent = certificate.spent.unwrap();
    assert_eq!(spent.correlated_noise.unwrap().bands, 4);
    let out = folder.path().join("run");
    let ledger = fs::read_to_string(out.join("ledger.jsonl")).unwrap();
    assert!(ledger.contains("\"groups\":4"), "{ledger}");
    assert!(matches!(verify(&out, None).unwrap(), Verdict::Valid { .. }));
}

/// With one band everything is as without the section: draws, noise, model.
#[test]
fn one_band_changes_no_bit() {
    let folder = data();
    run(folder.path(), "plain", &plan("seed = 5", ""));
    run(folder.path(), "one", &plan("seed = 5", "[noise]\nbands = 1"));
    run(folder.path(), "four", &plan("seed = 5", BANDS));
    let bytes = |name| model_bytes(&folder.path().join(name));
    assert_eq!(bytes("plain"), bytes("one"));
    assert_ne!(bytes("plain"), bytes("four"));
}

/// The groups are those of the run, and no file has the sums that had no noise yet.
#[test]
fn a_run_goes_on_with_its_groups_and_without_its_sums() {
    let folder = data();
    let out = stopped(folder.path(), "run", &plan("", BANDS));
    let plain = stopped(folder.path(), "plain", &plan("", ""));
    let names = |run: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(run.join("private")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let checkpoint = |run: &Path| {
        let entry = fs::read_dir(run.join("checkpoints")).unwrap().next().unwrap().unwrap();
        entry.metadata().unwrap().len()
    };
    // The key of the groups is the only thing that is kept more, and checkpoints differ by what they say of other plans at most.
    let more: Vec<_> = names(&out).into_iter().filter(|name| !names(&plain).contains(name)).collect();
    assert_eq!(more, ["sampling.key"]);
    assert!(checkpoint(&out).abs_diff(checkpoint(&plain)) < 64);
    let key = fs::read(out.join("private/sampling.key")).unwrap();
    let outcome = resume(&out, &mut Silent).unwrap();
    assert_eq!(fs::read(out.join("private/sampling.key")).unwrap(), key);
    assert_eq!((outcome.certificate.steps_spent, outcome.certificate.status), (21, Status::Finished));
    assert_eq!(outcome.certificate.spent, outcome.certificate.planned);
}

/// With other groups a record could be drawn more often than it was priced for.
#[test]
fn another_key_of_groups_is_refused() {
    let folder = data();
    for change in [|bytes: &mut Vec<u8>| bytes[0] ^= 1, |bytes: &mut Vec<u8>| bytes.clear()] {
        let out = stopped(folder.path(), "run", &plan("", BANDS));
        let key = out.join("private/sampling.key");
        let mut bytes = fs::read(&key).unwrap();
        change(&mut bytes);
        fs::write(&key, bytes).unwrap();
        let error = resume(&out, &mut Silent).unwrap_err();
        assert!(matches!(error, TrainError::Changed { what: "sampling key", .. }), "{error}");
        fs::remove_file(&key).unwrap();
        assert!(resume(&out, &mut Silent).is_err());
        fs::remove_dir_all(out).unwrap();
    }
}

/// Taken again, a step would be released with other sums and the same noise, so that their difference would have no noise at all.
#[test]
fn no_step_is_taken_again_even_with_a_seed() {
    let folder = data();
    let out = stopped(folder.path(), "run", &plan("seed = 3\ncheckpoint_every = 5", BANDS));
    // As if the run had been killed: the last checkpoints are gone, and steps behind the first one are promised.
    let spent = History::read(&fs::read(out.join("ledger.jsonl")).unwrap()).unwrap().spent();
    let mut checkpoints: Vec<_> =
        fs::read_dir(out.join("checkpoints")).unwrap().map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    fs::remove_file(checkpoints.pop().unwrap()).unwrap();
    let outcome = resume(&out, &mut Silent).unwrap();
    assert!(outcome.updates < 21, "{spent} were spent, {} updates", outcome.updates);
    assert_eq!(outcome.certificate.steps_spent, 21);
    assert_eq!(steps_lost(&out).unwrap(), 21 - outcome.updates);
    assert_eq!(certify(&out).unwrap().spent, outcome.certificate.planned);
}

/// Adam's correction for noise knows how much noise a gradient has, and averages take what was learned.
#[test]
fn every_optimiser_learns_from_correlated_gradients() {
    let folder = data();
    for (name, rule) in [
        ("sgd", "momentum = 0.9\nnesterov = true"),
        ("adam", "kind = 'adam'\nnoise_correction = true"),
        ("scaled", "kind = 'adam'\nscale_first = true"),
        ("adamw", "kind = 'adamw'\nweight_decay = 0.01\nema = 0.9"),
    ] {
        let plan = plan("", BANDS).replace("momentum = 0.9", rule);
        let outcome = run(folder.path(), name, &plan);
        assert_eq!(outcome.certificate.steps_spent, 21, "{name}");
    }
}
