//! The help of every verb, word by word.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test")]

mod common;

use common::{dapple, dapple_with, exact_snapshot};

#[test]
fn help_of_every_verb() {
    exact_snapshot("help", &dapple("--help").report());
    for verb in [
        "new",
        "prepare",
        "check",
        "account",
        "calibrate",
        "profile",
        "sweep",
        "inclusion",
        "demo",
        "train",
        "sweep-train",
        "choose",
        "budget",
        "resume",
        "eval",
        "predict",
        "export",
        "measure",
        "report",
        "serve",
        "verify",
        "audit",
        "reproduce",
        "data",
        "data get",
        "data list",
        "mask",
        "keys",
        "models",
        "weights",
        "weights list",
        "weights get",
        "completions",
        "man",
    ] {
        let name = format!("help_{}", verb.replace(' ', "-"));
        exact_snapshot(&name, &dapple(&format!("{verb} --help")).report());
    }
}

/// The commands below `Examples:`. Lines that end in a backslash are joined with the next.
fn examples(verb: &str) -> Vec<String> {
    let help = dapple(&format!("{verb} --help")).stdout;
    let shown = help.split_once("Example").unwrap_or_else(|| panic!("{verb} has no example")).1;
    let joined = shown.replace("\\\n", " ");
    joined.lines().filter_map(|line| line.trim().strip_prefix("dapple ")).map(str::to_owned).collect()
}

#[test]
fn examples_run_as_shown() {
    let plan = "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[region]\npatch = [10, 10]\n[pipeline]\nimage = [1000, 1000]\ncrop = [100, 100]\n[sampling]\nbatch = 100\nrecords = 3000\nepochs = 10\n";
    for verb in ["account", "calibrate", "profile", "sweep", "inclusion", "audit", "keys", "models"] {
        for example in examples(verb) {
            let run = dapple_with(&example, |folder| std::fs::write(folder.join("plan.toml"), plan).unwrap());
            assert_eq!(run.code, 0, "{example}: {}", run.stderr);
        }
    }
    // Verbs that train are not carried out: these commands stop because the plan or the run is missing.
    for verb in ["train", "sweep-train", "choose", "budget", "resume", "eval", "predict", "verify"] {
        for example in examples(verb) {
            let run = dapple(&example);
            let missing = ["cannot read the plan plan.toml", "no run", "no budget"]
                .iter()
                .any(|said| run.stderr.contains(said));
            assert!(run.code == 2 && missing, "{example}: {}", run.stderr);
        }
    }
}

#[test]
fn a_plan_is_given_with_and_without_its_flag() {
    let plan = "[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n[sampling]\nbatch = 100\nrecords = 3000\nepochs = 1\n";
    let priced = |arguments: &str| {
        let run = dapple_with(arguments, |folder| std::fs::write(folder.join("plan.toml"), plan).unwrap());
        (run.code, run.stdout)
    };
    assert_eq!(priced("account plan.toml"), priced("account --plan plan.toml"));
    assert_eq!(priced("account plan.toml").0, 0);
    assert_eq!(priced("account plan.toml --plan plan.toml").0, 2);
}

/// Shells complete the settings of `--set`: every key, and its words where it has some.
#[test]
fn every_key_is_completed() {
    let listed: serde_json::Value = serde_json::from_str(&dapple("keys --json").stdout).unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = dapple(&format!("completions {shell}")).stdout;
        for key in listed["keys"].as_array().unwrap() {
            let path = key["key"].as_str().unwrap();
            assert!(script.contains(&format!("{path}=")), "{shell} does not complete {path}");
            for word in key["choices"].as_array().unwrap() {
                let setting = format!("{path}={}", word.as_str().unwrap());
                assert!(script.contains(&setting), "{shell} does not complete {setting}");
            }
        }
    }
}

/// Shells complete models, formats, figures, data sets and weights wherever a verb takes one.
#[test]
fn every_name_is_completed() {
    let choices = |key: &str| dapple_plan::spec::keys::find(key).unwrap().choices.iter().copied();
    let figures = dapple("reproduce --list --json").json();
    let figures: Vec<&str> =
        figures.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let weights = dapple("weights list --json").json();
    let weights: Vec<&str> =
        weights["weights"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let models: Vec<&str> = choices("model.name").collect();
    let axes = |name: &str| format!("{name}=");
    let axes: Vec<String> = ["crop", "noise-multiplier", "optimiser.learning_rate"].map(axes).to_vec();
    let axes: Vec<&str> = axes.iter().map(String::as_str).collect();
    let settings: Vec<String> =
        choices("data.format").map(|format| format!("data.format={format}")).collect();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    // What bash offers after these words.
    let script = dapple("completions bash").stdout;
    let offered = |case: &str, flag: Option<&str>| -> Vec<String> {
        let own = script.split(&format!("\n        {case})\n")).nth(1).unwrap();
        let own = own.split("\n            ;;\n        dapple__").next().unwrap();
        let words = match flag {
            None => own.split("opts=\"").nth(1).unwrap().split('"').next().unwrap(),
            Some(flag) => {
                let after = own.split(&format!("                {flag})\n")).nth(1).unwrap();
                after.split("compgen -W \"").nth(1).unwrap().split('"').next().unwrap()
            }
        };
        words.split_whitespace().map(str::to_owned).collect()
    };
    for (case, flag, names) in [
        ("dapple__subcmd__export", None, &models),
        ("dapple__subcmd__export", Some("--set"), &vec!["model.norm=frozen"]),
        ("dapple__subcmd__measure", Some("--model"), &models),
        ("dapple__subcmd__new", Some("--model"), &models),
        ("dapple__subcmd__reproduce", None, &figures),
        ("dapple__subcmd__sweep", Some("--over"), &axes),
        ("dapple__subcmd__choose", Some("--over"), &axes),
        ("dapple__subcmd__train", Some("--set"), &settings),
        ("dapple__subcmd__weights__subcmd__get", None, &weights),
        ("dapple__subcmd__data__subcmd__get", None, &vec!["cifar-10"]),
        ("dapple__subcmd__keys", None, &vec!["privacy", "model"]),
    ] {
        let found = offered(case, flag);
        for name in names {
            assert!(
                found.iter().any(|word| word == name),
                "{case} {flag:?} does not offer {name}: {found:?}"
            );
        }
    }
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = dapple(&format!("completions {shell}"));
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("noise-multiplier") && run.stderr.is_empty());
    }
    let run = dapple("man pages --quiet");
    assert_eq!((run.code, run.stderr.as_str(), run.files()), (0, "", vec!["pages".to_owned()]));
    let page = run.read("pages/dapple-account.1");
    assert!(page.contains("noise\\-multiplier"), "{page}");
    assert!(run.read("pages/dapple.1").contains("account"));
}
