//! Runs that protect whole users: what they release and certify, what resumes, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Recorder, goes_on_alike, model_bytes, npy, request, write_data, write_pairs};
use dapple_plan::PlanSpec;
use dapple_train::{Request, Silent, TrainError, Verdict, resume, start, verify};

const RECORDS: usize = 40;

/// Forty records to train on, eight to test on, and thirteen users with three or four records each.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_data(folder.path(), "train", RECORDS, 6);
    write_data(folder.path(), "test", 8, 6);
    write_users(folder.path(), (0..RECORDS).map(|record| record % 13));
    folder
}

fn write_users(folder: &Path, users: impl Iterator<Item = usize>) {
    let lines: String = users.enumerate().map(|(record, user)| format!("{record},{user}\n")).collect();
    fs::write(folder.join("users.csv"), format!("record,user\n{lines}")).unwrap();
}

fn plan(users: &str, sampling: &str, rest: &str) -> String {
    format!(
        "test = 'test.npy'\ntest_labels = 'test-labels.npy'\n{users}\n[model]\nname = 'linear'\n\
         [optimiser]\nlearning_rate = 0.5\nmomentum = 0.9\n[sampling]\n{sampling}\n[performance]\nthreads = 2\n{rest}"
    )
}

const NOISE: &str = "noise_multiplier = 1.0\ndelta = 1e-5\n";
const SEVERAL: &str = "users = 'users.csv'\n[user]\nlocal_steps = 3\nlocal_learning_rate = 0.1\nlocal_batch = 2\nmax_records = 3";

fn user_plan(users: &str, sampling: &str, rest: &str) -> String {
    plan(users, sampling, &format!("[privacy]\nrelation = 'user'\n{NOISE}{rest}"))
}

fn run(folder: &Path, name: &str, text: &str) -> Result<(), TrainError> {
    start(&request(folder, text), &folder.join(name), &mut Silent).map(|_| ())
}

#[test]
fn users_are_drawn_trained_and_certified() {
    let folder = data();
    let text = user_plan(SEVERAL, "batch = 5\nsteps = 6", "[train]\nseed = 4");
    let out = folder.path().join("run");
    let mut recorder = Recorder::default();
    let outcome = start(&request(folder.path(), &text), &out, &mut recorder).unwrap();
    // Of thirteen users, not of forty records.
    let spent = outcome.certificate.spent.unwrap();
    assert_eq!((spent.records, spent.batch, outcome.updates), (13, 5, 6));
    assert!(spent.protects.contains("any one user"), "{}", spent.protects);
    let assumed = spent.assumptions.join(" ");
    assert!(
        assumed.contains("Each record belongs to the one user that the file of users names"),
        "{assumed}"
    );
    assert!(recorder.drawn.iter().all(|&drawn| drawn <= 13) && recorder.drawn.iter().any(|&drawn| drawn > 0));
    assert_eq!(recorder.evaluations.len(), 1);
    assert!(matches!(verify(&out, None).unwrap(), Verdict::Valid { .. }));
    // No public file tells a user.
    for file in ["ledger.jsonl", "metrics.jsonl", "model.json"] {
        let text = fs::read_to_string(out.join(file)).unwrap();
        assert!(!text.contains("\"user") && !text.contains("submodel"), "{file}");
    }
}

#[test]
fn a_stopped_run_goes_on_with_the_same_draws() {
    let folder = data();
    let text = user_plan(SEVERAL, "batch = 5\nsteps = 6", "[train]\nseed = 4\ncheckpoint_every = 1");
    goes_on_alike(folder.path(), &request(folder.path(), &text));
    let balanced = "scheme = 'balanced'\nper_record = 2\nsteps = 6";
    let again = tempfile::tempdir_in(folder.path()).unwrap();
    for file in ["train.npy", "train-labels.npy", "test.npy", "test-labels.npy", "users.csv"] {
        fs::copy(folder.path().join(file), again.path().join(file)).unwrap();
    }
    let text = user_plan(SEVERAL, balanced, "[train]\nseed = 4\ncheckpoint_every = 1");
    goes_on_alike(again.path(), &request(again.path(), &text));
}

#[test]
fn threads_change_no_bit() {
    let folder = data();
    for (number, training) in [SEVERAL, "users = 'users.csv'"].into_iter().enumerate() {
        for private in [true, false] {
            let models = [1, 2, 3].map(|threads| {
                let rest = format!("[train]\nseed = 4\nprivate = {private}");
                let text = user_plan(training, "batch = 8\nsteps = 5", &rest)
                    .replace("threads = 2", &format!("threads = {threads}"));
                let name = format!("run-{number}-{private}-{threads}");
                run(folder.path(), &name, &text).unwrap();
                model_bytes(&folder.path().join(name))
            });
            assert!(models[0] == models[1] && models[1] == models[2], "{training} {private}");
        }
    }
}

/// With one record a user and a single step, a user's update is its record's gradient. Both runs draw alike and have the same noise. Their
/// gradients are computed and measured in other ways, which may round otherwise, and a noisy sum may then lie on the next point of the
/// lattice. One such point, 2^-10 of noise over the batch of 8, moves a weight by 6e-5, and by ten times as much through the momentum.
#[test]
fn users_of_one_record_train_as_records_do() {
    let folder = data();
    let numbers: Vec<u8> = (0..RECORDS as i64).flat_map(i64::to_le_bytes).collect();
    fs::write(folder.path().join("users.npy"), npy("<i8", "40,", &numbers)).unwrap();
    for (private, most) in [(false, 1e-5), (true, 1e-3)] {
        same_weights(folder.path(), private, most);
    }
}

fn same_weights(folder: &Path, private: bool, most: f32) {
    let (sampling, train) = ("batch = 8\nsteps = 5", format!("[train]\nseed = 4\nprivate = {private}"));
    let records = plan("", sampling, &format!("[privacy]\n{NOISE}{train}"));
    let names = ["records", "users"].map(|name| format!("{name}-{private}"));
    run(folder, &names[0], &records).unwrap();
    run(folder, &names[1], &user_plan("users = 'users.npy'", sampling, &train)).unwrap();
    let [one, other] = names.map(|name| {
        let bytes = model_bytes(&folder.join(name));
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let values = file.tensor("fc.weight").unwrap().data().to_vec();
        values.chunks(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect::<Vec<f32>>()
    });
    for (one, other) in one.iter().zip(&other) {
        assert!((one - other).abs() < most, "{private}: {one} {other}");
    }
}

/// The file of users says what is protected, so a run does not go on with another one.
#[test]
fn another_file_of_users_is_another_data_set() {
    let folder = data();
    let text = user_plan(SEVERAL, "batch = 5\nsteps = 6", "[train]\nseed = 4");
    let out = folder.path().join("run");
    let mut stopped = Recorder { stop_after: Some(2), ..Recorder::default() };
    start(&request(folder.path(), &text), &out, &mut stopped).unwrap();
    write_users(folder.path(), (0..RECORDS).map(|record| (record + 1) % 13));
    let error = resume(&out, &mut Silent).unwrap_err();
    assert!(error.to_string().contains("data set"), "{error}");
    write_users(folder.path(), (0..RECORDS).map(|record| record % 13));
    resume(&out, &mut Silent).unwrap();
}

/// Whoever splits records off for evaluation splits users off, with all of their records.
#[test]
fn users_are_split_off_whole() {
    let folder = data();
    let split = "validation = 0.3\nsplit_seed = 1\nusers = 'users.csv'";
    let text = user_plan(split, "batch = 3\nsteps = 2", "[train]\nseed = 4")
        .replace("test = 'test.npy'\ntest_labels = 'test-labels.npy'\n", "");
    let out = folder.path().join("run");
    let mut recorder = Recorder::default();
    let outcome = start(&request(folder.path(), &text), &out, &mut recorder).unwrap();
    let users = outcome.certificate.spent.unwrap().records;
    assert!(users < 13);
    // Users have three or four records.
    let held_out = (13 - users) as usize;
    let evaluated = recorder.evaluations[0].records as usize;
    assert!((3 * held_out..=4 * held_out).contains(&evaluated), "{evaluated} of {held_out}");
}

/// What a frozen trunk makes of a record is computed once, for users too, and changes nothing.
#[test]
fn steps_on_features_are_steps_on_records_to_the_last_bit() {
    let folder = data();
    write_data(folder.path(), "train", RECORDS, 28);
    write_data(folder.path(), "test", 8, 28);
    let model = "name = 'small-cnn'\ntrainable = ['fc1', 'fc2']";
    // Thirteen users are drawn twice in six steps of five, and not in the five that are left after the first.
    let text = user_plan(SEVERAL, "batch = 5\nsteps = 6", "[train]\nseed = 4\ncheckpoint_every = 1")
        .replace("name = 'linear'", model);
    let request = request(folder.path(), &text);
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let features = |run: &Path| run.join("private/features");
    start(&request, &whole, &mut Silent).unwrap();
    assert!(features(&whole).is_file());
    start(&request, &parts, &mut Recorder { stop_after: Some(1), ..Recorder::default() }).unwrap();
    fs::remove_file(features(&parts)).unwrap();
    resume(&parts, &mut Silent).unwrap();
    assert!(!features(&parts).exists());
    assert!(model_bytes(&whole) == model_bytes(&parts));
}

/// Label maps, phases and a clip norm that follows a quantile are as they are for records.
#[test]
fn users_train_segmentation_models_in_phases() {
    let folder = tempfile::tempdir().unwrap();
    write_pairs(folder.path(), 12, |record, pixel| ((record + pixel / 7) % 2) as u8);
    let lines: String = (0..12).map(|record| format!("{record}.png,{}\n", record % 5)).collect();
    fs::write(folder.path().join("users.csv"), format!("file,user\n{lines}")).unwrap();
    let text = format!(
        "[data]\nformat = 'image-pairs'\ntrain = '.'\nclasses = 2\nusers = 'users.csv'\n\
         [user]\nlocal_steps = 2\nlocal_learning_rate = 0.05\n[pipeline]\nimage = [20, 20]\ncrop = [16, 16]\nviews = 2\n\
         [model]\nname = 'small-fcn'\n[optimiser]\nlearning_rate = 0.1\n\
         [privacy]\nrelation = 'user'\nclip_quantile = 0.5\n{NOISE}[train]\nseed = 2\n\
         [sampling]\nbatch = 3\n[[phases]]\nsteps = 2\n[[phases]]\nsteps = 2\nbatch = 2\n"
    );
    let spec = PlanSpec::from_toml(&text);
    let request = Request { base: folder.path().to_owned(), ..Request::of(spec.unwrap()) };
    let out = folder.path().join("run");
    let outcome = start(&request, &out, &mut Silent).unwrap();
    assert_eq!((outcome.updates, outcome.certificate.spent.unwrap().records), (4, 5));
    assert!(matches!(verify(&out, None).unwrap(), Verdict::Valid { .. }));
}

#[test]
fn what_does_not_fit_users_costs_no_step() {
    let folder = data();
    let good = |users: &str, rest: &str| user_plan(users, "batch = 5\nsteps = 6", rest);
    let file = "users = 'users.csv'";
    let on_card = good(file, "").replace("threads = 2", "device = 'cuda:0'");
    let records = plan(file, "batch = 5\nsteps = 6", &format!("[privacy]\n{NOISE}"));
    for (text, says) in [
        (good("users = 'none.csv'", ""), "none.csv"),
        (good("", ""), "data.users"),
        (good(file, "[user]\nlocal_steps = 2"), "user.local_learning_rate"),
        (good(file, "records_per_clip = 2"), "microbatches under the user relation"),
        (good(file, "").replace("batch = 5", "batch = 14"), "sampling.batch"),
        (good(&format!("{file}\n[user]\nmax_records = 0"), ""), "user.max_records"),
        (good(file, "").replace("batch = 5", "batch = 5\nrecords = 40"), "40 users, but the data set has 13"),
        (
            good(file, "").replace("batch = 5", "scheme = 'without-replacement'\nbatch = 5"),
            "without-replacement",
        ),
        (on_card, "performance.device"),
        (records, "data.users"),
    ] {
        let error = run(folder.path(), "refused", &text).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(says) && !message.contains('\n'), "{says}: {message}");
        assert!(error.hint().is_some() && !folder.path().join("refused").exists(), "{says}");
    }
}
