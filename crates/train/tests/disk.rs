//! Tests a full disk, at any file and any byte: the file is named, nothing is left half-written, what was spent stays spent, and the run
//! goes on once there is room.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{model_bytes, request, write_data};
use dapple_train::{History, RunOutcome, Silent, Status, TrainError, certify, resume, start};

const FOLDER: &str = "DAPPLE_DISK_TEST";
const STEPS: u64 = 66;
/// The exit status of a child whose run ended with an error.
const FAILED: i32 = 3;

const PLAN: &str = "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[model]\nname = 'linear'\n\
    [optimiser]\nlearning_rate = 0.5\nmomentum = 0.5\nema = 0.9\n[privacy]\nnoise_multiplier = 2.0\ndelta = 1e-5\n\
    [sampling]\nbatch = 10\nsteps = 66\n[train]\nseed = 3\ncheckpoint_every = 3\nevaluate_every = 4\n\
    [performance]\nthreads = 1\n";

/// A folder with data, and the model that the run ends with if there is room.
fn data() -> (tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 12);
    write_data(folder.path(), "test", 20, 12);
    start(&request(folder.path(), PLAN), &folder.path().join("whole"), &mut Silent).unwrap();
    let model = model_bytes(&folder.path().join("whole"));
    (folder, model)
}

/// Goes on with the run, or starts it.
fn carry_on(folder: &Path) -> Result<RunOutcome, TrainError> {
    let run = folder.join("run");
    match resume(&run, &mut Silent) {
        Err(TrainError::NoRun { .. }) => start(&request(folder, PLAN), &run, &mut Silent),
        other => other,
    }
}

/// This is not a test of its own, but the process that runs out of room.
#[test]
#[ignore = "run by the test below"]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    if let Err(error) = carry_on(Path::new(&folder)) {
        // Written past the test harness, which would hold it back.
        let words = format!("{error}: {}", error.hint().unwrap_or_default());
        std::io::Write::write_all(&mut std::io::stderr(), words.as_bytes()).unwrap();
        std::process::exit(FAILED);
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// Checks that no file in the folder is cut off and that the ledger counts every step that left a trace.
fn check(run: &Path) {
    for path in files_below(run) {
        let name = path.file_name().unwrap().to_str().unwrap();
        // This file marks a folder in which a run is about to begin.
        let mark = name == "ledger.jsonl.partial" && !run.join("ledger.jsonl").exists();
        assert!(mark || !name.ends_with(".partial"), "{name}");
        if name.ends_with(".jsonl") {
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.is_empty() || text.ends_with('\n'), "{name}");
            for line in text.lines() {
                serde_json::from_str::<serde_json::Value>(line).unwrap();
            }
        }
    }
    let Ok(ledger) = fs::read(run.join("ledger.jsonl")) else { return };
    let steps = fs::read_to_string(run.join("private/diagnostics.jsonl")).unwrap_or_default();
    let step = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["step"].as_u64();
    let spent = History::read(&ledger).unwrap().spent();
    assert!(spent >= steps.lines().filter_map(step).max().unwrap_or(0));
    assert_eq!(certify(run).unwrap().steps_spent, spent);
}

fn check_end(outcome: &RunOutcome, run: &Path, model: &[u8]) {
    assert_eq!((outcome.certificate.status, outcome.certificate.steps_spent), (Status::Finished, STEPS));
    assert!(model_bytes(run) == model, "the model is that of an uninterrupted run");
    check(run);
}

/// A link takes the place of each file in turn. What it points to is left as it is, and the run goes on once the link is gone.
#[test]
fn nothing_is_written_through_a_link() {
    let (folder, model) = data();
    let (run, foreign) = (folder.path().join("run"), folder.path().join("foreign"));
    for place in [
        "ledger.jsonl.partial",
        "plan.toml",
        "private",
        "model.json",
        "certificate.json",
        "private/diagnostics.jsonl",
        "checkpoints/step-0000000006.safetensors",
        "metrics.jsonl",
        "model.safetensors",
    ] {
        fs::write(&foreign, "mine").unwrap();
        let link = run.join(place);
        // The first links lie in a folder without a run. The others lie in one that a process left before its first step.
        let foreign_folder = place != "private/diagnostics.jsonl" && !place.starts_with("checkpoints");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        if !foreign_folder {
            fs::write(run.join("ledger.jsonl.partial"), "").unwrap();
        }
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        let error = carry_on(folder.path()).unwrap_err();
        let named = matches!(&error, TrainError::InTheWay { path } if *path == link);
        assert!(named && error.hint().is_some(), "{place}: {error}");
        assert_eq!(fs::read_to_string(&foreign).unwrap(), "mine", "{place}");
        if foreign_folder {
            assert_eq!(
                fs::read_dir(&run).unwrap().count(),
                1,
                "{place}: nothing is mixed with what is not ours"
            );
        }
        fs::remove_file(&link).unwrap();
        check_end(&carry_on(folder.path()).unwrap(), &run, &model);
        fs::remove_dir_all(&run).unwrap();
    }
}

/// Files may not have more than a number of blocks, so that the write that exceeds it fails in the middle. This hits every file in turn,
/// since each has another length.
#[test]
fn a_write_that_fails_at_any_byte_leaves_nothing_half_written() {
    let (folder, model) = data();
    let run = folder.path().join("run");
    let largest = files_below(&folder.path().join("whole")).iter().map(|f| f.metadata().unwrap().len()).max();
    // This is one byte less than the largest file needs.
    let blocks = (largest.unwrap() - 1) / 512;
    assert!((10..40).contains(&blocks), "{blocks} trials");
    let mut failed_at = std::collections::BTreeSet::new();
    for limit in 1..=blocks {
        for _ in 0..2 {
            // The signal that comes with the error is ignored, because a full disk sends none. POSIX shells count blocks of 512 bytes.
            let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" --exact child --ignored");
            let executable = std::env::current_exe().unwrap();
            let output = Command::new("sh")
                .args([Path::new("-c"), Path::new(&script), &executable])
                .env(FOLDER, folder.path())
                .output()
                .unwrap();
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(words.contains("disk is full"), "{limit} blocks: {words}");
            assert_eq!(output.status.code(), Some(FAILED), "{limit} blocks: {words}");
            let file = words.split(": ").find_map(|word| word.strip_prefix(&format!("{}/", run.display())));
            failed_at.insert(file.unwrap_or_else(|| panic!("{limit} blocks: {words}")).to_owned());
            check(&run);
        }
        check_end(&carry_on(folder.path()).unwrap(), &run, &model);
        fs::remove_dir_all(&run).unwrap();
    }
    for file in ["certificate.json", "ledger.jsonl"] {
        assert!(failed_at.contains(file), "{file} among {failed_at:?}");
    }
    assert!(failed_at.iter().any(|file| file.starts_with("checkpoints/")), "{failed_at:?}");
}
