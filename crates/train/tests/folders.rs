//! Folders of runs that an earlier version left behind: they are read, and their runs go on.
//!
//! `poisson` and `balanced` were killed on the way, and `finished` ended in order. All train on the embedded scenes.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use dapple_train::{Look, Silent, Status, Verdict, Warning, certify, evaluate, resume, steps_lost, verify};

/// A copy of a folder to work on.
fn copy(name: &str) -> tempfile::TempDir {
    let target = tempfile::tempdir().unwrap();
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/folders");
    common::copy_folder(&folders.join(name), target.path());
    target
}

/// The noise multiplier of this run, 1.2487224102672019, is one that a reader with sloppy rounding takes for its neighbour.
#[test]
fn a_killed_run_goes_on() {
    let run = copy("poisson");
    let before = certify(run.path()).unwrap();
    assert_eq!((before.status, before.steps_spent), (Status::Running, 15));
    // Its certificate was written before its first step, and says that nothing was spent.
    let verdict = verify(run.path(), None).unwrap();
    assert!(
        matches!(verdict, Verdict::Invalid { reason } if reason.contains("counts 0 steps, and the ledger 15"))
    );
    let outcome = resume(run.path(), &mut Silent).unwrap();
    assert!(matches!(verify(run.path(), None).unwrap(), Verdict::Valid { .. }));
    assert_eq!((outcome.certificate.status, outcome.certificate.steps_spent), (Status::Finished, 300));
    // Five steps were promised, and their updates were lost.
    assert_eq!((outcome.updates, steps_lost(run.path()).unwrap()), (295, 5));
    assert!(outcome.certificate.warnings.contains(&Warning::LostSteps));
    // A certificate from before there was this warning stays valid.
    let path = run.path().join("certificate.json");
    let warning = format!("\"{}\"", Warning::LostSteps);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(&warning));
    fs::write(&path, text.replace(&warning, "")).unwrap();
    assert!(matches!(verify(run.path(), None).unwrap(), Verdict::Valid { .. }));
}

#[test]
fn a_killed_balanced_run_goes_on_with_its_allocation() {
    let run = copy("balanced");
    let key = fs::read(run.path().join("private/sampling.key")).unwrap();
    let outcome = resume(run.path(), &mut Silent).unwrap();
    assert_eq!((outcome.certificate.status, outcome.certificate.steps_spent), (Status::Finished, 100));
    assert_eq!(fs::read(run.path().join("private/sampling.key")).unwrap(), key);
}

#[test]
fn a_finished_run_is_read_and_left_as_it_is() {
    let run = copy("finished");
    let model = fs::read(run.path().join("model.safetensors")).unwrap();
    let certificate = certify(run.path()).unwrap();
    assert_eq!((certificate.status, certificate.steps_spent), (Status::Finished, 20));
    assert!(matches!(verify(run.path(), None).unwrap(), Verdict::Valid { .. }));
    assert_eq!(evaluate(run.path(), Look::default()).unwrap().records, 1000);
    assert_eq!(resume(run.path(), &mut Silent).unwrap().certificate.spent, certificate.spent);
    assert_eq!(fs::read(run.path().join("model.safetensors")).unwrap(), model);
}
