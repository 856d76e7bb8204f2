//! Training from the command line: what it prints and leaves behind, across interrupts.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{dapple_with, exact_snapshot, npy, wait_until};

const PLAN: &str = r#"
[privacy]
delta = 1e-5
noise_multiplier = 1.0

[region]
patch = [2, 2]

[pipeline]
image = [20, 20]
crop = [16, 16]

[sampling]
batch = 16
steps = 12

[data]
format = "npy"
train = "images.npy"
train_labels = "labels.npy"
validation = 0.2

[model]
name = "small-cnn"

[optimiser]
learning_rate = 0.1

[train]
evaluate_every = 6
"#;

const RECORDS: usize = 100;

/// Writes dark images of one class and bright ones of the other.
fn prepare(folder: &Path) {
    let pixels: Vec<u8> = (0..RECORDS * 400)
        .map(|i| (40 + 150 * (i / 400 % 2) + i.wrapping_mul(2_654_435_761) % 32) as u8)
        .collect();
    let labels: Vec<u8> = (0..RECORDS).map(|i| (i % 2) as u8).collect();
    std::fs::write(folder.join("images.npy"), npy("|u1", &format!("{RECORDS}, 20, 20"), &pixels)).unwrap();
    std::fs::write(folder.join("labels.npy"), npy("|u1", &format!("{RECORDS},"), &labels)).unwrap();
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
}

#[test]
fn a_run_leaves_model_certificate_and_page() {
    let run = dapple_with("train plan.toml --out run --json", prepare);
    let answer = run.json();
    assert_eq!((&answer["status"], &answer["steps_spent"]), (&"finished".into(), &12.into()));
    assert_eq!(answer["spent"]["relation"], "patch");
    let tested = answer["evaluation"]["records"].as_u64().unwrap();
    assert!((1..100).contains(&tested));
    // Prices the same plan without training.
    let priced = format!("account --plan plan.toml --records {} --json", 100 - tested);
    let priced = dapple_with(&priced, prepare).json();
    assert_eq!(answer["spent"]["epsilon"], priced["epsilon"]);
    for file in ["plan.toml", "ledger.jsonl", "metrics.jsonl", "certificate.json", "model.safetensors"] {
        assert!(run.folder.path().join("run").join(file).is_file(), "{file}");
    }
    let page = run.read("run/report.html");
    assert!(page.contains("epsilon spent, at most") && page.contains("Accuracy on the test set"));
    // What must stay private is not on the page.
    assert!(run.read("run/private/diagnostics.jsonl").contains("loss") && !page.contains("diagnostics"));
}

#[test]
fn evaluation_and_page_can_be_had_again() {
    let run = dapple_with("train plan.toml --out run --quiet", prepare);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let again = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_dapple"))
            .args(arguments.split_whitespace())
            .current_dir(run.folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let evaluation: serde_json::Value = serde_json::from_str(&again("eval run --grid 2 --json")).unwrap();
    assert_eq!(evaluation["confusion"].as_array().unwrap().len(), 2);
    assert!(again("eval run").contains("accuracy"));
    again("report run --html page.html");
    assert_eq!(run.read("page.html").matches("<h1").count(), 1);
    // A finished run is left as it is.
    assert!(again("resume run").contains("epsilon spent"));
}

#[test]
fn an_adapted_clip_norm_is_counted_and_told() {
    let flags = "--set privacy.clip_quantile=0.5 --set privacy.max_grad_norm=0.1";
    let run = dapple_with(&format!("train plan.toml --out run {flags}"), prepare);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let words = "adapted (quantile 0.5, count noise 1), counted";
    assert!(run.read("run/report.html").contains(&format!("0.1, then {words}")));
    assert!(run.read("run/ledger.jsonl").contains("\"clip_norm\":0.1"));
    assert!(run.read("run/metrics.jsonl").contains("\"clip_norm\":"));
    let certificate: serde_json::Value = serde_json::from_str(&run.read("run/certificate.json")).unwrap();
    assert_eq!(certificate["planned"]["adaptive_clip"]["quantile"], 0.5);
    // The price is that of the noise multiplier, and is told with what it covers.
    let priced = |more: &str| dapple_with(&format!("account plan.toml --records 100 {more}"), prepare).stdout;
    let (adapted, fixed) = (priced(flags), priced(""));
    assert!(adapted.contains(words) && !fixed.contains("clip norm"), "{adapted}");
    assert_eq!(adapted.lines().next(), fixed.lines().next());
    let refused =
        dapple_with(&format!("train plan.toml --out run {flags} --set train.clipping=per-layer"), prepare);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("train.clipping") && refused.stderr.contains("hint"),
        "{}",
        refused.stderr
    );
}

#[test]
fn without_privacy_it_says_so() {
    let run = dapple_with("train plan.toml --no-dp --out run", prepare);
    assert!(run.stdout.contains("nothing is guaranteed"), "{}", run.stdout);
    assert!(run.read("run/report.html").contains("nothing is guaranteed"));
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_goes_on() {
    let folder = tempfile::TempDir::new().unwrap();
    prepare(folder.path());
    let dapple = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
        command.args(arguments.split_whitespace()).current_dir(folder.path());
        command
    };
    let mut child = dapple("train plan.toml --steps 100000 --out run")
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ledger = folder.path().join("run/ledger.jsonl");
    let lines = || std::fs::read_to_string(&ledger).map_or(0, |text| text.lines().count());
    wait_until("a step is taken", || lines() >= 4);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let read = || -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.path().join("run/certificate.json")).unwrap()).unwrap()
    };
    let before = read();
    assert_eq!(before["status"], "stopped");
    let mut child = dapple("resume run").stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let start = lines();
    wait_until("the run goes on", || lines() >= start + 3);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let upper = |certificate: &serde_json::Value| certificate["spent"]["epsilon"]["upper"].as_f64().unwrap();
    assert!(upper(&read()) > upper(&before));
}

#[test]
fn wrong_requests_say_what_is_wrong_and_write_nothing() {
    let mut text = String::new();
    for arguments in [
        "train --out run",
        "train missing.toml --out run",
        "train plan.toml",
        "train plan.toml --out run --set data.train=nowhere.npy",
        "train plan.toml --out run --set data.format=idx",
        "train plan.toml --out run --set model.name=unheard-of",
        "train plan.toml --out run --set optimiser.learning_rate=-1",
        "train plan.toml --out run --batch 1000",
        "train plan.toml --out run --records 7",
        "train plan.toml --out run --set data.classes=1",
        "train plan.toml --out run --image 30x30",
        "train plan.toml --out run --submodels 2",
        "resume nowhere",
        "eval nowhere",
        "report nowhere",
    ] {
        let run = dapple_with(arguments, prepare);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments}: {}", run.stderr);
        assert_eq!(run.files(), ["images.npy", "labels.npy", "plan.toml"], "{arguments}");
        let stderr = run.stderr.replace(&run.folder.path().display().to_string(), "FOLDER");
        text.push_str(&format!("$ dapple {arguments}\n{stderr}"));
    }
    exact_snapshot("train_wrong", &text);
}

#[test]
fn a_small_demonstration() {
    let run = dapple_with("demo --seeds 1 --steps 3 --out demo --json --quiet", |_| ());
    let answer = run.json();
    let methods = answer["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 2);
    assert!(methods.iter().all(|method| method["epsilon"].as_f64().unwrap() <= 2.0));
    assert!(methods[0]["noise_multiplier"].as_f64() > methods[1]["noise_multiplier"].as_f64());
    assert_eq!(
        (methods[0]["measure"].as_str(), methods[0]["scores"].as_array().unwrap().len()),
        (Some("mIoU"), 1)
    );
    let page = run.read("demo/report.html");
    // Four streets, each with its truth and what both levels find.
    assert_eq!(page.matches("data:image/png;base64,").count(), 4 * 4);
    assert!(page.contains("found at patch level") && !page.contains("src=\"http"));
}

#[test]
fn a_small_demonstration_with_garments() {
    let run = dapple_with("demo --garments --seeds 2 --steps 3 --out demo --json --quiet", |_| ());
    let answer = run.json();
    let methods = answer["methods"].as_array().unwrap();
    assert!(methods.iter().all(|method| method["epsilon"].as_f64().unwrap() <= 2.0));
    assert_eq!(
        (methods[0]["measure"].as_str(), methods[0]["scores"].as_array().unwrap().len()),
        (Some("accuracy"), 2)
    );
    assert_eq!(run.read("demo/report.html").matches("data:image/png;base64,").count(), 1);
}
