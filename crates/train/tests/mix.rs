//! Whole runs with synthetic images beside records, and with records that are clipped together.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, model_bytes, request, write_data, write_pool};
use dapple_train::{Request, RunOutcome, Silent, TrainError, resume, start};

fn plan(rest: &str) -> String {
    format!(
        "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\n[sampling]\nbatch = 10\nsteps = 8\n\
         [train]\nseed = 2\ncheckpoint_every = 3\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n{rest}"
    )
}

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 8);
    write_pool(&folder.path().join("pool"), 10, 12);
    folder
}

fn of(folder: &Path, rest: &str) -> Request {
    request(folder, &plan(rest))
}

fn run(folder: &Path, name: &str, rest: &str) -> (RunOutcome, Vec<u8>) {
    let out = folder.join(name);
    let outcome = start(&of(folder, rest), &out, &mut Silent).unwrap();
    (outcome, model_bytes(&out))
}

/// Synthetic images and mixtures cost nothing, change what is learned, and change nothing if there are none of them.
#[test]
fn synthetic_images_are_trained_with() {
    let folder = data();
    let views = "[pipeline]\ncrop = [6, 6]\nviews = 2\n";
    let (plain, plain_model) = run(folder.path(), "plain", views);
    let (_, none) =
        run(folder.path(), "none", &format!("{views}[mix]\npool = 'pool'\nsynthetic = 0\nself_mix = 0\n"));
    assert_eq!(plain_model, none);
    let (mixed, mixed_model) =
        run(folder.path(), "mixed", &format!("{views}[mix]\npool = 'pool'\nsynthetic = 2\nself_mix = 3\n"));
    let (plain, mixed) = (plain.certificate.spent.unwrap(), mixed.certificate.spent.unwrap());
    assert_eq!(plain.epsilon, mixed.epsilon);
    assert_ne!(plain_model, mixed_model);
    let claim = |sentence: &&String| sentence.contains("this is the claim of whoever wrote the plan");
    assert!(mixed.assumptions.iter().any(|sentence| claim(&sentence)));
    assert!(!plain.assumptions.iter().any(|sentence| claim(&sentence)));
}

/// Microbatches change no bit, and neither does a stop on the way.
#[test]
fn runs_go_on_with_the_same_bits() {
    for (number, rest) in [
        "[mix]\npool = 'pool'\nsynthetic = 1\nself_mix = 2\n",
        "records_per_clip = 3\n[mix]\npool = 'pool'\nsynthetic = 1\nself_mix = 2\n",
    ]
    .into_iter()
    .enumerate()
    {
        let folder = data();
        let (_, whole) = run(folder.path(), "whole", rest);
        let (_, pieces) = run(folder.path(), "pieces", &format!("{rest}[performance]\nmicrobatch = 2\n"));
        assert_eq!(whole, pieces, "{number}");
        let out = folder.path().join("stopped");
        let mut recorder = Recorder { stop_after: Some(4), ..Recorder::default() };
        start(&of(folder.path(), rest), &out, &mut recorder).unwrap();
        assert!(recorder.drawn.iter().any(|&drawn| drawn > 4), "records are counted: {:?}", recorder.drawn);
        resume(&out, &mut Silent).unwrap();
        assert_eq!(model_bytes(&out), whole);
    }
}

/// Another pool is another run, and no public file names a picture.
#[test]
fn a_pool_that_changed_ends_the_run_and_no_file_tells_what_was_drawn() {
    let folder = data();
    let rest = "[mix]\npool = 'pool'\nsynthetic = 1\n";
    let out = folder.path().join("run");
    let mut recorder = Recorder { stop_after: Some(2), ..Recorder::default() };
    start(&of(folder.path(), rest), &out, &mut recorder).unwrap();
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(path.is_dir() || !text.unwrap().contains(".pgm"), "{}", path.display());
    }
    fs::remove_file(folder.path().join("pool/1/005.pgm")).unwrap();
    let error = resume(&out, &mut Silent).unwrap_err();
    assert!(matches!(error, TrainError::Changed { what: "pool of synthetic images", .. }), "{error}");
}

#[test]
fn what_buys_nothing_is_refused_unless_it_is_allowed() {
    let folder = data();
    let pure = "[pipeline]\nviews = 0\n[mix]\npool = 'pool'\nsynthetic = 2\nself_mix = 1\n";
    let out = folder.path().join("pure");
    let error = start(&of(folder.path(), pure), &out, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("epsilon buys nothing") && !out.exists(), "{error}");
    assert!(error.hint().unwrap().contains("--allow pure-synthetic"));
    let mut recorder = Recorder::default();
    let allowed = of(folder.path(), &format!("{pure}allow = 'pure-synthetic'\n"));
    let outcome = start(&allowed, &out, &mut recorder).unwrap();
    assert!(recorder.warnings.iter().any(|warning| warning.contains("epsilon buys nothing")));
    let assumptions = outcome.certificate.spent.unwrap().assumptions;
    assert!(assumptions.iter().any(|sentence| sentence.contains("this epsilon buys nothing")));
}

#[test]
fn a_pool_that_cannot_be_used_is_refused_before_anything_is_written() {
    let folder = data();
    let damaged = folder.path().join("damaged");
    write_pool(&damaged, 5, 8);
    fs::write(damaged.join("2/002.pgm"), "P5\n8 8\n255\n").unwrap();
    for (rest, says) in [
        ("[mix]\nsynthetic = 1\n", "`mix.pool` is missing: mix.synthetic draws"),
        ("[mix]\npool = 'none'\nsynthetic = 1\n", "none"),
        ("[mix]\npool = 'damaged'\nsynthetic = 1\n", "002.pgm"),
    ] {
        let out = folder.path().join("refused");
        let error = start(&of(folder.path(), rest), &out, &mut Silent).unwrap_err();
        assert!(error.to_string().contains(says) && !out.exists(), "{error}");
    }
    let mut recorder = Recorder::default();
    start(&of(folder.path(), "[mix]\npool = 'pool'\n"), &folder.path().join("unused"), &mut recorder)
        .unwrap();
    assert_eq!(
        recorder.warnings.iter().filter(|warning| warning.contains("mix.pool is not used")).count(),
        1
    );
}

/// The histograms count every contribution of every step, and lie where only their owner may read.
#[test]
fn norms_of_gradients_are_kept_among_private_files_where_they_are_asked_for() {
    let folder = data();
    let asked = |rest: &str| {
        let mut request = of(folder.path(), rest);
        request.spec.train.gradient_norms = Some(true);
        request
    };
    let out = folder.path().join("run");
    let mut recorder = Recorder::default();
    start(&asked(""), &out, &mut recorder).unwrap();
    let text = fs::read_to_string(out.join("private/gradient-norms.jsonl")).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.contains("covered by no guarantee"), "{first}");
    let counts = rest.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["bins"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum::<u64>() as usize
    });
    assert_eq!(counts.collect::<Vec<_>>(), recorder.drawn);
    let (_, without) = run(folder.path(), "without", "");
    assert_eq!(model_bytes(&out), without);
    assert!(!folder.path().join("without/private/gradient-norms.jsonl").exists());
    let mut public = asked("");
    public.spec.train.private = Some(false);
    let error = start(&public, &folder.path().join("public"), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("train.gradient_norms"), "{error}");
}
