//! Whole runs whose clip norm follows a quantile.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, model_bytes, request, write_data};
use dapple_train::{Request, Silent, Verdict, evaluations, resume, start, verify};

fn plan(folder: &Path, more: &str) -> Request {
    let spec = request(
        folder,
        "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[model]\nname = 'linear'\n\
         [optimiser]\nkind = 'adam'\nlearning_rate = 0.01\nnoise_correction = true\n\
         [privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\nmax_grad_norm = 0.01\nclip_quantile = 0.5\nclip_rate = 0.5\n\
         [sampling]\nbatch = 30\nsteps = 24\n[train]\nseed = 5\ncheckpoint_every = 7\nevaluate_every = 8\n[performance]\nthreads = 1\n",
    );
    let Request { spec, base, masks } = spec;
    Request { spec: spec.merge(&dapple_plan::PlanSpec::from_toml(more).unwrap()), base, masks }
}

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 60, 12);
    write_data(folder.path(), "test", 8, 12);
    folder
}

/// The clip norms that the ledger's promises tell.
fn promised(run: &Path) -> Vec<f64> {
    let text = fs::read_to_string(run.join("ledger.jsonl")).unwrap();
    let norm =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["entry"]["clip_norm"].as_f64();
    text.lines().filter_map(norm).collect()
}

#[test]
fn the_clip_norm_follows_and_is_told() {
    let folder = data();
    let run = folder.path().join("run");
    let outcome = start(&plan(folder.path(), ""), &run, &mut Silent).unwrap();
    let norms = promised(&run);
    // Gradients are far longer than the first clip norm, which grows by about e^0.25 a step until half of them are within. Then the model has
    // learned, and it falls with them.
    assert!(norms.len() > 4 && norms[0] == 0.01, "{norms:?}");
    assert!(norms.windows(2).take(3).all(|pair| pair[1] > pair[0]), "{norms:?}");
    assert!(norms.iter().any(|norm| *norm > 0.1), "{norms:?}");
    let told = evaluations(&run).unwrap();
    assert!(
        told.len() == 3 && told.iter().all(|line| line.clip_norm.is_some_and(|norm| norm > 0.01)),
        "{told:?}"
    );
    let planned = outcome.certificate.planned.unwrap();
    assert_eq!(planned.adaptive_clip.unwrap().words(), "adapted (quantile 0.5, count noise 1.5), counted");
    assert_eq!(outcome.certificate.clip_norm, Some(0.01));
    // The price is that of a fixed clip norm.
    let mut fixed = plan(folder.path(), "");
    fixed.spec.privacy.clip_quantile = None;
    fixed.spec.privacy.clip_rate = None;
    let fixed_run = folder.path().join("fixed");
    let fixed = start(&fixed, &fixed_run, &mut Silent).unwrap();
    assert_eq!(fixed.certificate.planned.unwrap().epsilon, planned.epsilon);
    assert!(promised(&fixed_run).is_empty() && model_bytes(&fixed_run) != model_bytes(&run));
    assert!(matches!(verify(&run, None).unwrap(), Verdict::Valid { .. }));
    // The number of records within the clip norm is nowhere but in private/.
    for file in ["ledger.jsonl", "metrics.jsonl", "certificate.json"] {
        assert!(!fs::read_to_string(run.join(file)).unwrap().contains("unclipped"), "{file}");
    }
}

#[test]
fn a_stopped_run_goes_on_with_the_clip_norm_that_it_had() {
    let folder = data();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    for more in ["", "[[phases]]\nsteps = 10\n[[phases]]\nsteps = 14\nbatch = 20\nnoise_multiplier = 0.8\n"] {
        let plan = plan(folder.path(), more);
        for run in [&whole, &parts] {
            let _ = fs::remove_dir_all(run);
        }
        start(&plan, &whole, &mut Silent).unwrap();
        start(&plan, &parts, &mut Recorder { stop_after: Some(9), ..Recorder::default() }).unwrap();
        resume(&parts, &mut Recorder { stop_after: Some(12), ..Recorder::default() }).unwrap();
        resume(&parts, &mut Silent).unwrap();
        assert!(model_bytes(&parts) == model_bytes(&whole), "{more}");
        let last = |run: &Path| evaluations(run).unwrap().last().unwrap().clip_norm;
        assert_eq!(last(&parts), last(&whole));
    }
}

#[test]
fn a_run_without_privacy_has_no_clip_norm() {
    let folder = data();
    let run = folder.path().join("run");
    start(&plan(folder.path(), "train.private = false"), &run, &mut Silent).unwrap();
    assert!(promised(&run).is_empty());
}

#[test]
fn what_cannot_follow_is_refused_before_anything_is_written() {
    let folder = data();
    let run = folder.path().join("run");
    for (more, key) in [
        ("train.clipping = 'per-layer'", "train.clipping"),
        ("train.clipping = 'automatic'", "train.clipping"),
        ("privacy.count_noise = 0.4", "privacy.count_noise"),
        // At a millionth of it the noise could not be drawn.
        ("privacy.max_grad_norm = 1e-18", "noise of standard deviation"),
    ] {
        let error = start(&plan(folder.path(), more), &run, &mut Silent).unwrap_err();
        assert!(error.to_string().starts_with(key), "{more}: {error}");
        assert!(error.hint().is_some() && !run.exists(), "{more}");
    }
}
