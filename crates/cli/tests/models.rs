//! `dapple models`: what can be trained, in words and for programs.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{dapple, exact_snapshot};

#[test]
fn every_model_is_listed() {
    exact_snapshot("models", &dapple("models").report());
    let answer = dapple("models --json").json();
    let models = answer["models"].as_array().unwrap();
    let names: Vec<&str> = models.iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names, dapple_plan::spec::keys::find("model.name").unwrap().choices);
    let transformer = models.iter().find(|model| model["name"] == "vit-b-16").unwrap();
    let expected = serde_json::json!({
        "name": "vit-b-16", "parameters": 86_567_656, "answers": "class", "input": [3, 224, 224], "classes": 1000,
        "smallest": 16, "norm": false,
    });
    assert_eq!(*transformer, expected);
}
