//! What a server counts, whatever its clients do and whenever it dies.

use std::fs;
use std::path::Path;

use dapple_plan::spec::ModelSpec;

use super::*;
use crate::certificate::Warning;

const PLAN: &str = r#"
    [privacy]
    relation = "user"
    noise_multiplier = 1.0
    max_grad_norm = 0.5
    delta = 1e-5
    [sampling]
    batch = 20
    records = 20
    steps = 3
"#;

fn spec(more: &str) -> PlanSpec {
    PlanSpec::from_toml(&format!("{PLAN}{more}")).unwrap()
}

fn model() -> FederatedModel {
    let arrays = vec![("fc.weight".to_owned(), vec![2, 2]), ("fc.bias".to_owned(), vec![2])];
    FederatedModel::new(arrays, vec![0.5; 6]).unwrap()
}

fn started(folder: &Path) -> FederatedRun {
    FederatedRun::start(&spec(""), folder, model()).unwrap()
}

/// What a process that reads the folder now would count.
fn counted(folder: &Path) -> u64 {
    History::read(&fs::read(folder.join("ledger.jsonl")).unwrap()).unwrap().spent()
}

fn certificate_on_disk(folder: &Path) -> FederatedCertificate {
    FederatedCertificate::from_json(&fs::read_to_string(folder.join("certificate.json")).unwrap()).unwrap()
}

#[test]
fn a_round_is_on_disk_before_its_clients_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = started(folder.path());
    for round in 0..3 {
        assert!(certificate_on_disk(folder.path()).rounds_spent >= counted(folder.path()));
        // Every client is drawn where as many are expected as there are.
        assert_eq!(run.promise(20).unwrap(), (0..20).collect::<Vec<_>>());
        assert_eq!(counted(folder.path()), round + 1);
        let stated = certificate_on_disk(folder.path());
        assert!(stated.rounds_spent > round && stated.spent.unwrap().epsilon.upper > 0.0);
        run.add(3, &[0.1; 6]).unwrap();
        let mean = run.finish_round().unwrap();
        run.keep(&mean).unwrap();
    }
    let certificate = run.certificate().unwrap();
    assert_eq!((certificate.status, certificate.rounds_spent), (Status::Finished, 3));
    assert_eq!(certificate.spent.as_ref(), Some(&certificate.planned));
    assert_eq!(certificate_on_disk(folder.path()), certificate);
    assert_eq!(certify_federated(folder.path()).unwrap(), certificate);
    // The price is that of users drawn by Poisson coins, with what a server assumes beside it.
    let plain = Plan::check(&spec("")).unwrap().price(dapple_plan::BracketPrecision::default()).unwrap();
    assert_eq!(certificate.planned.epsilon, plain.epsilon);
    assert!(
        certificate.planned.assumptions.iter().any(|sentence| sentence.contains("The server is trusted"))
    );
    let error = run.promise(20).unwrap_err();
    assert!(matches!(error, TrainError::Federated(FederatedError::Over { rounds: 3 })), "{error}");
}

#[test]
fn a_server_that_dies_does_not_take_its_round_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = started(folder.path());
    run.promise(20).unwrap();
    let mean = run.finish_round().unwrap();
    run.keep(&mean).unwrap();
    run.promise(20).unwrap();
    let error = FederatedRun::resume(folder.path()).unwrap_err();
    assert!(matches!(error, TrainError::Locked { .. }), "{error}");
    drop(run);
    let mut again = FederatedRun::resume(folder.path()).unwrap();
    assert_eq!((again.rounds_spent(), again.model().values()), (2, &mean[..]));
    assert!(matches!(again.add(0, &[0.0; 6]).unwrap_err(), TrainError::Federated(FederatedError::NoRound)));
    again.promise(20).unwrap();
    let mean = again.finish_round().unwrap();
    again.keep(&mean).unwrap();
    let certificate = certify_federated(folder.path()).unwrap();
    assert_eq!((certificate.status, certificate.rounds_spent), (Status::Finished, 3));
    assert_eq!(certificate.warnings, [Warning::LostSteps]);
}

#[test]
fn a_line_that_was_cut_off_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = started(folder.path());
    run.promise(20).unwrap();
    drop(run);
    let path = folder.path().join("ledger.jsonl");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str("{\"hash\":\"12");
    fs::write(&path, text).unwrap();
    assert_eq!(certify_federated(folder.path()).unwrap().rounds_spent, 2);
    assert_eq!(FederatedRun::resume(folder.path()).unwrap().rounds_spent(), 2);
}

#[test]
fn answers_of_no_use_add_zero_and_second_answers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = started(folder.path());
    run.promise(20).unwrap();
    assert!(run.add(0, &[f32::NAN; 6]).unwrap().is_none());
    assert!(run.add(1, &[0.0; 5]).unwrap().is_none());
    assert!(!run.add(2, &[1e9; 6]).unwrap().unwrap().unclipped);
    assert!(run.add(3, &[0.1; 6]).unwrap().unwrap().unclipped);
    for (client, words) in [(2, "has answered"), (0, "has answered"), (20, "was not drawn")] {
        let error = run.add(client, &[0.1; 6]).unwrap_err();
        assert!(error.to_string().contains(words) && error.hint().is_some(), "{error}");
    }
    run.finish_round().unwrap();
    let counts = fs::read_to_string(folder.path().join("private/rounds.jsonl")).unwrap();
    assert_eq!(counts.trim(), r#"{"round":0,"drawn":20,"answered":4,"clipped":1,"unusable":2}"#);
    let error = run.promise(21).unwrap_err();
    assert!(error.to_string().contains("21 clients are online, and the plan declares 20"), "{error}");
    assert_eq!(run.rounds_spent(), 1);
}

#[test]
fn what_contradicts_the_ledger_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = started(folder.path());
    for _ in 0..3 {
        run.promise(20).unwrap();
        let mean = run.finish_round().unwrap();
        run.keep(&mean).unwrap();
    }
    drop(run);
    let change = |name: &str, changed: &dyn Fn(&str) -> String, words: &str| {
        let path = folder.path().join(name);
        let kept = fs::read(&path).unwrap();
        fs::write(&path, changed(std::str::from_utf8(&kept).unwrap())).unwrap();
        let error = certify_federated(folder.path()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        let error = FederatedRun::resume(folder.path()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        fs::write(&path, kept).unwrap();
        certify_federated(folder.path()).unwrap();
    };
    let first_lines = |text: &str| text.split_inclusive('\n').take(2).collect::<String>();
    // One line after the first: the other two rounds were taken off, which the certificate would allow for one that is running.
    change("ledger.jsonl", &first_lines, "was removed");
    change("ledger.jsonl", &|text| text.replacen("\"batch\":20", "\"batch\":10", 1), "was edited");
    change(
        "plan.toml",
        &|text| text.replace("noise_multiplier = 1.0", "noise_multiplier = 2.0"),
        "the plan is not",
    );
    change(
        "certificate.json",
        &|text| text.replace("\"rounds_spent\": 3", "\"rounds_spent\": 1"),
        "the certificate is not",
    );
    let model = folder.path().join("model.safetensors");
    fs::write(&model, b"nothing").unwrap();
    assert!(matches!(certify_federated(folder.path()).unwrap_err(), TrainError::Checkpoint { .. }));
}

#[test]
fn what_a_server_does_not_carry_out_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |spec: PlanSpec, key: &str| {
        let error = FederatedRun::start(&spec, &folder.path().join("run"), model()).unwrap_err();
        assert!(error.to_string().contains(key) && error.hint().is_some(), "{error}");
        assert!(!folder.path().join("run").exists());
    };
    let mut records = spec("");
    records.privacy.relation = None;
    refused(records, "privacy.relation");
    let mut unbounded = spec("");
    unbounded.privacy.max_grad_norm = None;
    refused(unbounded, "privacy.max_grad_norm");
    refused(spec("[partition]\nsubmodels = 2\n"), "partition");
    refused(spec("[mix]\nsynthetic = 2\n"), "mix");
    refused(spec("[train]\nseed = 2\n"), "train");
    refused(spec("[[phases]]\nsteps = 2\n"), "phases");
    let mut quantile = spec("");
    quantile.privacy.clip_quantile = Some(0.5);
    refused(quantile, "privacy.clip_quantile");
    let mut target = spec("");
    target.privacy.epsilon = Some(0.01);
    refused(target, "privacy.epsilon");
}

/// A key that changes what is priced is one of the numbers that rounds are taken by, or it is refused before anything is written.
#[test]
fn no_key_of_the_price_is_passed_over() {
    let taken = [
        "privacy.delta",
        "privacy.max_grad_norm",
        "privacy.noise_multiplier",
        "sampling.batch",
        "sampling.records",
        "sampling.steps",
        "sampling.epochs",
    ];
    let hash = |spec: &PlanSpec| Plan::check(spec).map(|plan| plan.hash().to_owned());
    let plain = hash(&spec("")).unwrap();
    let mut refused = 0;
    for key in KEYS.iter().filter(|key| !taken.contains(&key.path)) {
        let folder = tempfile::tempdir().unwrap();
        let mut changed = spec("");
        let set = changed.set(key.path, key.example);
        if set.is_err() || hash(&changed).is_ok_and(|hash| hash == plain) {
            continue;
        }
        let error = FederatedRun::start(&changed, &folder.path().join("run"), model()).unwrap_err();
        assert!(error.hint().is_some() && !folder.path().join("run").exists(), "{}: {error}", key.path);
        refused += 1;
    }
    assert!(refused > 10, "{refused}");
    // A section of which nothing is known here changes nothing yet, and is refused all the same.
    let error =
        FederatedRun::start(&spec("[masked]\npublic_weight = 0.5\n"), Path::new("run"), model()).unwrap_err();
    assert!(error.to_string().starts_with("masked.public_weight: a federated run has"), "{error}");
}

#[test]
fn noise_is_solved_for_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let mut target = spec("");
    (target.privacy.noise_multiplier, target.privacy.epsilon) = (None, Some(2.0));
    let run = FederatedRun::start(&target, folder.path(), model()).unwrap();
    let epsilon = run.certificate().unwrap().planned.epsilon.upper;
    assert!(epsilon <= 2.0 && epsilon > 1.99, "{epsilon}");
}

#[test]
fn a_client_learns_what_can_be_learnt() {
    let model = ModelSpec { name: Some("linear".to_owned()), ..ModelSpec::default() };
    let mut client = LocalTrainer::new(&model, Path::new(""), (&[1, 2, 2], 2), 1).unwrap();
    let (inputs, labels) = ([1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0, 1]);
    let first = client.values();
    let names: usize = client.arrays().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
    assert_eq!(names, first.len());
    client.train(&inputs, &labels, ClientSteps { steps: 40, batch: 2, learning_rate: 1.0 }).unwrap();
    assert_eq!(client.accuracy(&inputs, &labels).unwrap(), 1.0);
    client.set(&first).unwrap();
    assert_eq!(client.values(), first);
    assert!(client.set(&first[1..]).is_err());
    let nothing = ClientSteps { steps: 1, batch: 0, learning_rate: 1.0 };
    assert!(client.train(&inputs, &labels, nothing).is_err());
    assert!(client.train(&inputs[1..], &labels, ClientSteps { batch: 1, ..nothing }).is_err());
}
