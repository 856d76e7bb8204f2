//! Whole runs whose gradients are scaled before they are clipped.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, model_bytes, request, write_data};
use dapple_train::{Request, Silent, Status, Verdict, resume, start, verify};

fn plan(folder: &Path, optimiser: &str, more: &str) -> Request {
    request(
        folder,
        &format!(
            "[model]\nname = 'small-cnn'\n[optimiser]\nkind = 'adam'\nlearning_rate = 0.05\n{optimiser}\n\
             [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 20\nsteps = 21\n{more}"
        ),
    )
}

const SEEDED: &str = "[train]\nseed = 5\ncheckpoint_every = 4\n";

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 60, 28);
    folder
}

#[test]
fn scales_change_what_is_learned_and_not_what_is_spent() {
    let folder = data();
    let run = |name: &str, optimiser: &str| {
        let out = folder.path().join(name);
        let outcome = start(&plan(folder.path(), optimiser, SEEDED), &out, &mut Silent).unwrap();
        assert!(matches!(verify(&out, None).unwrap(), Verdict::Valid { .. }));
        (outcome.certificate.spent.unwrap().epsilon, model_bytes(&out))
    };
    let (plain, scaled) = (run("plain", ""), run("scaled", "scale_first = true"));
    assert_eq!(plain.0, scaled.0);
    assert_ne!(plain.1, scaled.1);
    assert_eq!(scaled, run("again", "scale_first = true"));
}

/// Scales go on from the checkpoint, to the bit.
#[test]
fn a_stopped_run_goes_on_with_its_scales() {
    let folder = data();
    let request = plan(folder.path(), "scale_first = true", SEEDED);
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    start(&request, &whole, &mut Silent).unwrap();
    let mut recorder = Recorder { stop_after: Some(9), ..Recorder::default() };
    let outcome = start(&request, &parts, &mut recorder).unwrap();
    assert_eq!(outcome.certificate.status, Status::Stopped);
    resume(&parts, &mut Silent).unwrap();
    assert!(model_bytes(&whole) == model_bytes(&parts));
}

/// With noise that cancels across steps, each sum is scaled by what was released before it.
#[test]
fn scales_and_noise_that_cancels_go_together() {
    let folder = data();
    let request = plan(folder.path(), "scale_first = true", "[noise]\nbands = 3\n");
    let outcome = start(&request, &folder.path().join("run"), &mut Silent).unwrap();
    assert_eq!(outcome.certificate.steps_spent, 21);
}

#[test]
fn what_cannot_be_scaled_is_refused() {
    let folder = data();
    for (more, says) in [
        ("[train]\nprivate = false\n", "nothing is clipped"),
        ("[train]\nclipping = 'automatic'\n", "not clipped as a whole"),
        ("[train]\nclipping = 'per-layer'\n", "not clipped as a whole"),
        ("[performance]\ndevice = 'cuda'\n", "on the processor alone"),
    ] {
        let out = folder.path().join("run");
        let error = start(&plan(folder.path(), "scale_first = true", more), &out, &mut Silent).unwrap_err();
        assert!(error.to_string().contains(says) && error.hint().is_some(), "{more}: {error}");
        assert!(!fs::exists(&out).unwrap());
    }
    let adaptive = plan(folder.path(), "scale_first = true", "");
    let spec = dapple_plan::PlanSpec::from_toml("privacy.clip_quantile = 0.5").unwrap();
    let adaptive = Request { spec: adaptive.spec.merge(&spec), ..adaptive };
    let error = start(&adaptive, &folder.path().join("run"), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("quantile"), "{error}");
}
