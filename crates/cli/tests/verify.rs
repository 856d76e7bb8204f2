//! What the command line says about a run folder after kills and edits.

#![allow(clippy::panic, clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{dapple_with, snapshot, wait_until};
use serde_json::Value;

const PLAN: &str = r#"
[privacy]
delta = 1e-5
noise_multiplier = 1.2487224102672019

[region]
patch = [2, 2]

[pipeline]
crop = [4, 4]

[sampling]
batch = 200
steps = 200000

[data]
format = "fashion-scenes"
size = "4x4"
mean = [0.35]
std = [0.3]

[model]
name = "linear"

[optimiser]
learning_rate = 0.1

[train]
checkpoint_every = 200
evaluate_every = 1000
"#;

fn prepare(folder: &Path) {
    fs::write(folder.join("plan.toml"), PLAN).unwrap();
}

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
    command.args(arguments.split_whitespace()).current_dir(folder).env("NO_COLOR", "1");
    command
}

fn run(folder: &Path, arguments: &str) -> Output {
    command(folder, arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Steps that the lines of a ledger promise. A line that was cut off does not count.
fn promised(run: &Path) -> u64 {
    let text = fs::read_to_string(run.join("ledger.jsonl")).unwrap_or_default();
    let end = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(line["entry"]["first"].as_u64()? + line["entry"]["steps"].as_u64()?)
    };
    text.lines().filter_map(end).max().unwrap_or(0)
}

fn upper(certificate: &Value) -> f64 {
    certificate["spent"]["epsilon"]["upper"].as_f64().unwrap_or(0.0)
}

/// Kills or ends a run again and again; `DAPPLE_KILLS` says how often. However it ends, the certificate, the report and the verification
/// state no less than `dapple account` gives for the steps that the ledger has promised.
#[test]
#[cfg(unix)]
fn however_a_run_ends_its_folder_states_no_less_than_its_ledger() {
    let times: u64 = std::env::var("DAPPLE_KILLS").map_or(10, |times| times.parse().unwrap());
    let folder = tempfile::TempDir::new().unwrap();
    prepare(folder.path());
    let out = folder.path().join("run");
    for time in 0..times {
        let begun = out.join("ledger.jsonl").exists();
        let verb = if begun { "resume run" } else { "train plan.toml --device cpu --out run" };
        let mut child =
            command(folder.path(), verb).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let before = promised(&out);
        if time % 4 != 3 {
            wait_until("steps are promised", || promised(&out) > before);
        }
        std::thread::sleep(Duration::from_millis(time * 37 % 150));
        let signal = if time % 2 == 0 { "-KILL" } else { "-TERM" };
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let status = child.wait().unwrap();
        let spent = promised(&out);
        if signal == "-TERM" && spent > before {
            assert_eq!(status.code(), Some(130), "{time}: a run that is asked to stop ends in order");
        }
        if !out.join("ledger.jsonl").exists() {
            continue;
        }
        let verified = run(folder.path(), "verify run --json");
        let verdict = json(&verified);
        assert_eq!(
            (verified.status.code(), &verdict["valid"]),
            (Some(0), &Value::Bool(true)),
            "{time}: {verdict}"
        );
        let counted = verdict["steps"].as_u64().unwrap();
        assert!(counted >= spent, "{time}: {verdict}");
        if counted == 0 {
            continue;
        }
        let account = json(&run(folder.path(), &format!("account run/plan.toml --steps {counted} --json")));
        let least = account["epsilon"]["lower"].as_f64().unwrap();
        let stored: Value = serde_json::from_slice(&fs::read(out.join("certificate.json")).unwrap()).unwrap();
        assert!(
            stored["steps_spent"].as_u64().unwrap() >= counted && upper(&stored) >= least,
            "{time}: {stored}"
        );
        let report = json(&run(folder.path(), "report run --json --quiet"));
        assert!(upper(&report) >= least, "{time}");
        assert!(verdict["epsilon"]["upper"].as_f64().unwrap() >= least, "{time}");
        if status.code() == Some(130) {
            assert_eq!(
                (&stored["status"], stored["steps_spent"].as_u64()),
                (&"stopped".into(), Some(counted))
            );
        }
    }
    assert!(promised(&out) > 0);
}

#[test]
fn a_finished_run_is_verified_and_an_edited_one_is_not() {
    let made = dapple_with("train plan.toml --steps 12 --device cpu --out run --json --quiet", prepare);
    let certificate = made.json();
    let folder = made.folder.path();
    let head = certificate["ledger"].as_str().unwrap();
    let verdict = json(&run(folder, &format!("verify run --expect-head {head} --json")));
    assert_eq!((&verdict["valid"], &verdict["steps"]), (&Value::Bool(true), &Value::from(12)));
    assert_eq!(verdict["epsilon"], certificate["spent"]["epsilon"]);
    let mut text = String::new();
    let mut show = |arguments: &str| {
        let output = run(folder, arguments);
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        text.push_str(&format!(
            "$ dapple {arguments}\n{stdout}{stderr}exit {}\n",
            output.status.code().unwrap()
        ));
    };
    show("verify run --quiet");
    show("verify run --expect-head 00");
    show("verify nowhere");
    // A forger cuts half of the steps off, at the end of a line.
    let ledger = fs::read_to_string(folder.join("run/ledger.jsonl")).unwrap();
    let lines: Vec<&str> = ledger.split_inclusive('\n').collect();
    fs::write(folder.join("run/ledger.jsonl"), lines[..4].concat()).unwrap();
    for arguments in ["verify run", "verify run --json", "report run", "eval run", "resume run"] {
        show(arguments);
    }
    fs::write(folder.join("run/ledger.jsonl"), ledger).unwrap();
    // A forger writes a smaller epsilon: the page still tells the true one, and the folder is not valid.
    let stored = fs::read_to_string(folder.join("run/certificate.json")).unwrap();
    let mut edited: Value = serde_json::from_str(&stored).unwrap();
    edited["spent"]["epsilon"]["upper"] = Value::from(1e-9);
    fs::write(folder.join("run/certificate.json"), serde_json::to_string_pretty(&edited).unwrap()).unwrap();
    show("verify run");
    let report = json(&run(folder, "report run --json --quiet"));
    assert_eq!(report["spent"], certificate["spent"]);
    snapshot("verify", &text.replace(&verdict["epsilon"]["upper"].to_string(), "UPPER"));
}

#[test]
fn nothing_is_written_over_that_is_not_ours() {
    let made = dapple_with("train plan.toml --steps 4 --device cpu --out run --quiet", |folder| {
        prepare(folder);
        #[cfg(unix)]
        std::os::unix::fs::symlink("elsewhere.html", folder.join("link.html")).unwrap();
    });
    assert_eq!(made.code, 0, "{}", made.stderr);
    let folder = made.folder.path();
    let whole = |folder: &Path| {
        ["plan.toml", "run/plan.toml", "run/ledger.jsonl", "run/certificate.json", "run/model.safetensors"]
            .map(|name| fs::read(folder.join(name)).unwrap())
    };
    let before = whole(folder);
    let sweep = "--image 100x100 --crop 10x10 --over patch=2,3 --records 100 --set data.format=idx";
    for arguments in [
        "train plan.toml --steps 4 --out .",
        "train plan.toml --steps 4 --out run",
        "report run --html run/ledger.jsonl",
        "report run --html run/certificate.json",
        "report run --html run/model.safetensors",
        "report run --html plan.toml",
        &format!("sweep plan.toml {sweep} --steps 5 --csv plan.toml"),
        &format!("sweep plan.toml {sweep} --steps 5 --html run/plan.toml"),
        "inclusion --image 100x100 --crop 10x10 --patch 2x2 --heatmap plan.toml",
        "reproduce patch/fig3 --csv plan.toml",
        #[cfg(unix)]
        "report run --html link.html",
    ] {
        let output = run(folder, arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {words}");
        assert!(words.contains("hint: "), "{arguments}: {words}");
        assert!(whole(folder) == before, "{arguments}");
        assert!(!folder.join("elsewhere.html").exists(), "{arguments}");
    }
    // The program may write over what it wrote itself.
    for _ in 0..2 {
        assert!(run(folder, "report run --html page.html").status.success());
        assert!(run(folder, "report run").status.success());
    }
}
