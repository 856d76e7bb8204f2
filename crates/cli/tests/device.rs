//! The flag that says where a run computes.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::dapple_with;

fn plan(folder: &Path) {
    let text = "[data]\nformat = 'fashion-scenes'\nsize = '16x16'\n[model]\nname = 'linear'\n\
        [optimiser]\nlearning_rate = 1.0\n[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n\
        [sampling]\nbatch = 64\nsteps = 2\n";
    std::fs::write(folder.join("plan.toml"), text).unwrap();
}

#[test]
fn a_run_tells_where_it_computes() {
    let run = dapple_with("train plan.toml --out run --device cpu --json", plan);
    assert!(run.stderr.contains(" parameters on cpu, epsilon "), "{}", run.stderr);
    assert_eq!(run.json()["machines"], serde_json::json!([{"step": 0, "machine": "cpu"}]));
    let certificate: serde_json::Value = serde_json::from_str(&run.read("run/certificate.json")).unwrap();
    assert_eq!(certificate["machines"], run.json()["machines"]);
}

#[test]
fn a_device_that_is_not_there_is_refused_before_anything_is_written() {
    for (device, message, hint) in [
        (
            "tpu",
            "is no device; give auto, cpu, cuda, cuda:N, cuda:N,M.. or cuda:all",
            "see `dapple train --help`",
        ),
        ("cuda:", "\"cuda:\" is no device", ""),
        ("cuda:1,0,1", "\"cuda:1,0,1\" names card 1 twice; name every card once", ""),
        // The message names whatever this machine lacks: the card itself, a library, or the feature.
        ("cuda:99", "cuda:99: ", ""),
        ("cuda:98,99", "cuda:98,99: ", ""),
    ] {
        let run = dapple_with(&format!("train plan.toml --out run --device {device}"), plan);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
        assert_eq!(run.files(), ["plan.toml"]);
        assert!(run.stderr.contains(message), "{}", run.stderr);
        assert!(run.stderr.contains(&format!("hint: {hint}")), "{}", run.stderr);
    }
}
