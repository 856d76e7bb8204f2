//! The life of a run: started, stopped, resumed, refused, finished.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use common::{Recorder, model_bytes, request, write_data};
use dapple_train::{
    Event, Look, Observer, RunOutcome, Silent, Status, TrainError, Verdict, Warning, ask_to_stop, certify,
    evaluate, resume, start, verify,
};

const MODEL: &str = "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\n";
const PRIVATE: &str = "[privacy]\nnoise_multiplier = 2.0\ndelta = 1e-5\n";

/// A folder with data of 40 records for training and 20 for evaluation.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 6);
    write_data(folder.path(), "test", 20, 6);
    folder
}

fn run(folder: &Path, name: &str, plan: &str) -> Result<(RunOutcome, Recorder), TrainError> {
    let mut recorder = Recorder::default();
    let outcome = start(&request(folder, plan), &folder.join(name), &mut recorder)?;
    Ok((outcome, recorder))
}

fn plan(train: &str, sampling: &str) -> String {
    format!(
        "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n{MODEL}{PRIVATE}[train]\n{train}\n[sampling]\n{sampling}\n"
    )
}

/// Asks, as another process would, for the end of a run once it takes steps.
struct Asking<'a>(&'a Path, Option<bool>);

impl Observer for Asking<'_> {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if matches!(event, Event::Step(_)) && self.1.is_none() {
            self.1 = Some(ask_to_stop(self.0).unwrap());
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn a_run_stops_in_order_when_another_process_asks() {
    let folder = data();
    let out = folder.path().join("run");
    // So many steps that they take longer than a request is left alone, on any machine.
    let steps = 200_000;
    let mut asking = Asking(&out, None);
    let request = request(folder.path(), &plan("", &format!("batch = 10\nsteps = {steps}")));
    let stopped = start(&request, &out, &mut asking).unwrap().certificate;
    assert_eq!((stopped.status, asking.1), (Status::Stopped, Some(true)));
    assert!(stopped.steps_spent > 0 && stopped.steps_spent < steps);
    let ledger = fs::read_to_string(out.join("ledger.jsonl")).unwrap();
    assert!(ledger.lines().last().unwrap().contains("asked to stop"), "{ledger}");
    assert!(matches!(verify(&out, None).unwrap(), Verdict::Valid { .. }));
    // Nobody is there to be asked, and a request that was meant for an earlier process stops no later one.
    assert!(!ask_to_stop(&out).unwrap());
    let request = out.join("private/stop");
    assert!(!request.exists());
    fs::write(&request, "").unwrap();
    let mut recorder = Recorder { stop_after: Some(stopped.steps_spent + 2), ..Recorder::default() };
    let again = resume(&out, &mut recorder).unwrap().certificate;
    assert!(again.steps_spent > stopped.steps_spent && !request.exists());
    assert!(matches!(ask_to_stop(&folder.path().join("none")), Err(TrainError::File { .. })));
}

/// A ledger that counts less than the events for TensorBoard know of was cut.
#[test]
fn events_are_witnesses() {
    let folder = data();
    let text = plan("tensorboard = true\nevaluate_every = 5\ncheckpoint_every = 5", "batch = 10\nsteps = 20");
    run(folder.path(), "run", &text).unwrap();
    let out = folder.path().join("run");
    assert!(matches!(verify(&out, None).unwrap(), Verdict::Valid { .. }));
    let ledger = fs::read_to_string(out.join("ledger.jsonl")).unwrap();
    // Only the first promise is left, of every other witness nothing.
    let kept = ledger.lines().position(|line| line.contains("promise")).unwrap() + 1;
    let cut: String = ledger.lines().take(kept).map(|line| format!("{line}\n")).collect();
    fs::write(out.join("ledger.jsonl"), cut).unwrap();
    for file in ["certificate.json", "metrics.jsonl", "model.safetensors", "private/diagnostics.jsonl"] {
        fs::remove_file(out.join(file)).unwrap();
    }
    fs::remove_dir_all(out.join("checkpoints")).unwrap();
    for witness in ["tensorboard", "private/tensorboard"] {
        let Err(error) = certify(&out) else { panic!("{witness}: the cut is not seen") };
        assert!(error.to_string().contains(&format!("{witness}/events")), "{error}");
        fs::remove_dir_all(out.join(witness)).unwrap();
    }
    // This is the limit that is documented: no file knows any more.
    assert!(certify(&out).is_ok());
}

#[test]
fn a_run_leaves_a_folder_that_tells_everything() {
    let folder = data();
    let (outcome, recorder) =
        run(folder.path(), "run", &plan("evaluate_every = 5", "batch = 10\nsteps = 20")).unwrap();
    let run = folder.path().join("run");
    assert_eq!((outcome.updates, outcome.certificate.steps_spent), (20, 20));
    assert_eq!(outcome.certificate.status, Status::Finished);
    assert_eq!(outcome.certificate.spent, outcome.certificate.planned);
    assert!(outcome.certificate.warnings.is_empty());
    assert_eq!(recorder.evaluations.len(), 4);
    let evaluation = outcome.evaluation.unwrap();
    assert_eq!((evaluation.records, evaluation.confusion.len(), evaluation.top5), (20, 4, None));
    assert_eq!(evaluate(&run, Look::default()).unwrap(), evaluation);
    assert_eq!(certify(&run).unwrap(), outcome.certificate);
    for file in ["plan.toml", "certificate.json", "ledger.jsonl", "metrics.jsonl", "model.safetensors"] {
        assert!(run.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    assert_eq!(fs::read_to_string(run.join("private/diagnostics.jsonl")).unwrap().lines().count(), 20);
    // Everything that the guarantee does not cover lies in one folder.
    for file in ["certificate.json", "ledger.jsonl", "metrics.jsonl", "plan.toml"] {
        let text = fs::read_to_string(run.join(file)).unwrap();
        assert!(!text.contains("\"drawn\"") && !text.contains("\"clipped\""), "{file}");
    }
    assert!(matches!(start(&request(folder.path(), MODEL), &run, &mut Silent), Err(TrainError::Plan(_))));
    let again = run_error(folder.path(), "run", &plan("", "batch = 10\nsteps = 20"));
    assert!(matches!(again, TrainError::Exists { .. }), "{again}");
    let resumed = resume(&run, &mut Silent).unwrap();
    assert_eq!(resumed.certificate.steps_spent, 20);
}

fn run_error(folder: &Path, name: &str, plan: &str) -> TrainError {
    run(folder, name, plan).map(|(outcome, _)| outcome).unwrap_err()
}

#[test]
fn a_stopped_run_ends_as_an_uninterrupted_one_where_a_seed_decides() {
    let folder = data();
    for (name, rest) in
        [("sgd", "momentum = 0.9\nschedule = 'cosine'"), ("adam", "kind = 'adam'\nema = 0.9\nwarmup = 3")]
    {
        let plan = plan("seed = 7", "batch = 10\nsteps = 24")
            .replace("learning_rate = 0.5", &format!("learning_rate = 0.05\n{rest}"));
        let (whole, _) = run(folder.path(), &format!("{name}-whole"), &plan).unwrap();
        assert_eq!(whole.certificate.warnings, [Warning::Seeded]);
        let parts = folder.path().join(format!("{name}-parts"));
        let mut recorder = Recorder { stop_after: Some(9), ..Recorder::default() };
        let stopped = start(&request(folder.path(), &plan), &parts, &mut recorder).unwrap();
        assert_eq!(stopped.certificate.status, Status::Stopped);
        assert!((9..24).contains(&stopped.certificate.steps_spent));
        let resumed = resume(&parts, &mut Silent).unwrap();
        assert_eq!((resumed.updates, resumed.certificate.steps_spent), (24, 24));
        assert_eq!(model_bytes(&parts), model_bytes(&folder.path().join(format!("{name}-whole"))), "{name}");
    }
}

#[test]
fn two_secure_runs_share_no_noise_and_one_seed_gives_one_model() {
    let folder = data();
    let secure = plan("", "batch = 10\nsteps = 3");
    let seeded = plan("seed = 3", "batch = 10\nsteps = 3");
    for (name, plan) in [("a", &secure), ("b", &secure), ("c", &seeded), ("d", &seeded)] {
        run(folder.path(), name, plan).unwrap();
    }
    let bytes = |name| model_bytes(&folder.path().join(name));
    assert_ne!(bytes("a"), bytes("b"));
    assert_eq!(bytes("c"), bytes("d"));
}

#[test]
fn what_a_run_began_with_must_not_change() {
    let folder = data();
    let plan = plan("", "batch = 10\nsteps = 8")
        .replace("name = 'linear'", "name = 'linear'\nweights = 'w.safetensors'");
    run(folder.path(), "first", &self::plan("", "batch = 10\nsteps = 2")).unwrap();
    let weights = folder.path().join("w.safetensors");
    fs::copy(folder.path().join("first/model.safetensors"), &weights).unwrap();
    let mut recorder = Recorder { stop_after: Some(2), ..Recorder::default() };
    let out = folder.path().join("run");
    start(&request(folder.path(), &plan), &out, &mut recorder).unwrap();
    let spent = certify(&out).unwrap().steps_spent;

    for (file, what, change) in [
        (out.join("plan.toml"), "plan", replace as fn(&[u8]) -> Vec<u8>),
        (folder.path().join("train.npy"), "data set", flip_last),
        (folder.path().join("train-labels.npy"), "data set", swap_labels),
        (weights.clone(), "weights file", flip_last),
        (out.join("private/data.key"), "data set", flip_last),
    ] {
        let original = fs::read(&file).unwrap();
        fs::write(&file, change(&original)).unwrap();
        let error = resume(&out, &mut Silent).unwrap_err();
        assert!(
            matches!(&error, TrainError::Changed { what: found, .. } if *found == what),
            "{what}: {error}"
        );
        assert!(error.hint().is_some());
        fs::write(&file, original).unwrap();
    }
    // A plan with other performance settings is the same plan.
    let text = fs::read_to_string(out.join("plan.toml")).unwrap();
    fs::write(out.join("plan.toml"), format!("{text}\n[performance]\nthreads = 1\n")).unwrap();
    assert_eq!(certify(&out).unwrap().steps_spent, spent);
    let outcome = resume(&out, &mut Silent).unwrap();
    assert_eq!(outcome.certificate.steps_spent, 8);
}

fn replace(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8(bytes.to_vec())
        .unwrap()
        .replace("learning_rate = 0.5", "learning_rate = 0.6")
        .into_bytes()
}

fn flip_last(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    bytes
}

fn swap_labels(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = bytes.len();
    bytes[end - 8] = 0;
    bytes
}

#[test]
fn an_edited_or_shortened_ledger_is_refused() {
    let folder = data();
    let out = folder.path().join("run");
    let mut recorder = Recorder { stop_after: Some(4), ..Recorder::default() };
    start(&request(folder.path(), &plan("", "batch = 10\nsteps = 200")), &out, &mut recorder).unwrap();
    let path = out.join("ledger.jsonl");
    let original = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = original.split_inclusive('\n').collect();
    let shorter = lines[..2].concat();
    let cheaper = original.replacen("\"noise_multiplier\":2.0", "\"noise_multiplier\":9.0", 1);
    assert_ne!(cheaper, original);
    for text in [shorter, cheaper, lines[1..].concat()] {
        fs::write(&path, text).unwrap();
        assert!(matches!(resume(&out, &mut Silent).unwrap_err(), TrainError::Ledger { .. }));
    }
    // A cut last line is the sign of a crash. It counts, and the run goes on.
    fs::write(&path, format!("{original}{}", &lines[1][..40])).unwrap();
    let before = certify(&out).unwrap();
    assert_eq!(before.warnings, [Warning::CutLedger]);
    let after = resume(&out, &mut Silent).unwrap().certificate;
    assert!(after.steps_spent >= before.steps_spent && after.steps_spent == 200);
}

#[test]
fn the_noise_is_solved_for_and_the_budget_is_used_up() {
    let folder = data();
    let open = plan("", "batch = 10\nsteps = 20").replace("noise_multiplier = 2.0", "epsilon = 3.0");
    let (calibrated, _) = run(folder.path(), "calibrated", &open).unwrap();
    let spent = calibrated.certificate.spent.unwrap();
    assert!(spent.epsilon.upper <= 3.0 && spent.epsilon.upper > 2.9, "{:?}", spent.epsilon);

    let budget = plan("until_budget = true", "batch = 10")
        .replace("noise_multiplier = 2.0", "noise_multiplier = 2.0\nepsilon = 3.0");
    let (until, _) = run(folder.path(), "until", &budget).unwrap();
    let spent = until.certificate.spent.unwrap();
    assert!(spent.epsilon.upper <= 3.0 && until.updates > 5);
    // One step more would be too many.
    let more = plan("", &format!("batch = 10\nsteps = {}", until.updates + 1))
        .replace("noise_multiplier = 2.0", "noise_multiplier = 2.0\nepsilon = 3.0");
    let error = run_error(folder.path(), "more", &more);
    assert!(error.to_string().starts_with("privacy.epsilon") && error.hint().is_some(), "{error}");
    assert!(!folder.path().join("more").exists(), "nothing is written for a plan that is refused");
}

#[test]
fn phases_change_noise_batch_crop_and_views() {
    let folder = data();
    let phases = "[pipeline]\ncrop = '4x4'\n[[phases]]\nsteps = 5\n[[phases]]\nsteps = 7\nbatch = 20\nnoise_multiplier = 3.0\nviews = 2\n";
    let (outcome, recorder) =
        run(folder.path(), "run", &format!("{}{phases}", plan("seed = 1", "batch = 10"))).unwrap();
    assert_eq!((outcome.updates, recorder.losses.len()), (12, 12));
    let ledger = fs::read_to_string(folder.path().join("run/ledger.jsonl")).unwrap();
    assert!(ledger.contains("\"batch\":10") && ledger.contains("\"batch\":20"));
    let mean = |drawn: &[usize]| drawn.iter().sum::<usize>() as f64 / drawn.len() as f64;
    assert!(mean(&recorder.drawn[5..]) > mean(&recorder.drawn[..5]));
    // Crops of another size change the layers of this model.
    let other = phases.replace("views = 2", "crop = '5x5'");
    let error = run_error(folder.path(), "other", &format!("{}{other}", plan("", "batch = 10")));
    assert!(error.to_string().contains("phase 2"), "{error}");
    let sized = format!("{}{other}", plan("", "batch = 10")).replace("test = ", "size = '4x4'\ntest = ");
    assert_eq!(run(folder.path(), "sized", &sized).unwrap().0.updates, 12);
}

#[test]
fn an_empty_batch_is_noised_and_taken() {
    let folder = data();
    // Two records, each drawn with probability one half: a quarter of the steps is empty.
    write_data(folder.path(), "train", 2, 6);
    let base = plan("seed = 5", "batch = 1\nsteps = 1")
        .replace("test = 'test.npy'\ntest_labels = 'test-labels.npy'\n", "classes = 4\n");
    let mut empty = 0;
    for seed in 0..12 {
        let plan = base.replace("seed = 5", &format!("seed = {seed}"));
        let (outcome, recorder) = run(folder.path(), &format!("run-{seed}"), &plan).unwrap();
        assert_eq!(outcome.updates, 1);
        if recorder.drawn == [0] {
            empty += 1;
            assert_eq!(recorder.losses, [None]);
            let bytes = model_bytes(&folder.path().join(format!("run-{seed}")));
            let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
            let data = file.tensor("fc.weight").unwrap().data().to_vec();
            let weights = data.chunks(4).map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            let squares: Vec<f64> = weights.map(|w| w * w).collect();
            // The noise in the weights, rate * noise / expected batch, has the deviation 0.5 * 2 / 1. 144 squares have a mean within 5 *
            // sqrt(2 / 144) of theirs.
            let variance = squares.iter().sum::<f64>() / squares.len() as f64;
            assert!((variance - 1.0).abs() < 5.0 * (2.0f64 / 144.0).sqrt(), "{variance}");
        }
    }
    assert!(empty > 0);
}

#[test]
fn every_kind_of_clipping_and_none_train() {
    let folder = data();
    for kind in ["flat", "automatic", "per-layer"] {
        let (outcome, _) =
            run(folder.path(), kind, &plan(&format!("clipping = '{kind}'"), "batch = 10\nsteps = 3"))
                .unwrap();
        assert!(outcome.certificate.spent.unwrap().epsilon.upper > 0.0);
    }
    let open = plan("private = false\nlabel_smoothing = 0.1", "batch = 40\nsteps = 60").replace(PRIVATE, "");
    let (outcome, recorder) = run(folder.path(), "open", &open).unwrap();
    let certificate = outcome.certificate;
    assert!(!certificate.private && certificate.spent.is_none() && certificate.planned.is_none());
    assert_eq!(certificate.warnings, [Warning::NotPrivate]);
    assert!(recorder.losses[59] < recorder.losses[0]);
    assert!(outcome.evaluation.unwrap().accuracy > 0.9);
}

#[test]
fn balanced_sampling_keeps_its_allocation_across_a_stop() {
    let folder = data();
    let plan = plan("", "scheme = 'balanced'\nper_record = 2\nsteps = 10");
    let out = folder.path().join("run");
    let mut recorder = Recorder { stop_after: Some(4), ..Recorder::default() };
    start(&request(folder.path(), &plan), &out, &mut recorder).unwrap();
    let key = fs::read(out.join("private/sampling.key")).unwrap();
    let whole = certify(&out).unwrap();
    assert_eq!(whole.spent, whole.planned);
    let outcome = resume(&out, &mut Silent).unwrap();
    assert_eq!(fs::read(out.join("private/sampling.key")).unwrap(), key);
    assert_eq!(outcome.certificate.status, Status::Finished);
}

#[test]
fn validation_records_are_split_off_and_counted_out() {
    let folder = data();
    let split = plan("", "batch = 10\nsteps = 2")
        .replace("test = 'test.npy'\ntest_labels = 'test-labels.npy'", "validation = 0.25");
    let (outcome, _) = run(folder.path(), "run", &split).unwrap();
    let (trained, tested) =
        (outcome.certificate.planned.unwrap().records, outcome.evaluation.unwrap().records);
    assert!(trained + tested == 40 && tested > 0, "{trained} and {tested}");
    let wrong = split.replace("steps = 2", "steps = 2\nrecords = 40");
    assert!(run_error(folder.path(), "wrong", &wrong).to_string().contains("40"));
}

#[test]
fn divergence_ends_the_run_and_what_was_spent_stays() {
    let folder = data();
    // Weights overflow. A gradient that overflows would not stop the run, because stopping would tell about a record.
    let plan = plan("", "batch = 10\nsteps = 20")
        .replace("learning_rate = 0.5", "learning_rate = 1e38")
        .replace("[privacy]", "[privacy]\nmax_grad_norm = 1000.0");
    let error = run_error(folder.path(), "run", &plan);
    assert!(
        matches!(error, TrainError::Step { .. }) && error.hint().unwrap().contains("learning"),
        "{error}"
    );
    let certificate = certify(&folder.path().join("run")).unwrap();
    assert!(certificate.steps_spent >= 1 && certificate.spent.is_some());
    let text = fs::read_to_string(folder.path().join("run/certificate.json")).unwrap();
    assert!(text.contains("\"stopped\""));
}

#[test]
fn wrong_requests_name_their_key_and_write_nothing() {
    let folder = data();
    let good = plan("seed = 1", "batch = 10\nsteps = 4");
    for (from, to, says) in [
        ("batch = 10", "batch = 41", "sampling.batch"),
        ("learning_rate = 0.5", "", "optimiser.learning_rate"),
        ("name = 'linear'", "name = 'liner'", "model.name"),
        ("name = 'linear'", "name = 'linear'\nnorm = 'group'", "model.norm"),
        ("name = 'linear'", "name = 'linear'\ntrainable = ['conv']", "model.trainable"),
        ("name = 'linear'", "name = 'linear'\nweights = 'none.safetensors'", "none.safetensors"),
        ("name = 'linear'", "", "model.name"),
        ("[train]", "[train]\nlabel_smoothing = 2.0", "train.label_smoothing"),
        ("[train]", "[train]\ncheckpoint_every = 0", "train.checkpoint_every"),
        ("[train]", "[performance]\ndevice = 'cuda:99'\n[train]", "cuda:99"),
        ("[train]", "[mix]\nsynthetic = 2\n[train]", "mix.synthetic"),
        ("[train]", "[mix]\nself_mix = 2\n[train]", "mix.self_mix"),
        ("[privacy]", "[privacy]\nrelation = 'user'", "data.users"),
        ("[privacy]", "[privacy]\nmax_grad_norm = 0.0", "privacy.max_grad_norm"),
        ("'train.npy'", "'nothing.npy'", "nothing.npy"),
        ("mean = [0.5]", "mean = [0.5, 0.5]", "data.mean"),
    ] {
        let mut request = request(folder.path(), &good);
        let text = request.spec.to_toml();
        let (from, to) = (from.replace('\'', "\""), to.replace('\'', "\""));
        assert!(text.contains(&from), "{from} in {text}");
        request.spec = dapple_plan::PlanSpec::from_toml(&text.replace(&from, &to)).unwrap();
        let out = folder.path().join("refused");
        let error = start(&request, &out, &mut Silent).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(says) && !message.contains('\n'), "{says}: {message}");
        assert!(!out.exists(), "{says}");
    }
    assert!(matches!(resume(&folder.path().join("refused"), &mut Silent), Err(TrainError::NoRun { .. })));
}

#[test]
fn a_picture_that_does_not_decode_is_named_before_a_step_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    // Writes four grey pictures of 8x8 for each class, as portable grey maps.
    for (class, name) in ["cat", "dog"].into_iter().enumerate() {
        fs::create_dir(folder.path().join(name)).unwrap();
        for i in 0..4u8 {
            let mut bytes = b"P5\n8 8\n255\n".to_vec();
            bytes.extend((0..64u8).map(|p| p.wrapping_mul(3 * i + 1 + 50 * class as u8)));
            fs::write(folder.path().join(name).join(format!("{i}.pgm")), bytes).unwrap();
        }
    }
    let text = format!(
        "[data]\nformat = 'image-folder'\ntrain = '.'\ncheck = false\n{MODEL}{PRIVATE}[pipeline]\nimage = '8x8'\n[train]\nseed = 1\n[sampling]\nbatch = 4\nsteps = 30\n"
    );
    let base = folder.path().to_owned();
    let out = tempfile::tempdir().unwrap();
    let request =
        dapple_train::Request { spec: dapple_plan::PlanSpec::from_toml(&text).unwrap(), base, masks: vec![] };
    let broken = folder.path().join("dog/2.pgm");
    let whole = fs::read(&broken).unwrap();
    fs::write(&broken, &whole[..30]).unwrap();
    // By default, every record is read before anything is written.
    let mut checked = request.clone();
    checked.spec.data.check = None;
    let refused = folder.path().join("refused");
    let error = start(&checked, &refused, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("2.pgm") && !refused.exists(), "{error}");
    // Otherwise only the first batch is read before a step is promised. What was spent before a later fault is found stays spent.
    let mut spent = Vec::new();
    for seed in 0..8 {
        let mut unchecked = request.clone();
        unchecked.spec.train.seed = Some(seed);
        let out = tempfile::tempdir().unwrap();
        let error = start(&unchecked, out.path(), &mut Silent).unwrap_err();
        assert!(error.to_string().contains("2.pgm"), "{error}");
        spent.push(certify(out.path()).unwrap().steps_spent);
    }
    assert!(spent.contains(&0) && spent.iter().any(|&steps| steps > 0), "{spent:?}");
    start(&request, out.path(), &mut Silent).unwrap_err();
    // With the repaired picture the data set is another one than the run began with.
    fs::write(&broken, whole).unwrap();
    assert!(matches!(resume(out.path(), &mut Silent), Err(TrainError::Changed { what: "data set", .. })));
}

#[test]
fn a_run_has_one_owner() {
    let folder = data();
    struct Second<'a>(&'a Path, bool);
    impl dapple_train::Observer for Second<'_> {
        fn notice(&mut self, event: &dapple_train::Event<'_>) -> std::ops::ControlFlow<()> {
            if matches!(event, dapple_train::Event::Step(_)) && !self.1 {
                self.1 = matches!(resume(self.0, &mut Silent), Err(TrainError::Locked { .. }));
                // Reading is allowed, and counts what is promised.
                assert!(certify(self.0).unwrap().steps_spent >= 1);
            }
            std::ops::ControlFlow::Continue(())
        }
    }
    let out = folder.path().join("run");
    let mut second = Second(&out, false);
    start(&request(folder.path(), &plan("", "batch = 10\nsteps = 3")), &out, &mut second).unwrap();
    assert!(second.1);
}

/// Mixtures of views cost nothing and change what is learned.
#[test]
fn views_are_mixed() {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", 40, 8);
    let run = |name: &str, mix: &str| {
        let plan = format!(
            "[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 0.5\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-3\n\
             [pipeline]\ncrop = [6, 6]\nviews = 2\n{mix}[sampling]\nbatch = 10\nsteps = 6\n[train]\nseed = 2\n"
        );
        let out = folder.path().join(name);
        let outcome = start(&request(folder.path(), &plan), &out, &mut Silent).unwrap();
        (outcome.certificate.spent.unwrap().epsilon, model_bytes(&out))
    };
    let (plain, mixed) = (run("plain", ""), run("mixed", "[mix]\nself_mix = 3\n"));
    assert_eq!(plain.0, mixed.0);
    assert_ne!(plain.1, mixed.1);
}
