//! `dapple budget`, and the flags that count runs in a budget.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{DIGITS_PLAN, dapple_with, digits, snapshot, wait_until};
use serde_json::Value;

fn prepare(folder: &Path) {
    digits(folder);
    std::fs::write(folder.join("plan.toml"), DIGITS_PLAN).unwrap();
}

/// Exit code, stdout and stderr of `dapple` in a folder.
fn dapple(folder: &Path, arguments: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dapple"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(folder: &Path, arguments: &str) -> Value {
    let (code, stdout, stderr) = dapple(folder, arguments);
    assert_eq!(code, 0, "{arguments}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn runs_are_counted_until_the_total_is_reached() {
    let first = dapple_with(
        "train plan.toml --out a --budget digits.budget --epsilon-total 1.5 --device cpu --json",
        prepare,
    );
    let own = first.json()["spent"]["epsilon"]["upper"].as_f64().unwrap();
    let folder = first.folder.path();
    let total = format!("budget digits.budget --epsilon-total {} --json", 1.2 * own);
    assert_eq!(json(folder, &total)["epsilon"]["upper"], own);
    let again = "train plan.toml --out b --budget digits.budget --device cpu";
    let (code, _, stderr) = dapple(folder, again);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("above the total of") && stderr.contains("hint: lower"), "{stderr}");
    assert!(!folder.join("b").exists());
    // A total cannot be raised in passing by a run, but only by `dapple budget`.
    assert_eq!(dapple(folder, &format!("{again} --epsilon-total 9")).0, 2);
    json(folder, "budget digits.budget --epsilon-total 9 --json");
    assert_eq!(dapple(folder, again).0, 0);
    // The budget is found from the run and from the name of the data too.
    for path in ["digits.budget", "a", "digits"] {
        let answer = json(folder, &format!("budget {path} --json"));
        assert_eq!((answer["entries"].as_array().unwrap().len(), &answer["epsilon_total"]), (2, &9.0.into()));
        let both = answer["epsilon"]["upper"].as_f64().unwrap();
        assert!(both > own && both < 2.0 * own);
        assert_eq!(answer["composition"], "distributions");
    }
}

/// The page of a run shows what all runs in its budget cost.
#[test]
fn the_page_of_a_run_has_a_bar_for_its_budget() {
    let run = dapple_with("train plan.toml --out a --device cpu -q", prepare);
    let folder = run.folder.path();
    let page = |name: &str| std::fs::read_to_string(folder.join(name).join("report.html")).unwrap();
    assert!(!page("a").contains("in the budget"), "a run without a budget has no such bar");
    for name in ["b", "c"] {
        let arguments = format!("train plan.toml --out {name} --device cpu -q --budget some.budget");
        assert_eq!(dapple(folder, &format!("{arguments} --epsilon-total 9")).0, 0);
    }
    let together = json(folder, "budget some.budget --json")["epsilon"]["upper"].as_f64().unwrap();
    let words = format!("at most {} taken of 9", dapple_plan::number::up(together, 4));
    assert!(page("c").contains(&words) && page("c").contains("counted 2 runs"), "{words}");
    // The page of the first run was written before the second began, and is brought up to date.
    assert!(page("b").contains("counted this run alone"));
    assert_eq!(dapple(folder, "report b -q").0, 0);
    assert!(page("b").contains(&words));
    // A budget that is not at hand takes the bar along, and nothing else.
    std::fs::rename(folder.join("some.budget"), folder.join("elsewhere")).unwrap();
    assert_eq!(dapple(folder, "report b -q").0, 0);
    assert!(!page("b").contains("in the budget") && page("b").contains("spent of"));
}

#[test]
fn what_a_budget_tells() {
    let run = dapple_with("train plan.toml --out a --budget some.budget --device cpu -q", prepare);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let folder = run.folder.path();
    let (code, stdout, stderr) = dapple(folder, "budget some.budget");
    assert_eq!(code, 0, "{stderr}");
    let entry = stdout.lines().last().unwrap().split(' ').next().unwrap().to_owned();
    let stdout = stdout.replace(&folder.display().to_string(), "FOLDER").replace(&entry, "ENTRY");
    snapshot("budget_text", &format!("{stdout}--- stderr\n{stderr}"));
}

#[test]
fn wrong_requests_are_refused() {
    let run = dapple_with("train plan.toml --out a --budget some.budget --device cpu -q", prepare);
    let folder = run.folder.path();
    let mut told = String::new();
    for arguments in [
        "budget nothing.budget",
        "budget plan.toml",
        "budget /dev/zero",
        "train plan.toml --out b --budget /dev/zero",
        "budget a --epsilon-total 0",
        "budget some.budget --add a",
        "train plan.toml --out b --epsilon-total 1",
        "train plan.toml --out b --budget some.budget --epsilon-total -1",
        "train plan.toml --out b --budget some.budget --no-dp",
        "train plan.toml --out b --budget some.budget --sampling without-replacement --relation replace",
        "train plan.toml --out b --budget some.budget --set data.validation=0.5",
        "sweep-train plan.toml --out b --budget some.budget --methods non-private --epsilons 1 --set data.test=digits",
    ] {
        let (code, _, stderr) = dapple(folder, &format!("{arguments} -q"));
        told.push_str(&format!("$ dapple {arguments}\nexit {code}\n{stderr}\n"));
        assert!(!folder.join("b/ledger.jsonl").exists(), "{arguments}");
    }
    snapshot("budget_wrong", &told.replace(&folder.display().to_string(), "FOLDER"));
}

#[test]
fn sweeps_are_counted_run_by_run_in_a_folder_of_budgets() {
    let sweep = "sweep-train plan.toml --out sweep --budget budgets --methods add-remove,record-poisson --epsilons 1 \
                 --seeds 1 --set data.test=digits --device cpu -q";
    let run = dapple_with(&sweep.replace("  ", " "), |folder| {
        prepare(folder);
        std::fs::create_dir(folder.join("budgets")).unwrap();
        let plan = DIGITS_PLAN.replace("noise_multiplier = 4.0\n", "");
        std::fs::write(folder.join("plan.toml"), plan).unwrap();
    });
    assert_eq!(run.code, 0, "{}", run.stderr);
    let answer = json(run.folder.path(), "budget budgets --json");
    let budget = &answer["budgets"][0];
    assert_eq!((budget["entries"].as_array().unwrap().len(), &budget["relation"]), (2, &"add-remove".into()));
    // Each run has epsilon 1 under its own relation. Under the budget's relation, the run that was priced for substitution is cheaper.
    let alone = |entry: usize| budget["entries"][entry]["epsilon"].as_f64().unwrap();
    assert!(alone(0) > 0.99 && alone(0) <= 1.0 && alone(1) < 0.9);
    // Finished runs that are read again are not counted twice.
    assert_eq!(dapple(run.folder.path(), sweep).0, 0);
    assert_eq!(json(run.folder.path(), "budget budgets --json"), answer);
}

#[test]
fn a_killed_run_stays_counted_as_a_whole_and_goes_on_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let train = "train plan.toml --out a --budget some.budget --device cpu -q --set sampling.steps=20000";
    let mut child = Command::new(env!("CARGO_BIN_EXE_dapple"))
        .args(train.split_whitespace())
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ledger = folder.path().join("a/ledger.jsonl");
    let promised = || std::fs::read_to_string(&ledger).is_ok_and(|text| text.contains("promise"));
    wait_until("a promise in the ledger", promised);
    child.kill().unwrap();
    child.wait().unwrap();
    let counted = |path: &str| json(folder.path(), &format!("budget {path} --json"));
    let killed = counted("some.budget");
    assert_eq!(
        (&killed["entries"][0]["status"], &killed["entries"][0]["steps"]),
        (&"reserved".into(), &20000.into())
    );
    assert_eq!(dapple(folder.path(), "resume a -q --device cpu").0, 0);
    let done = counted("a");
    assert_eq!((&done["epsilon"], done["entries"].as_array().unwrap().len()), (&killed["epsilon"], 1));
}
