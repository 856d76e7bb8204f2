//! Runs by the page of `dapple serve`: what may be started, what is confirmed, how runs stop, resume and outlive the server.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[path = "common/page_server.rs"]
mod page_server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use page_server::PageServer;
use serde_json::{Value, json};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run that takes as many steps as the test needs: on drawn scenes of 16 pixels, by a model of one layer.
fn plan(steps: u64) -> String {
    format!(
        "[data]\nformat = 'fashion-scenes'\nsize = '16x16'\n[model]\nname = 'linear'\n[optimiser]\nlearning_rate = 1.0\n\
         [privacy]\nepsilon = 4.0\ndelta = 1e-5\n[sampling]\nbatch = 64\nsteps = {steps}\n"
    )
}

struct Answered {
    status: u16,
    body: String,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl PageServer {
    fn send(&self, line: &str, headers: &str, body: &[u8]) -> Answered {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A body that is too long is answered before all of it was read.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Answered { status: head.split(' ').nth(1).unwrap().parse().unwrap(), body: body.to_owned() }
    }

    fn ask(&self, line: &str, body: &Value) -> Answered {
        let kind = if body.is_null() { "" } else { "content-type: application/json\r\n" };
        let headers = format!("{kind}authorization: Bearer {}\r\n", self.token);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(line, &headers, body.as_bytes())
    }

    /// The epsilon that the page shows for a plan.
    fn epsilon(&self, asked: &Value) -> String {
        let priced = self.ask("POST /api/price", asked).json();
        priced["levels"][0]["epsilon"]["shown"].as_str().unwrap().to_owned()
    }

    fn begin(&self, asked: &Value, epsilon: &str) -> Answered {
        self.ask("POST /api/runs", &json!({ "asked": asked, "confirmed": { "epsilon": epsilon } }))
    }

    fn run(&self, name: &str) -> Value {
        let list = self.ask("GET /api/runs", &Value::Null).json();
        list["runs"].as_array().unwrap().iter().find(|run| run["name"] == name).cloned().unwrap_or_default()
    }

    fn wait(&self, name: &str, satisfies: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let run = self.run(name);
            if satisfies(&run) {
                return run;
            }
            assert!(begun.elapsed() < PATIENCE, "{name}: still {run}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn folder(steps: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.toml"), plan(steps)).unwrap();
    folder
}

fn verified(run: &Path) -> Value {
    let mut verify = Command::new(env!("CARGO_BIN_EXE_dapple"));
    let output = verify.arg("verify").arg(run).arg("--json").output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_run_is_started_watched_and_asked() {
    let folder = folder(12);
    let served = PageServer::start(folder.path(), &["plan.toml"]);
    let list = served.ask("GET /api/runs", &Value::Null).json();
    assert_eq!(list, json!({ "runs": [], "can_start": true }));
    let epsilon = served.epsilon(&json!({}));
    let begun = served.begin(&json!({}), &epsilon);
    assert_eq!(begun.status, 200, "{}", begun.body);
    assert_eq!(begun.json()["name"], "plan-1");
    // The events end when the run has.
    let heard = served.ask("GET /api/runs/plan-1/events", &Value::Null);
    let last = heard.body.rsplit("data: ").next().unwrap();
    // The body comes in chunks, each with its length in front; a state is on one line.
    let last: Value = serde_json::from_str(last.lines().next().unwrap()).unwrap();
    assert_eq!((&last["standing"], &last["steps"]), (&json!("finished"), &json!(12)), "{}", heard.body);
    // The price of the run is the one that was confirmed, and the folder holds what the command line leaves.
    assert_eq!(last["planned_epsilon"], epsilon.as_str());
    let run = folder.path().join("runs/plan-1");
    let truth = verified(&run);
    assert_eq!((&truth["valid"], &truth["steps"]), (&json!(true), &json!(12)));
    assert!(run.join("report.html").is_file());
    let report = served.ask("GET /api/runs/plan-1/report", &Value::Null).json();
    assert!(report.as_str().unwrap().starts_with("<!DOCTYPE html>"));
    let compared = served.ask("POST /api/compare", &json!({ "runs": ["plan-1"] }));
    assert!(compared.json()["svg"].as_str().unwrap().starts_with("<svg"));
    // A picture of the size of the plan's images; the model is one layer, so that any answer is right that adds up.
    let mut picture = std::io::Cursor::new(Vec::new());
    image::GrayImage::from_pixel(16, 16, image::Luma([120]))
        .write_to(&mut picture, image::ImageFormat::Png)
        .unwrap();
    let picture = picture.into_inner();
    let bearer = format!("authorization: Bearer {}\r\n", served.token);
    let octets = format!("content-type: application/octet-stream\r\n{bearer}");
    let said = served.send("POST /api/runs/plan-1/predict", &octets, &picture);
    assert_eq!(said.status, 200, "{}", said.body);
    let said = said.json();
    let shares: f64 =
        said["classes"].as_array().unwrap().iter().map(|class| class["share"].as_f64().unwrap()).sum();
    assert!(said["answers"] == "class" && shares > 0.3 && shares < 1.0 + 1e-6, "{said}");
    // A folder whose ledger was edited is told of, and hides no other run.
    std::fs::create_dir(folder.path().join("runs/broken")).unwrap();
    std::fs::write(folder.path().join("runs/broken/ledger.jsonl"), "{}\n").unwrap();
    let broken = served.run("broken");
    assert!(broken["standing"] == "unreadable" && broken["problem"].is_string(), "{broken}");
    assert_eq!(served.run("plan-1")["standing"], "finished");
    for (line, headers, body, status) in [
        // No picture, and one that says it is larger than any machine.
        ("POST /api/runs/plan-1/predict", octets.clone(), b"no picture".as_slice(), 422),
        ("POST /api/runs/plan-1/predict", octets.clone(), b"P6\n4000000000 4000000000\n255\n", 422),
        ("POST /api/runs/plan-1/predict", format!("content-type: image/png\r\n{bearer}"), &picture, 415),
        ("POST /api/runs/plan-1/predict", octets.clone(), &vec![0; (32 << 20) + 1], 413),
        (
            "POST /api/runs/plan-1/predict",
            "content-type: application/octet-stream\r\n".to_owned(),
            &picture,
            401,
        ),
        ("POST /api/runs/plan-2/predict", octets.clone(), &picture, 404),
        ("POST /api/runs/..%2Fruns%2Fplan-1/predict", octets, &picture, 404),
        ("GET /api/runs/..%2F..%2Fetc/report", bearer.clone(), b"", 404),
        ("GET /api/runs/%2Fetc/events", bearer.clone(), b"", 404),
        ("GET /api/runs/plan-1/events", String::new(), b"", 401),
        ("GET /api/runs", String::new(), b"", 401),
        ("POST /api/runs/plan-1/stop", bearer, b"{}", 415),
    ] {
        let heard = served.send(line, &headers, body);
        assert_eq!(heard.status, status, "{line}: {}", heard.body);
    }
}

#[test]
fn nothing_starts_that_was_not_given_and_confirmed() {
    let folder = folder(5);
    let served = PageServer::start(folder.path(), &["plan.toml"]);
    let epsilon = served.epsilon(&json!({}));
    let secret = folder.path().join("secret.npy").display().to_string();
    for (asked, confirmed, word) in [
        (json!({}), "1", "agreed"),
        (json!({ "set": { "privacy.epsilon": "5" } }), epsilon.as_str(), "agreed"),
        (json!({ "set": { "data.train": secret } }), &epsilon, "`data`"),
        (json!({ "set": { "data.format": "npy" } }), &epsilon, "`data`"),
        (json!({ "set": { "model.weights": secret } }), &epsilon, "model.weights"),
        (json!({ "set": { "mix.pool": "/etc" } }), &epsilon, "mix.pool"),
        (json!({ "set": { "train.private": "false" } }), &epsilon, "train.private"),
        (json!({ "set": { "train.seed": "1" } }), &epsilon, "train.seed"),
        (json!({ "set": { "performance.threads": "1" } }), &epsilon, "performance"),
        (json!({ "plan": plan(5).replace("fashion-scenes", "idx") }), &epsilon, "`data`"),
    ] {
        let heard = served.begin(&asked, confirmed);
        assert_eq!(heard.status, 422, "{asked}: {}", heard.body);
        assert!(heard.json()["problem"].as_str().unwrap().contains(word), "{asked}: {}", heard.body);
    }
    assert!(!folder.path().join("runs").exists(), "nothing was made");
    // Numbers may change, and are what is trained.
    let asked = json!({ "set": { "sampling.steps": "7" } });
    let begun = served.begin(&asked, &served.epsilon(&asked));
    assert_eq!(begun.status, 200, "{}", begun.body);
    let run = served.wait("plan-1", |run| run["standing"] == "finished");
    assert_eq!(run["steps"], 7);
    // A server that was given no plan starts nothing.
    let empty = tempfile::tempdir().unwrap();
    let served = PageServer::start(empty.path(), &[]);
    assert_eq!(served.ask("GET /api/runs", &Value::Null).json()["can_start"], false);
    assert_eq!(served.begin(&json!({}), &served.epsilon(&json!({}))).status, 422);
}

/// A run that is left if a test fails: it is interrupted as a person would do it, by the number of the process that names its folder.
struct StrayRun(std::path::PathBuf);

impl Drop for StrayRun {
    fn drop(&mut self) {
        let found = Command::new("pgrep").arg("-f").arg("--").arg(self.0.display().to_string()).output();
        for id in found.iter().flat_map(|found| found.stdout.split(|byte| byte.is_ascii_whitespace())) {
            let _ = Command::new("kill").arg("-INT").arg(String::from_utf8_lossy(id).as_ref()).status();
        }
    }
}

/// A run of many steps is stopped in order, taken up again, and goes on when its server is killed.
#[test]
fn runs_stop_in_order_resume_and_outlive_the_server() {
    let folder = folder(1_000_000);
    let run = folder.path().join("runs/plan-1");
    let stray = StrayRun(run.clone());
    let served = PageServer::start(folder.path(), &["plan.toml"]);
    let epsilon = served.epsilon(&json!({}));
    let begun = served.begin(&json!({}), &epsilon);
    assert_eq!(begun.status, 200, "{}", begun.body);
    let steps = |run: &Value| run["steps"].as_u64().unwrap_or(0);
    served.wait("plan-1", |run| run["standing"] == "running" && steps(run) > 0);
    assert_eq!(served.ask("POST /api/runs/plan-1/stop", &json!({})).status, 200);
    let stopped = served.wait("plan-1", |run| run["standing"] == "stopped");
    assert_eq!(stopped["problem"], Value::Null, "an orderly end is no failure");
    let ledger = std::fs::read_to_string(run.join("ledger.jsonl")).unwrap();
    assert!(ledger.contains("asked to stop"), "the ledger was closed in order");
    assert_eq!(verified(&run)["valid"], true);
    // It is stopped already, and resuming spends what was confirmed or nothing.
    assert_eq!(served.ask("POST /api/runs/plan-1/stop", &json!({})).status, 422);
    let resume = |epsilon: &str| served.ask("POST /api/runs/plan-1/resume", &json!({ "epsilon": epsilon }));
    assert_eq!(resume("0.1").status, 422);
    assert_eq!(resume(&epsilon).status, 200);
    let before = steps(&stopped);
    served.wait("plan-1", |run| steps(run) > before);
    assert_eq!(resume(&epsilon).status, 422, "it runs");
    // The server is killed, and the run goes on.
    drop(served);
    let length = || std::fs::metadata(run.join("ledger.jsonl")).unwrap().len();
    let (begun, killed) = (Instant::now(), length());
    while length() == killed {
        assert!(begun.elapsed() < PATIENCE, "the run died with its server");
        std::thread::sleep(Duration::from_millis(50));
    }
    // A new server sees that a process trains it that it did not start, and stops it in order all the same.
    let served = PageServer::start(folder.path(), &["runs"]);
    assert_eq!(served.run("plan-1")["standing"], "elsewhere");
    assert_eq!(served.ask("POST /api/runs/plan-1/stop", &json!({})).status, 200);
    served.wait("plan-1", |run| run["standing"] == "stopped");
    let ledger = std::fs::read_to_string(run.join("ledger.jsonl")).unwrap();
    assert!(ledger.lines().last().unwrap().contains("asked to stop"), "the ledger was closed in order");
    assert_eq!(verified(&run)["valid"], true);
    assert!(!run.join("private/stop").exists(), "the request is gone with the process");
    let refused = served.ask("POST /api/runs/plan-1/stop", &json!({}));
    assert!(refused.status == 422 && refused.body.contains("does not run"), "{}", refused.body);
    drop(stray);
}
