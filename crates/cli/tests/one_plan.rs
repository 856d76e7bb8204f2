//! One plan for every verb: whatever `train` takes, all verbs about plans take.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{DIGITS_PLAN, Run, dapple, dapple_with, digits, rows};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans");
    let mut plans: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    plans.sort();
    assert!(plans.len() >= 13, "{plans:?}");
    plans
}

/// The data of most plans is not here, so this also holds that a plan which says how many records there are needs none.
#[test]
fn every_example_is_priced_by_every_verb() {
    for plan in examples() {
        let name = plan.display().to_string();
        let private = !fs::read_to_string(&plan).unwrap().contains("private = false");
        let account = dapple(&format!("account {name} --json")).json();
        if !private {
            assert!(account["epsilon"].is_null() && account["private"] == false, "{name}");
            for verb in ["profile", "sweep --over batch=8", "calibrate --for noise-multiplier --epsilon 1"] {
                let (verb, rest) = verb.split_once(' ').unwrap_or((verb, ""));
                let run = dapple(&format!("{verb} {name} {rest}"));
                assert!(run.code == 2 && run.stderr.contains("without privacy"), "{name}: {}", run.stderr);
            }
            assert_eq!(dapple(&format!("inclusion {name} --json")).json()["probability"], 1.0);
            continue;
        }
        let upper = |answer: &serde_json::Value| answer["epsilon"]["upper"].as_f64().unwrap();
        let noise = |answer: &serde_json::Value| answer["solved"]["value"].as_f64().unwrap();
        let calibrated = dapple(&format!("calibrate {name} --for noise-multiplier --json")).json();
        assert_eq!(noise(&calibrated), noise(&account), "{name}");
        // What was solved for reaches the target closely from below.
        let target: f64 = {
            let text = fs::read_to_string(&plan).unwrap();
            let line = text.lines().find(|line| line.starts_with("epsilon")).unwrap();
            line.split('=').nth(1).unwrap().trim().parse().unwrap()
        };
        assert!(upper(&account) <= target && upper(&account) > 0.99 * target, "{name}: {account}");
        let points = dapple(&format!("profile {name} --epsilons {target},{} --json", 2.0 * target)).json();
        let delta = points["points"][0]["delta"].as_f64().unwrap();
        let given = account["delta"].as_f64().unwrap();
        assert!((0.95 * given..=1.01 * given).contains(&delta), "{name}: {delta} at {given}");
        let swept = dapple(&format!("sweep {name} --over epsilon={target} --json")).json();
        let row = &rows(&swept)[0];
        assert_eq!(row["target_epsilon"], target, "{name}");
        assert_eq!(row["epsilon"], account["epsilon"]["upper"], "{name}");
        assert_eq!(row["noise-multiplier"].as_f64().unwrap(), noise(&account), "{name}");
        let inclusion = dapple(&format!("inclusion {name} --json")).json();
        assert_eq!(inclusion["probability"], account["inclusion_probability"], "{name}");
        let audit =
            dapple(&format!("audit {name} --steps 2 --canaries 5 --quiet --json --device cpu")).json();
        assert!(audit["epsilon_certified"].as_f64().unwrap() <= target, "{name}");
    }
}

#[test]
fn what_a_plan_leaves_to_its_data_is_read_or_asked_for() {
    let plan = DIGITS_PLAN.replace("noise_multiplier = 4.0", "epsilon = 3.0");
    let prepare = |folder: &Path| {
        digits(folder);
        fs::write(folder.join("plan.toml"), &plan).unwrap();
    };
    let read = dapple_with("account plan.toml --json", prepare).json();
    assert_eq!(read["solved"]["name"], "noise-multiplier");
    let asked = |arguments: &str| {
        dapple_with(arguments, |folder| fs::write(folder.join("plan.toml"), &plan).unwrap())
    };
    let absent = asked("account plan.toml");
    assert_eq!(absent.code, 2);
    assert!(
        absent.stderr.contains("leaves sampling.records to its data, which is not here"),
        "{}",
        absent.stderr
    );
    assert!(absent.stderr.contains("hint: give --records N"), "{}", absent.stderr);
    let given = asked("account plan.toml --records 70 --image 28x28 --json").json();
    assert_eq!(given["epsilon"], read["epsilon"]);
    assert_eq!(given["plan_hash"], read["plan_hash"]);
}

#[test]
fn a_run_folder_is_a_plan() {
    let trained: Run = dapple_with("train plan.toml --out run --epsilon 3 --quiet", |folder| {
        digits(folder);
        fs::write(folder.join("plan.toml"), DIGITS_PLAN.replace("noise_multiplier = 4.0\n", "")).unwrap();
    });
    assert_eq!(trained.code, 0, "{}", trained.stderr);
    let certificate: serde_json::Value = serde_json::from_str(&trained.read("run/certificate.json")).unwrap();
    let run = trained.folder.path().join("run").display().to_string();
    let account = dapple(&format!("account {run} --json")).json();
    assert_eq!(account["plan_hash"], certificate["spent"]["plan_hash"]);
    assert_eq!(account["epsilon"]["upper"], certificate["spent"]["epsilon"]["upper"]);
    for verb in
        ["profile --epsilons 1", "calibrate --for steps", "sweep --over steps=3,4", "inclusion", "audit"]
    {
        let (verb, rest) = verb.split_once(' ').unwrap_or((verb, ""));
        let done = dapple(&format!("{verb} {run} {rest} --quiet"));
        assert_eq!(done.code, 0, "{verb}: {}", done.stderr);
    }
    let empty = dapple("account .");
    assert!(empty.code == 2 && empty.stderr.contains("hint:"), "{}", empty.stderr);
}

#[test]
fn paths_after_set_start_where_they_are_typed() {
    let run = dapple_with("account plans/plan.toml --set data.train=digits --json", |folder| {
        digits(folder);
        fs::create_dir(folder.join("plans")).unwrap();
        fs::write(folder.join("plans/plan.toml"), DIGITS_PLAN.replace("train = \"digits\"\n", "")).unwrap();
    });
    assert_eq!(run.json()["sample_rate"].as_f64(), Some(8.0 / 70.0));
}
