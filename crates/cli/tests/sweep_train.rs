//! `dapple sweep-train`: what it trains, writes, reads again and refuses.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{dapple, dapple_with, digits, exact_snapshot, wait_until};
use serde_json::Value;

const PLAN: &str = r#"
[privacy]
delta = 1e-5

[region]
patch = [4, 4]

[pipeline]
crop = [12, 12]

[sampling]
batch = 8
steps = 3

[data]
format = "idx"
train = "../digits"
test = "../digits"

[model]
name = "linear"

[optimiser]
learning_rate = 1.0
"#;

fn prepare(folder: &Path) {
    digits(folder);
    std::fs::create_dir(folder.join("plans")).unwrap();
    std::fs::write(folder.join("plans/plan.toml"), PLAN).unwrap();
}

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
    command.args(arguments.split_whitespace()).current_dir(folder);
    command
}

/// A column of all rows.
fn column<'a>(answer: &'a Value, name: &str) -> Vec<&'a Value> {
    let names = answer["columns"].as_array().unwrap();
    let index = names.iter().position(|column| column == name).unwrap();
    answer["rows"].as_array().unwrap().iter().map(|row| &row[index]).collect()
}

#[test]
fn every_budget_method_and_seed_is_trained_once() {
    let sweep = "sweep-train plans/plan.toml --epsilons 1,4 --methods record,patch,patch-poisson,non-private --out sweep --json -q";
    let run = dapple_with(&format!("{sweep} --seeds 2"), prepare);
    let answer = run.json();
    assert_eq!((answer["measure"].as_str(), run.stderr.as_str()), (Some("accuracy"), ""));
    assert_eq!(answer["seeds"], serde_json::json!([1, 2]));
    let methods = column(&answer, "method");
    assert_eq!(methods.len(), 2 * 3 * 2 + 2);
    for (spent, target) in column(&answer, "epsilon").iter().zip(column(&answer, "epsilon_target")) {
        assert!(target.is_null() || spent.as_f64() <= target.as_f64());
    }
    // The noise is that of the accountant.
    for (method, sampling) in [("patch", "without-replacement"), ("patch-poisson", "poisson")] {
        let flags = "--image 28x28 --crop 12x12 --patch 4x4 --batch 8 --records 70 --steps 3 --delta 1e-5";
        let solved = dapple(&format!(
            "calibrate --for noise-multiplier --relation patch --sampling {sampling} --epsilon 1 {flags} --json"
        ));
        let first = methods.iter().position(|name| *name == method).unwrap();
        assert_eq!(
            column(&answer, "noise_multiplier")[first],
            &solved.json()["noise_multiplier"],
            "{method}"
        );
    }
    let summary = &answer["summary"];
    assert_eq!(column(summary, "runs"), vec![&Value::from(2); 7]);
    let accuracies = column(&answer, "accuracy");
    let mean = (accuracies[0].as_f64().unwrap() + accuracies[1].as_f64().unwrap()) / 2.0;
    assert!((column(summary, "mean")[0].as_f64().unwrap() - mean).abs() < 1e-12);
    for (file, lines) in [("runs.csv", 15), ("summary.csv", 8)] {
        assert_eq!(run.read(&format!("sweep/{file}")).lines().count(), lines, "{file}");
    }
    assert!(run.read("sweep/sweep.svg").contains("patch level, Poisson"));
    let pdf = std::fs::read(run.folder.path().join("sweep/sweep.pdf")).unwrap();
    assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF\n"));
    let page = run.read("sweep/report.html");
    assert!(page.contains("nothing is guaranteed") && page.contains("Seeds of initial weights: 1 to 2"));

    // Finished runs are read again: their ledgers stay as they are, and more seeds only add runs.
    let ledger = || run.read("sweep/patch-epsilon1-1/ledger.jsonl");
    let before = ledger();
    let more = command(run.folder.path(), &format!("{sweep} --seeds 3")).output().unwrap();
    let more: Value = serde_json::from_slice(&more.stdout).unwrap();
    assert_eq!((ledger(), column(&more, "method").len()), (before, 2 * 3 * 3 + 3));
    assert_eq!(column(&more, "accuracy")[..2], accuracies[..2]);

    // For a paper the figure goes without its title, and the axes stay.
    let title = "over the privacy budget";
    assert!(run.read("sweep/sweep.svg").contains(title));
    let bare = command(run.folder.path(), &format!("{sweep} --seeds 2 --bare")).output().unwrap();
    assert!(bare.status.success());
    let figure = run.read("sweep/sweep.svg");
    assert!(!figure.contains(&format!("{title}</text>")) && figure.contains("patch level, Poisson"));

    // Another plan is refused before anything is trained.
    let other = format!("{sweep} --seeds 4 --set optimiser.learning_rate=2");
    let other = command(run.folder.path(), &other).output().unwrap();
    let stderr = String::from_utf8(other.stderr).unwrap();
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr.contains("has another plan") && stderr.contains("another --out"), "{stderr}");
    assert!(!run.folder.path().join("sweep/record-epsilon1-4").exists());
}

#[test]
fn a_method_may_have_settings_of_its_own() {
    let run = dapple_with(
        "sweep-train plans/plan.toml --epsilons 1,4 --methods record,patch --seeds 1 --out sweep -q \
         --set-for record:optimiser.learning_rate=0.5 --set-for patch@4:optimiser.learning_rate=2 --jobs 1",
        prepare,
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rate = |name: &str| {
        let plan = run.read(&format!("sweep/{name}-1/plan.toml"));
        plan.lines().find(|line| line.starts_with("learning_rate")).unwrap().to_owned()
    };
    assert_eq!([rate("record-epsilon1"), rate("record-epsilon4")], ["learning_rate = 0.5"; 2]);
    assert_eq!(rate("patch-epsilon1"), "learning_rate = 1.0");
    assert_eq!(rate("patch-epsilon4"), "learning_rate = 2.0");
    assert!(run.stdout.contains("patch level, without replacement"), "{}", run.stdout);
}

#[test]
fn a_run_that_fails_is_named() {
    // With an enormous learning rate the weights are not finite after the first step.
    let run = dapple_with(
        "sweep-train plans/plan.toml --epsilons 1 --methods record,non-private --seeds 1 --out sweep -q --jobs 1 \
         --set-for non-private:optimiser.learning_rate=1e38",
        prepare,
    );
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.starts_with("error: non-private-1: step "), "{}", run.stderr);
    // Runs that finished before it stay.
    assert!(run.folder.path().join("sweep/record-epsilon1-1/model.safetensors").exists());
}

#[test]
#[cfg(unix)]
fn an_interrupted_sweep_goes_on() {
    let folder = tempfile::TempDir::new().unwrap();
    prepare(folder.path());
    let sweep = "sweep-train plans/plan.toml --epsilons 1 --methods patch,record --seeds 1 --out sweep --steps 3000 --json";
    let mut child =
        command(folder.path(), sweep).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let ledger = folder.path().join("sweep/patch-epsilon1-1/ledger.jsonl");
    let lines = || std::fs::read_to_string(&ledger).map_or(0, |text| text.lines().count());
    wait_until("a step is taken", || lines() >= 4);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(std::fs::read_to_string(&ledger).unwrap().contains("asked to stop"));
    let output = command(folder.path(), sweep).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(column(&answer, "steps"), vec![&Value::from(3000); 2]);
    assert!(std::fs::read_to_string(&ledger).unwrap().contains("resumed"));
}

#[test]
#[cfg(unix)]
fn a_killed_run_is_named_because_it_lost_steps() {
    let folder = tempfile::TempDir::new().unwrap();
    prepare(folder.path());
    let sweep =
        "sweep-train plans/plan.toml --epsilons 1 --methods patch --seeds 1 --out sweep --steps 3000 --json";
    let mut child =
        command(folder.path(), sweep).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let ledger = folder.path().join("sweep/patch-epsilon1-1/ledger.jsonl");
    wait_until("a step is taken", || {
        std::fs::read_to_string(&ledger).is_ok_and(|text| text.lines().count() >= 4)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // The kill may have come right after a checkpoint, with nothing to lose. Without any checkpoint every step is lost.
    for checkpoint in std::fs::read_dir(ledger.with_file_name("checkpoints")).unwrap() {
        std::fs::remove_file(checkpoint.unwrap().path()).unwrap();
    }
    // The run is read again once it is finished, and is named then, too.
    for _ in 0..2 {
        let output = command(folder.path(), sweep).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(column(&answer, "steps_lost")[0].as_u64().unwrap() > 0);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("does not compare with the others"), "{said}");
    }
}

/// Noise on pixels leaves less of a region to be seen, and needs less noise on gradients.
#[test]
fn noisy_pixels_are_trained_and_priced() {
    let sweep = "sweep-train plans/plan.toml --epsilons 1 --methods patch,noisy-pixels --seeds 1 --out sweep --json -q";
    let answer = dapple_with(&format!("{sweep} --set pipeline.pixel_noise=4"), prepare).json();
    let [seen, noise] = ["inclusion_probability", "noise_multiplier"]
        .map(|name| column(&answer, name).iter().map(|value| value.as_f64().unwrap()).collect::<Vec<f64>>());
    // 2 Phi(sqrt(48) / 8) - 1 for 4x4 pixels of three channels, from scipy.stats.norm.cdf, and 2^-30 for each of the 48 values.
    let distance = 0.6135237692287671 + 48.0 / f64::from(1u32 << 30);
    assert!((seen[1] / seen[0] / distance - 1.0).abs() < 1e-9, "{seen:?}");
    assert!(noise[1] < noise[0], "{noise:?}");
}

/// Private parts from public batches of their own have the noise of whole records, if neighbours differ in the same way. Drawn clips bring
/// masks along, which methods of whole records do without.
#[test]
fn private_parts_are_compared_with_whole_records() {
    let plan = |folder: &Path| {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/plans/moving-shapes.toml");
        std::fs::copy(example, folder.join("plan.toml")).unwrap();
    };
    let sweep = "sweep-train plan.toml --epsilons 2 --methods record-poisson,masked,add-remove,masked-remove --seeds 1 \
                 --set train.measure=class-accuracy --set optimiser.warmup=0 --set sampling.batch=8 --set sampling.steps=1 --out sweep --json -q";
    let run = dapple_with(sweep, plan);
    let answer = run.json();
    let noise: Vec<f64> =
        column(&answer, "noise_multiplier").iter().map(|noise| noise.as_f64().unwrap()).collect();
    // Each is solved for to a ten-thousandth.
    let alike = |one: f64, other: f64| (one / other - 1.0).abs() < 2e-4;
    assert!(alike(noise[0], noise[1]) && alike(noise[2], noise[3]) && noise[2] < noise[0], "{noise:?}");
    assert_eq!(column(&answer, "level"), ["record", "tokens", "record", "tokens"]);
    assert!(column(&answer, "class_accuracy").iter().all(|score| score.as_f64().is_some()));
    assert!(run.read("sweep/masked-remove-epsilon2-1/plan.toml").contains("content = \"remove\""));
}

#[test]
fn wrong_requests_are_refused_before_anything_is_trained() {
    let mut report = String::new();
    for arguments in [
        "",
        "plans/plan.toml --epsilons 1",
        "plans/none.toml --epsilons 1 --out sweep",
        "plans/plan.toml --out sweep",
        "plans/plan.toml --out sweep --epsilons 1,-2",
        "plans/plan.toml --out sweep --epsilons 1 --methods tile",
        "plans/plan.toml --out sweep --epsilons 1 --methods noisy-pixels",
        "plans/plan.toml --out sweep --epsilons 1 --seeds 0",
        "plans/plan.toml --out sweep --epsilons 1 --noise-multiplier 1",
        "plans/plan.toml --out sweep --epsilons 1 --set-for patch",
        "plans/plan.toml --out sweep --epsilons 1 --set-for patches:sampling.batch=7",
        "plans/plan.toml --out sweep --epsilons 1 --set-for patch@2:sampling.batch=7",
        "plans/plan.toml --out sweep --epsilons 1 --set-for patch:sampling.bach=7",
        "--set data.format=idx --set data.train=digits --set model.name=linear --out sweep --epsilons 1 --methods record --batch 8 --steps 3",
        "--set data.format=fashion-scenes --set model.name=linear --out sweep --epsilons 1 --batch 8 --steps 3",
    ] {
        let run = dapple_with(&format!("sweep-train {arguments}"), prepare);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}: {}", run.stderr);
        assert_eq!(run.files(), ["digits", "plans"], "{arguments}");
        report.push_str(&format!("$ dapple sweep-train {arguments}\n{}", run.stderr));
    }
    exact_snapshot("sweep_train_wrong", &report);
}
