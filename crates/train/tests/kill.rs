//! Kills a run by `kill -9` at a hundred random moments: it always goes on, epsilon is never counted too low, and with a seed the model
//! is that of an uninterrupted run.
#![allow(clippy::panic, clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{model_bytes, request, write_data, write_pool};
use dapple_train::{
    History, RunCertificate, Silent, TrainError, Verdict, Warning, certify, resume, start, steps_lost, verify,
};

const FOLDER: &str = "DAPPLE_KILL_TEST";
/// Part of the names of folders in which the clip norm follows a quantile.
const ADAPTED: &str = "adapted";
/// Part of the names of folders in which synthetic images are mixed with records, and of those in which records are clipped together.
const MIXED: &str = "mixed";
const GROUPED: &str = "grouped";
/// Part of the names of folders in which adapters train, by an optimiser that corrects for noise.
const TUNED: &str = "tuned";
/// Part of the names of folders in which noise cancels across steps.
const BANDED: &str = "banded";

fn plan(folder: &Path, seed: Option<u64>) -> String {
    let seed = seed.map_or(String::new(), |seed| format!("seed = {seed}\n"));
    // A folder's name tells what is trained in it.
    let named = |part: &str| folder.to_string_lossy().contains(part);
    let clip = if named(ADAPTED) { "clip_quantile = 0.5\n" } else { "" };
    let mix = if named(MIXED) { "[mix]\npool = 'pool'\nsynthetic = 1\nself_mix = 1\n" } else { "" };
    let clip = if named(GROUPED) { "records_per_clip = 2\n" } else { clip };
    let noise = if named(BANDED) { "[noise]\nbands = 3\n" } else { "" };
    let (tune, rule) = match named(TUNED) {
        true => ("tune = 'lora'\nlora_rank = 2\n", "kind = 'adamw'\nnoise_correction = true"),
        false => ("", "momentum = 0.5"),
    };
    format!(
        "{mix}{noise}[model]\nname = 'small-cnn'\n{tune}[optimiser]\nlearning_rate = 0.1\n{rule}\nema = 0.9\n\
         [privacy]\n{clip}noise_multiplier = 2.0\ndelta = 1e-5\n[sampling]\nbatch = 24\nsteps = 400\n\
         [train]\n{seed}checkpoint_every = 5\n[performance]\nthreads = 1\n"
    )
}

/// What the child process does: it goes on with the run, or starts it.
fn carry_on(folder: &Path, seed: Option<u64>) -> Result<(), TrainError> {
    let run = folder.join("run");
    match resume(&run, &mut Silent) {
        Err(TrainError::NoRun { .. }) => {
            start(&request(folder, &plan(folder, seed)), &run, &mut Silent).map(|_| ())
        }
        other => other.map(|_| ()),
    }
}

/// This is not a test of its own, but the process that is killed.
#[test]
#[ignore = "run by the tests below"]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let seed = folder.contains("seeded").then_some(11);
    carry_on(Path::new(&folder), seed).unwrap();
}

/// Moments at which to kill. Their distribution does not matter.
fn moments(seed: u64) -> impl Iterator<Item = Duration> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((state >> 33) % 260_000)
    })
}

/// Steps that left a trace. A step's line of diagnostics is written only after it was taken.
fn steps_seen(run: &Path) -> Vec<u64> {
    let text = fs::read_to_string(run.join("private/diagnostics.jsonl")).unwrap_or_default();
    let step = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["step"].as_u64();
    text.lines().filter_map(step).collect()
}

/// Checks that, whenever the run was killed, `certificate.json` covers what the ledger counts and the folder is valid.
fn check_certificate(run: &Path, spent: u64) {
    let verdict = verify(run, None).unwrap();
    let Verdict::Valid { certificate, not_compared } = verdict else { panic!("{verdict:?}") };
    assert_eq!((certificate.steps_spent, not_compared.len()), (spent, 0));
    let Ok(text) = fs::read_to_string(run.join("certificate.json")) else {
        assert_eq!(spent, 0);
        return;
    };
    let stored = RunCertificate::from_json(&text).unwrap();
    let upper =
        |certificate: &RunCertificate| certificate.spent.as_ref().map_or(0.0, |price| price.epsilon.upper);
    assert!(stored.steps_spent >= spent && upper(&stored) >= upper(&certificate), "{stored:?}");
}

/// Kills the run again and again until it ends by itself or was killed `times` times. Returns how often it was killed.
fn kill_again_and_again(folder: &Path, times: usize) -> usize {
    let run: PathBuf = folder.join("run");
    let mut spent = 0;
    for (killed, moment) in moments(folder.as_os_str().len() as u64).take(times).enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored"])
            .env(FOLDER, folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(moment);
        if let Some(status) = child.try_wait().unwrap() {
            let output = child.wait_with_output().unwrap();
            assert!(status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            return killed;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if let Ok(bytes) = fs::read(run.join("ledger.jsonl")) {
            let history = History::read(&bytes).unwrap();
            let seen = steps_seen(&run).into_iter().max().unwrap_or(0);
            assert!(history.spent() >= seen, "{} spent, {seen} seen", history.spent());
            assert!(history.spent() >= spent, "what was spent stays spent");
            spent = history.spent();
            check_certificate(&run, spent);
        }
    }
    times
}

#[test]
fn a_seeded_run_ends_as_if_nothing_had_happened() {
    seeded_runs_end_alike("seeded", 60);
}

#[test]
fn so_does_one_whose_clip_norm_follows_a_quantile() {
    seeded_runs_end_alike(&format!("seeded-{ADAPTED}"), 15);
}

#[test]
fn so_does_one_with_synthetic_images_and_records_clipped_together() {
    seeded_runs_end_alike(&format!("seeded-{MIXED}-{GROUPED}"), 10);
}

#[test]
fn so_does_one_that_trains_adapters() {
    seeded_runs_end_alike(&format!("seeded-{TUNED}"), 10);
}

/// Kills seeded runs in folders of this name so often in all, and compares what they end with.
fn seeded_runs_end_alike(name: &str, times: usize) {
    let whole = tempfile::Builder::new().prefix(&format!("{name}-whole")).tempdir().unwrap();
    write_data(whole.path(), "train", 96, 28);
    write_pool(&whole.path().join("pool"), 9, 14);
    carry_on(whole.path(), Some(11)).unwrap();
    let expected = model_bytes(&whole.path().join("run"));
    let mut killed = 0;
    while killed < times {
        let folder = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        write_data(folder.path(), "train", 96, 28);
        write_pool(&folder.path().join("pool"), 9, 14);
        killed += kill_again_and_again(folder.path(), times - killed);
        carry_on(folder.path(), Some(11)).unwrap();
        let run = folder.path().join("run");
        assert_eq!(model_bytes(&run), expected);
        let (ours, whole) = (certify(&run).unwrap(), certify(&whole.path().join("run")).unwrap());
        assert_eq!((ours.steps_spent, ours.spent), (whole.steps_spent, whole.spent));
    }
}

#[test]
fn a_secure_run_takes_no_step_twice_and_never_spends_more_than_planned() {
    secure_runs_spend_what_was_planned("secure", 40);
}

#[test]
fn nor_does_one_whose_noise_cancels_across_steps() {
    secure_runs_spend_what_was_planned(&format!("secure-{BANDED}"), 15);
}

/// Kills runs without a seed in folders of this name so often in all.
fn secure_runs_spend_what_was_planned(name: &str, times: usize) {
    let mut killed = 0;
    while killed < times {
        let folder = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        write_data(folder.path(), "train", 96, 28);
        killed += kill_again_and_again(folder.path(), times - killed);
        carry_on(folder.path(), None).unwrap();
        let run = folder.path().join("run");
        let seen = steps_seen(&run);
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "no step is taken twice");
        let certificate = certify(&run).unwrap();
        assert_eq!(certificate.steps_spent, 400);
        assert_eq!(certificate.spent, certificate.planned);
        let lost = steps_lost(&run).unwrap();
        assert!(lost >= 400 - seen.len() as u64, "{lost} lost, {} taken", seen.len());
        assert_eq!(certificate.warnings.contains(&Warning::LostSteps), lost > 0);
        assert!(model_bytes(&run).len() > 1000);
    }
}
