//! A run folder tells the truth at every moment, and a folder that does not is found out.
#![allow(clippy::panic, clippy::unwrap_used)]

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Recorder, copy_folder, request, write_data};
use dapple_plan::spec::Performance;
use dapple_train::{
    Event, History, LabelStatus, Look, Observer, Origin, Predictor, RunCertificate, Silent, Status,
    TrainError, Verdict, Warning, certify, evaluate, resume, start, verify,
};

const PLAN: &str = "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n[model]\nname = 'linear'\n\
    [optimiser]\nlearning_rate = 0.5\n[privacy]\nnoise_multiplier = 1.2487224102672019\ndelta = 1e-3\n\
    [region]\npatch = [2, 2]\n[pipeline]\ncrop = [3, 3]\n[performance]\nthreads = 1\n";

fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 8);
    write_data(folder.path(), "test", 20, 8);
    folder
}

fn plan(steps: u64, train: &str) -> String {
    format!("{PLAN}[sampling]\nbatch = 10\nsteps = {steps}\n[train]\n{train}\n")
}

fn reason(run: &Path) -> Option<String> {
    match verify(run, None).unwrap() {
        Verdict::Valid { .. } => None,
        Verdict::Invalid { reason } => Some(reason),
    }
}

fn stored(run: &Path) -> RunCertificate {
    RunCertificate::from_json(&fs::read_to_string(run.join("certificate.json")).unwrap()).unwrap()
}

/// Copies the folder at every event of the run, as a process that is killed then would leave it.
struct Snapshots {
    run: PathBuf,
    copies: PathBuf,
    count: usize,
}

impl Observer for Snapshots {
    fn notice(&mut self, _: &Event<'_>) -> ControlFlow<()> {
        copy_folder(&self.run, &self.copies.join(self.count.to_string()));
        self.count += 1;
        ControlFlow::Continue(())
    }
}

#[test]
fn a_run_that_is_killed_at_any_event_leaves_a_valid_folder_that_states_no_less_than_its_ledger() {
    let folder = data();
    let (run, copies) = (folder.path().join("run"), folder.path().join("copies"));
    let mut snapshots = Snapshots { run: run.clone(), copies: copies.clone(), count: 0 };
    let request = request(folder.path(), &plan(700, "checkpoint_every = 90\nevaluate_every = 200"));
    start(&request, &run, &mut snapshots).unwrap();
    assert!(snapshots.count > 700);
    for number in (0..snapshots.count).step_by(23) {
        let copy = copies.join(number.to_string());
        assert_eq!(reason(&copy), None, "event {number}");
        let (certificate, stored) = (certify(&copy).unwrap(), stored(&copy));
        let ledger = fs::read(copy.join("ledger.jsonl")).unwrap();
        let spent = History::read(&ledger).unwrap().spent();
        // If the power had failed while the last line was written, that line would count as the largest block.
        let cut = History::read(&ledger[..ledger.len() - 5]).map_or(0, |history| history.spent());
        assert!(stored.steps_spent >= cut, "event {number}: {cut}");
        assert_eq!((certificate.steps_spent, certificate.status), (spent, Status::Running));
        assert!(stored.steps_spent >= spent);
        let upper =
            |certificate: &RunCertificate| certificate.spent.as_ref().map(|price| price.epsilon.upper);
        assert!(upper(&stored) >= upper(&certificate), "event {number}");
    }
    // At its end, a run states exactly what it spent.
    assert_eq!(stored(&run).steps_spent, 700);
    assert_eq!(stored(&run), certify(&run).unwrap());
    assert_eq!(reason(&run), None);
}

#[test]
fn a_certificate_states_what_it_rests_on() {
    let folder = data();
    let run = folder.path().join("run");
    let mut recorder = Recorder { stop_after: Some(3), ..Recorder::default() };
    start(&request(folder.path(), &plan(200, "")), &run, &mut recorder).unwrap();
    let certificate = stored(&run);
    assert_eq!((certificate.schema, certificate.status), (1, Status::Stopped));
    assert_eq!(certificate.program_version, env!("CARGO_PKG_VERSION"));
    assert_eq!(certificate.date.len(), "2026-01-31".len());
    assert_eq!((certificate.public_records, certificate.clip_norm), (Some(40), Some(1.0)));
    let sizes = (certificate.image, certificate.crop, certificate.patch);
    assert_eq!(sizes, (Some([8, 8]), Some([3, 3]), Some([2, 2])));
    assert_eq!(certificate.labels, Some(LabelStatus::ClassPublic));
    let weights = certificate.first_weights.unwrap();
    assert_eq!(
        (weights.origin, weights.assumed_public, weights.sha256.len()),
        (Origin::Initialisation, true, 64)
    );
    let level = certificate.record_level.unwrap();
    let (spent, planned) = (certificate.spent.unwrap(), certificate.planned.unwrap());
    assert!(
        level.spent.unwrap().upper > spent.epsilon.upper,
        "a whole record is protected less than a patch"
    );
    assert!(level.planned.unwrap().upper > planned.epsilon.upper);
    assert_eq!(certificate.model_sha256, None);

    resume(&run, &mut Silent).unwrap();
    let head = fs::read_to_string(run.join("ledger.jsonl")).unwrap();
    let head = head.lines().next_back().unwrap()[9..73].to_owned();
    assert_eq!(stored(&run).ledger, head);
    assert_eq!(stored(&run).model_sha256.unwrap().len(), 64);
    for (expected, valid) in [(head.as_str(), true), (certificate.ledger.as_str(), false), ("00", false)] {
        let verdict = verify(&run, Some(expected)).unwrap();
        assert_eq!(matches!(verdict, Verdict::Valid { .. }), valid, "{expected}: {verdict:?}");
    }
}

#[test]
fn warnings_say_what_a_number_hides() {
    let folder = data();
    let warnings = |name: &str, plan: &str| {
        let run = folder.path().join(name);
        start(&request(folder.path(), plan), &run, &mut Silent).unwrap();
        assert_eq!(reason(&run), None, "{name}");
        stored(&run).warnings
    };
    let base = plan(3, "");
    assert_eq!(warnings("seed", &plan(3, "seed = 1")), [Warning::Seeded]);
    assert_eq!(
        warnings("delta", &base.replace("1e-3", "0.03").replace("1.2487224102672019", "40.0")),
        [Warning::LargeDelta, Warning::CoveredByDelta]
    );
    let large = base.replace("1.2487224102672019", "0.2").replace("[region]\npatch = [2, 2]\n", "");
    assert_eq!(warnings("epsilon", &large), [Warning::LargeEpsilon]);
    let split = base.replace("test = 'test.npy'\ntest_labels = 'test-labels.npy'", "validation = 0.25");
    assert_eq!(warnings("validation", &split), [Warning::Validation]);
    assert_eq!(warnings("open", &plan(3, "private = false")), [Warning::NotPrivate]);
}

/// Changes the bytes of a file, or removes it if `change` returns `None`.
fn edit(path: &Path, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
    match change(fs::read(path).unwrap_or_default()) {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::remove_file(path).unwrap(),
    }
}

fn replaced(bytes: Vec<u8>, from: &str, to: &str) -> Option<Vec<u8>> {
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains(from), "{from} in {text}");
    Some(text.replacen(from, to, 1).into_bytes())
}

fn without_lines(bytes: Vec<u8>, lines: usize) -> Option<Vec<u8>> {
    let text = String::from_utf8(bytes).unwrap();
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    Some(all[..all.len() - lines].concat().into_bytes())
}

#[test]
fn every_edit_of_a_folder_is_found() {
    let folder = data();
    let run = folder.path().join("run");
    start(&request(folder.path(), &plan(20, "checkpoint_every = 8\nevaluate_every = 10")), &run, &mut Silent)
        .unwrap();
    let upper = stored(&run).spent.unwrap().epsilon.upper.to_string();
    type Change<'a> = (&'a str, &'a dyn Fn(Vec<u8>) -> Option<Vec<u8>>, &'a str);
    let flip = |mut bytes: Vec<u8>| {
        *bytes.last_mut().unwrap() ^= 1;
        Some(bytes)
    };
    let changes: &[Change<'_>] = &[
        ("certificate.json", &|bytes| replaced(bytes, &upper, "0.01"), "spent: epsilon: upper is 0.01"),
        (
            "certificate.json",
            &|bytes| replaced(bytes, "\"steps_spent\": 20", "\"steps_spent\": 2"),
            "counts 2 steps",
        ),
        ("certificate.json", &|bytes| replaced(bytes, "\"finished\"", "\"stopped\""), "last line"),
        (
            "certificate.json",
            &|bytes| replaced(bytes, "\"clip_norm\": 1.0", "\"clip_norm\": 0.5"),
            "clip_norm",
        ),
        ("certificate.json", &|bytes| replaced(bytes, "{", "{\"epsilon\": 0.1,"), "does not write"),
        ("certificate.json", &|_| Some(b"{}".to_vec()), "certificate.json"),
        ("certificate.json", &|_| None, "certificate.json is gone"),
        ("ledger.jsonl", &|_| None, "the ledger is gone"),
        ("ledger.jsonl", &|bytes| without_lines(bytes, 1), "knows a line"),
        ("ledger.jsonl", &|bytes| without_lines(bytes, 3), "knows a line"),
        ("ledger.jsonl", &|bytes| replaced(bytes, "\"steps\":4", "\"steps\":1"), "edited"),
        ("ledger.jsonl", &|bytes| Some([bytes.as_slice(), b"{\"hash\":"].concat()), "last line"),
        ("plan.toml", &|bytes| replaced(bytes, "1.2487224102672019", "9.0"), "plan"),
        ("plan.toml", &|_| None, "plan.toml"),
        ("model.safetensors", &flip, "the model is not the one"),
        ("model.safetensors", &|_| None, "model.safetensors"),
        ("checkpoints/step-0000000016.safetensors", &flip, "damaged"),
        ("metrics.jsonl", &|bytes| replaced(bytes, "\"step\":20", "\"step\":21"), "tells of step 21"),
        ("metrics.jsonl", &|bytes| replaced(bytes, "{", ""), "line 1 is not whole"),
        (
            "private/diagnostics.jsonl",
            &|bytes| replaced(bytes, "\"step\":7", "\"step\":77"),
            "tells of step 77",
        ),
        ("private/data.key", &|_| None, "private/data.key is gone"),
        ("private/data.key", &flip, "data set"),
    ];
    for (number, (file, change, words)) in changes.iter().enumerate() {
        let copy = folder.path().join(format!("copy-{number}"));
        copy_folder(&run, &copy);
        assert_eq!(reason(&copy), None);
        edit(&copy.join(file), change);
        let reason = reason(&copy).unwrap_or_else(|| panic!("{file}: {words} is not found"));
        assert!(reason.contains(words) && !reason.contains('\n'), "{file}: {reason}");
        // No certificate may state less than the truth.
        if let Ok(certificate) = certify(&copy) {
            assert_eq!(certificate.spent, stored(&run).spent, "{file}: {words}");
        }
    }
    // The data lies outside the folder: here it is changed, and then removed.
    for file in ["train.npy", "train-labels.npy"] {
        let path = folder.path().join(file);
        let bytes = fs::read(&path).unwrap();
        let mut other = bytes.clone();
        let label = bytes.len() - 8;
        other[label] = 1;
        fs::write(&path, other).unwrap();
        assert!(reason(&run).unwrap().contains("data set"), "{file}");
        // A certificate can be computed all the same, because it does not need the data.
        certify(&run).unwrap();
        fs::remove_file(&path).unwrap();
        let Verdict::Valid { not_compared, .. } = verify(&run, None).unwrap() else { panic!("{file}") };
        assert_eq!(not_compared, ["data set", "first weights"]);
        fs::write(&path, bytes).unwrap();
    }
    // A folder is passed on without its private part.
    fs::remove_dir_all(run.join("private")).unwrap();
    let Verdict::Valid { not_compared, certificate } = verify(&run, None).unwrap() else { panic!() };
    assert_eq!((not_compared.len(), certificate.steps_spent), (2, 20));
    assert!(matches!(verify(folder.path(), None), Err(TrainError::NoRun { .. })));
}

/// Somebody shortens the ledger of a killed run to spend the same steps again.
#[test]
fn a_ledger_that_was_rolled_back_is_refused_by_whatever_other_file_is_left() {
    let folder = data();
    let (run, copies) = (folder.path().join("run"), folder.path().join("copies"));
    let mut snapshots = Snapshots { run: run.clone(), copies: copies.clone(), count: 0 };
    start(
        &request(folder.path(), &plan(60, "checkpoint_every = 20\nevaluate_every = 30")),
        &run,
        &mut snapshots,
    )
    .unwrap();
    // This run was killed soon after the evaluation of step 30.
    let killed = copies.join("37");
    let whole = History::read(&fs::read(killed.join("ledger.jsonl")).unwrap()).unwrap();
    assert!((31..=40).contains(&whole.spent()), "{}", whole.spent());
    let others = ["certificate.json", "checkpoints", "metrics.jsonl", "private/diagnostics.jsonl"];
    for (number, kept) in others.iter().enumerate() {
        let copy = folder.path().join(format!("rolled-{number}"));
        copy_folder(&killed, &copy);
        for other in others.iter().filter(|other| *other != kept) {
            let path = copy.join(other);
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        // Removes everything after the first promise.
        let lines = fs::read_to_string(copy.join("ledger.jsonl")).unwrap().lines().count();
        edit(&copy.join("ledger.jsonl"), |bytes| without_lines(bytes, lines - 3));
        let refused = |error: TrainError| matches!(error, TrainError::Ledger { .. });
        assert!(reason(&copy).unwrap().contains(kept.trim_start_matches("private/")), "{kept}");
        assert!(refused(certify(&copy).unwrap_err()), "{kept}");
        assert!(refused(resume(&copy, &mut Silent).unwrap_err()), "{kept}");
        assert!(refused(evaluate(&copy, Look::default()).unwrap_err()), "{kept}");
        let predictor = Predictor::open(&copy, Look::default(), &Performance::default());
        assert!(predictor.is_err_and(refused), "{kept}");
    }
}

#[test]
fn a_model_that_is_not_the_runs_is_neither_evaluated_nor_asked() {
    let folder = data();
    let run = folder.path().join("run");
    start(&request(folder.path(), &plan(4, "")), &run, &mut Silent).unwrap();
    edit(&run.join("model.safetensors"), |mut bytes| {
        *bytes.last_mut().unwrap() ^= 1;
        Some(bytes)
    });
    let refused = |error: TrainError| matches!(error, TrainError::Changed { what: "model", .. });
    assert!(refused(evaluate(&run, Look::default()).unwrap_err()));
    assert!(refused(certify(&run).unwrap_err()));
    assert!(Predictor::open(&run, Look::default(), &Performance::default()).is_err_and(refused));
}

#[test]
fn the_key_of_balanced_sampling_is_made_once_and_bound() {
    let folder = data();
    let plan = PLAN.replace("[region]\npatch = [2, 2]\n", "");
    let plan = format!("{plan}[sampling]\nscheme = 'balanced'\nper_record = 2\nsteps = 10\n");
    let run = folder.path().join("run");
    // A key lies there already, beside the mark of a process that died before its first line.
    fs::create_dir_all(run.join("private")).unwrap();
    fs::write(run.join("ledger.jsonl.partial"), "").unwrap();
    fs::write(run.join("private/sampling.key"), [7; 32]).unwrap();
    let mut recorder = Recorder { stop_after: Some(4), ..Recorder::default() };
    start(&request(folder.path(), &plan), &run, &mut recorder).unwrap();
    let path = run.join("private/sampling.key");
    let key = fs::read(&path).unwrap();
    assert_ne!(key, [7; 32]);
    assert_eq!(reason(&run), None);
    for other in [None, Some(vec![7; 32]), Some(key[..31].to_vec())] {
        edit(&path, |_| other.clone());
        let error = resume(&run, &mut Silent).unwrap_err();
        assert!(matches!(error, TrainError::Changed { what: "sampling key", .. }), "{error}");
        assert_eq!(fs::read(&path).ok(), other, "no key is made anew");
        assert!(reason(&run).unwrap().contains("sampling"));
    }
    fs::write(&path, key).unwrap();
    assert_eq!(resume(&run, &mut Silent).unwrap().certificate.status, Status::Finished);
}

#[test]
fn files_that_are_no_runs_own_are_left_alone() {
    let folder = data();
    for name in ["plan.toml", "model.safetensors", "private", "report.html"] {
        let out = folder.path().join(format!("out-{name}"));
        fs::create_dir(&out).unwrap();
        fs::write(out.join(name), "mine").unwrap();
        let error = start(&request(folder.path(), &plan(3, "")), &out, &mut Silent).unwrap_err();
        assert!(matches!(error, TrainError::InTheWay { .. }), "{error}");
        assert_eq!(fs::read_to_string(out.join(name)).unwrap(), "mine");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 1);
    }
    // Files with names that a run does not use may lie beside it.
    let out = folder.path().join("notes");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    start(&request(folder.path(), &plan(3, "")), &out, &mut Silent).unwrap();
}

#[cfg(unix)]
#[test]
fn what_is_private_is_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let folder = data();
    let run = folder.path().join("a/new/run");
    let plan = PLAN.replace("[region]\npatch = [2, 2]\n", "");
    let plan = format!("{plan}[sampling]\nscheme = 'balanced'\nper_record = 2\nsteps = 10\n");
    let mut recorder = Recorder { stop_after: Some(4), ..Recorder::default() };
    start(&request(folder.path(), &plan), &run, &mut recorder).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let check = || {
        assert_eq!(mode(&run.join("private")), 0o700);
        let files: Vec<PathBuf> =
            fs::read_dir(run.join("private")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 3);
        files.iter().for_each(|path| assert_eq!(mode(path), 0o600, "{}", path.display()));
        files
    };
    // A folder of an earlier version is closed to others when its run goes on.
    for path in check() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    fs::set_permissions(run.join("private"), fs::Permissions::from_mode(0o755)).unwrap();
    resume(&run, &mut Silent).unwrap();
    check();
}

/// How long steps take tells how many records they drew, so nothing outside `private` may depend on a clock.
#[test]
fn public_files_are_the_same_however_long_steps_take() {
    struct Slow;
    impl Observer for Slow {
        fn notice(&mut self, _: &Event<'_>) -> ControlFlow<()> {
            std::thread::sleep(Duration::from_millis(12));
            ControlFlow::Continue(())
        }
    }
    let folder = data();
    let request = request(folder.path(), &plan(150, "seed = 3\nevaluate_every = 60"));
    let (fast, slow) = (folder.path().join("fast"), folder.path().join("slow"));
    start(&request, &fast, &mut Silent).unwrap();
    start(&request, &slow, &mut Slow).unwrap();
    let promises = |run: &Path| {
        let text = fs::read_to_string(run.join("ledger.jsonl")).unwrap();
        let entry = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["entry"].clone();
        // The first line differs, because a key of the run's own hides the fingerprint of the data.
        text.lines()
            .skip(1)
            .map(entry)
            .map(|mut entry| {
                entry["data"].take();
                entry
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(promises(&fast), promises(&slow));
    for file in ["metrics.jsonl", "model.safetensors", "model.json", "plan.toml"] {
        assert!(fs::read(fast.join(file)).unwrap() == fs::read(slow.join(file)).unwrap(), "{file}");
    }
    let names = |run: &Path| {
        let mut names: Vec<_> =
            fs::read_dir(run.join("checkpoints")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&fast), names(&slow));
    let certificate = |run: &Path| RunCertificate { ledger: String::new(), ..stored(run) };
    assert_eq!(certificate(&fast), certificate(&slow));
}
