//! `dapple choose`: what it prices, releases and keeps to itself.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{DIGITS_PLAN, dapple_with, digits, snapshot};

const CHOOSE: &str =
    "choose plan.toml --over optimiser.learning_rate=0.1,1 --repetitions 3 --out best --device cpu";

fn prepare(folder: &Path) {
    digits(folder);
    let data = "train = \"digits\"\n";
    let plan = DIGITS_PLAN.replace(data, &format!("{data}test = \"digits\"\n"));
    std::fs::write(folder.join("plan.toml"), plan).unwrap();
}

#[test]
fn the_best_run_is_released_and_nothing_of_the_others() {
    let run = dapple_with(&format!("{CHOOSE} --budget some.budget --json"), prepare);
    let answer = run.json();
    let folder = run.folder.path();
    let mut names: Vec<String> = std::fs::read_dir(folder.join("best"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["certificate.json", "model.json", "model.safetensors", "plan.toml", "private"]);
    let rate = answer["chosen"]["values"][0][1].as_str().unwrap();
    assert!(
        run.read("best/plan.toml")
            .contains(&format!("learning_rate = {}", if rate == "1" { "1.0" } else { rate }))
    );
    // The certificate says what was chosen and what it costs, but not how many repetitions there were.
    let certificate: serde_json::Value = serde_json::from_str(&run.read("best/certificate.json")).unwrap();
    assert_eq!((&certificate["chosen"], &certificate["epsilon"]), (&answer["chosen"], &answer["epsilon"]));
    assert!(answer["epsilon"].as_f64().unwrap() > answer["epsilon_of_one"].as_f64().unwrap());
    // No score in the private folder is larger than the one that was released.
    let kept: serde_json::Value = serde_json::from_str(&run.read("best/private/choice.json")).unwrap();
    let scores: Vec<f64> =
        kept["done"].as_array().unwrap().iter().map(|done| done["score"].as_f64().unwrap()).collect();
    assert_eq!(scores.len(), kept["drawn"].as_array().unwrap().len());
    assert_eq!(scores.iter().copied().fold(0.0, f64::max), answer["chosen"]["score"].as_f64().unwrap());
    // The budget counts the choice once, also if the same command is given again.
    for _ in 0..2 {
        let again = Command::new(env!("CARGO_BIN_EXE_dapple"))
            .args(format!("{CHOOSE} --budget some.budget --json").split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&again.stdout).unwrap(), answer);
        let budget = Command::new(env!("CARGO_BIN_EXE_dapple"))
            .args(["budget", "best", "--json"])
            .current_dir(folder)
            .output()
            .unwrap();
        let budget: serde_json::Value = serde_json::from_slice(&budget.stdout).unwrap();
        assert_eq!(budget["entries"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&budget["entries"][0]["kind"], &budget["epsilon"]["upper"]),
            (&"choice".into(), &answer["epsilon"])
        );
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(folder.join("best/private")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

#[test]
fn the_price_is_told_before_anything_is_trained() {
    let price = "choose plan.toml --over optimiser.learning_rate=0.1,1 --price";
    snapshot("choose_price", &dapple_with(price, prepare).report());
    // More repetitions cost more, and so does a law under which a single repetition is less likely.
    let epsilon = |more: &str| {
        dapple_with(&format!("{price} --json {more}"), prepare).json()["epsilon"].as_f64().unwrap()
    };
    assert!(epsilon("--repetitions 2") < epsilon("--repetitions 50"));
    assert!(epsilon("") < epsilon("--law geometric"));
    assert!(epsilon("--noise-multiplier 8") < epsilon(""));
}

#[test]
fn what_would_make_the_price_untrue_is_refused() {
    let over = "--over optimiser.learning_rate=0.1,1";
    let mut told = String::new();
    for arguments in [
        format!("choose plan.toml {over}"),
        "choose plan.toml --out best".to_owned(),
        format!("choose plan.toml --out best {over} --repetitions 0.5"),
        format!("choose plan.toml --out best {over} --set data.validation=0.5"),
        format!("choose plan.toml --out best {over} --set train.seed=1"),
        format!("choose plan.toml --out best {over} --set train.private=false"),
        "choose plan.toml --out best --over data.validation=0.1,0.2".to_owned(),
        format!("choose plan.toml --out digits {over}"),
        format!("choose plan.toml --out best {over} --budget some.budget --epsilon-total 0.01"),
    ] {
        let run = dapple_with(&arguments, prepare);
        let said = run.stderr.replace(&run.folder.path().display().to_string(), "FOLDER");
        told.push_str(&format!("$ dapple {arguments}\nexit {}\n{said}\n", run.code));
        assert!(!run.folder.path().join("best").exists(), "{arguments}");
        assert!(!run.folder.path().join("some.budget").exists(), "{arguments}");
    }
    snapshot("choose_wrong", &told);
}

#[test]
fn a_folder_holds_one_choice() {
    let first = dapple_with(CHOOSE, prepare);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let other = Command::new(env!("CARGO_BIN_EXE_dapple"))
        .args(CHOOSE.replace("0.1,1", "0.1,2").split_whitespace())
        .current_dir(first.folder.path())
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8(other.stderr).unwrap().contains("among other plans"));
}
