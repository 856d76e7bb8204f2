//! `account` and `calibrate`: text, JSON, statement, and the spellings of the flags.

mod common;

use std::fs;

use common::{FIGURE_2A, dapple, dapple_with, snapshot};

#[test]
fn text_json_statement_and_explanation() {
    snapshot("account_text", &dapple(&format!("account {FIGURE_2A}")).report());
    snapshot("account_json", &dapple(&format!("account {FIGURE_2A} --json")).report());
    snapshot("account_statement", &dapple(&format!("account {FIGURE_2A} --statement")).report());
    snapshot("account_explain", &dapple(&format!("account {FIGURE_2A} --explain")).report());
    let baselines = "--explain --pixel-noise 1000 --regions 3";
    snapshot("account_baselines", &dapple(&format!("account {FIGURE_2A} {baselines}")).report());
    let record = "account --batch 100 --records 3000 --steps 10 --noise-multiplier 1 --delta 1e-5 --explain --pixel-noise 9";
    snapshot("account_baselines_wrong", &dapple(record).report());
    snapshot(
        "account_without_replacement",
        &dapple(&format!("account {FIGURE_2A} --sampling without-replacement --json --explain")).report(),
    );
    snapshot(
        "account_rdp",
        &dapple(&format!("account {FIGURE_2A} --relation add-remove --accountant rdp")).report(),
    );
}

const RECORDS: &str = "--batch 20 --records 1000 --steps 30 --noise-multiplier 1 --delta 1e-5";

#[test]
fn tokens_and_users() {
    let account = |flags: &str| dapple(&format!("account {RECORDS} {flags}")).report();
    snapshot("account_masked", &account("--relation masked --explain"));
    snapshot("account_coupled", &account("--relation masked --public-gradient coupled --explain"));
    let clipped = "--relation masked --public-gradient coupled-clipped --public-clip 0.5";
    snapshot("account_clipped", &account(&format!("{clipped} --json")));
    let mixed = "--views 2 --self-mix 18 --synthetic 2 --records-per-clip 2 --json";
    snapshot("account_mix", &account(mixed));
    snapshot("account_user", &account("--relation user --statement"));
    snapshot("account_user_explain", &account("--relation user --explain"));
}

#[test]
fn balanced_sampling_and_submodels() {
    let account = |flags: &str| {
        let base = "--records 6000 --noise-multiplier 1 --delta 1e-5";
        dapple(&format!("account {base} {flags}")).report()
    };
    let balanced = "--sampling balanced --per-record 10 --steps 1000";
    snapshot("account_balanced", &account(&format!("{balanced} --explain")));
    snapshot("account_balanced_json", &account(&format!("{balanced} --json")));
    let users = "--sampling balanced --epochs 2 --batch 100 --relation user --submodels 4";
    snapshot("account_balanced_users", &account(&format!("{users} --statement")));
    snapshot("account_balanced_rdp", &account(&format!("{balanced} --accountant rdp")));
    let patch = "--image 1000x1000 --crop 100 --patch 10";
    snapshot("account_balanced_patch", &account(&format!("{balanced} {patch} --explain")));
    let split = "--batch 600 --steps 50 --submodels 3 --split-fraction 0.8";
    snapshot("account_split", &account(&format!("{split} --explain")));
    snapshot("account_split_json", &account(&format!("{split} --json")));
    snapshot("account_split_replace", &account(&format!("{split} --relation replace")));
    let dropout = "--batch 600 --steps 50 --dropout 0.5 --split-norm 1 --nonsplit-norm 0.25";
    snapshot("account_dropout", &account(&format!("{dropout} --statement")));
    snapshot("account_dropout_explain", &account(&format!("{dropout} --explain")));
    snapshot("account_split_rdp", &account(&format!("{split} --accountant rdp")));
}

/// Small crops with little noise at first, then larger ones.
const PHASES: &str = "
[[phases]]
epochs = 50
crop = 50

[[phases]]
epochs = 40
noise_multiplier = 2.0

[[phases]]
steps = 100
noise_multiplier = 2.0
views = 2
batch = 200
";

#[test]
fn schedules() {
    let with_phases = |arguments: &str| {
        dapple_with(&format!("{arguments} --plan plan.toml"), |folder| {
            fs::write(folder.join("plan.toml"), format!("{PLAN}{PHASES}")).unwrap();
        })
    };
    for (name, arguments) in [
        ("schedule_text", "account --explain"),
        ("schedule_statement", "account --statement"),
        ("schedule_calibrate", "calibrate --for steps --epsilon 1"),
    ] {
        snapshot(name, &with_phases(arguments).report());
    }
    let json = with_phases("account --json").json();
    assert_eq!(json["phases"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["steps"], 50 * 30 + 40 * 30 + 100);
    // Flags hold for every phase that does not say otherwise.
    let more = with_phases("account --json --noise-multiplier 1.5").json();
    assert_eq!(more["phases"][0]["noise_multiplier"], 1.5);
    assert_eq!(more["phases"][1]["noise_multiplier"], 2.0);
}

#[test]
fn json_has_the_promised_fields_in_order() {
    let run = dapple(&format!("account {FIGURE_2A} --json"));
    let names: Vec<&str> = run
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("  \"").and_then(|line| line.split('"').next()))
        .collect();
    let promised = [
        "epsilon",
        "delta",
        "relation",
        "sampling",
        "sample_rate",
        "inclusion_probability",
        "effective_rate",
        "steps",
        "noise_multiplier",
        "sensitivity",
        "accountant",
        "assumptions",
        "plan_hash",
    ];
    assert_eq!(names[..promised.len()], promised);
    let json = run.json();
    assert!(json["epsilon"]["lower"].as_f64() <= json["epsilon"]["upper"].as_f64());
    assert_eq!(json["steps"], 3000);
    // The canonical form of a plan may only change on purpose, because run folders keep its hash.
    assert_eq!(json["plan_hash"], "3156600815741814d9ed4fcc902925d2237ed08a780a36b0f4c37509a9cb7043");
}

const PLAN: &str = r#"
[privacy]
delta = 1e-5
noise_multiplier = 1.0

[region]
patch = [10, 10]

[pipeline]
image = [1000, 1000]
crop = [100, 100]

[sampling]
batch = 100
records = 3000
epochs = 100

[performance]
threads = 1
"#;

/// Several spellings of one plan give one certificate.
#[test]
fn files_flags_and_settings_agree() {
    let expected = dapple(&format!("account {FIGURE_2A} --json")).stdout;
    let spellings = [
        "--plan plan.toml",
        "--plan plan.toml --relation patch --sampling poisson --views 1 --accountant pld --placement anywhere",
        "--plan plan.toml --set sampling.batch=100 --set privacy.delta=0.00001",
        "--plan plan.toml --steps 3000",
        "--plan plan.toml --crop 100 --patch 10 --pad 0 --pad-mode zero",
        "--plan plan.toml --set performance.microbatch=8 --quiet",
        "--plan plan.toml --circle 3 --set region.patch=10x10",
        "--plan plan.toml --noise-multiplier 2 --noise-multiplier 1e0",
    ];
    for flags in spellings {
        let run = dapple_with(&format!("account {flags} --json"), |folder| {
            fs::write(folder.join("plan.toml"), PLAN).unwrap();
        });
        assert_eq!(run.stdout, expected, "{flags}: {}", run.stderr);
    }
    // Delta may be one over the number of records, and relations at record level are answered too.
    let run = dapple(&format!("account {FIGURE_2A} --delta 1/n --relation replace --json"));
    assert_eq!(run.json()["delta"].as_f64(), Some(1.0 / 3000.0));
    assert_eq!(run.json()["relation"], "replace");
    let run = dapple("account --batch 10 --records 100 --steps 5 --noise-multiplier 2 --delta 1e-5 --json");
    assert_eq!(run.json()["relation"], "add-remove");
    let run = dapple(&format!("account {FIGURE_2A} --markdown"));
    assert!(run.stdout.starts_with("# Privacy statement"));
    let run = dapple(&format!(
        "account {} --crop-scale 0.08:1 --crop-ratio 0.75:1.3333 --pad 4x2 --pad-mode reflect --json",
        FIGURE_2A.replace("--crop 100x100", "")
    ));
    assert!(run.json()["inclusion_probability"].as_f64() < Some(1.0));
}

#[test]
fn every_unknown_is_solved_on_the_safe_side() {
    for unknown in ["noise-multiplier", "epochs", "steps", "batch", "crop", "patch"] {
        let run = dapple(&format!("calibrate --for {unknown} --epsilon 0.5 {FIGURE_2A} --json"));
        let json = run.json();
        assert!(json["epsilon"]["upper"].as_f64() <= Some(0.5), "{unknown}");
        assert_eq!(json["solved"]["name"], unknown);
        assert!(json["solved"]["value"].as_f64() > Some(0.0));
    }
    snapshot(
        "calibrate_text",
        &dapple(&format!("calibrate --for noise-multiplier --epsilon 0.5 {FIGURE_2A}")).report(),
    );
    snapshot(
        "calibrate_json",
        &dapple(&format!("calibrate --for crop --epsilon 0.5 {FIGURE_2A} --json")).report(),
    );
}
