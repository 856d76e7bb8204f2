//! `dapple models`: what can be trained, in words and for programs.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{dapple, exact_snapshot};

/// What torchvision's documentation states for its models, in thousand millions of operations for one usual input.
const PUBLISHED: [(&str, f64); 17] = [
    ("resnet-18", 1.814),
    ("resnet-34", 3.664),
    ("resnet-50", 4.089),
    ("resnet-101", 7.801),
    ("vgg-11", 7.609),
    ("vgg-16", 15.47),
    ("mobilenet-v2", 0.301),
    ("convnext-t", 4.456),
    ("convnext-s", 8.684),
    ("convnext-b", 15.355),
    ("convnext-l", 34.361),
    ("vit-b-16", 17.564),
    ("vit-b-32", 4.409),
    ("vit-l-16", 61.555),
    ("vit-l-32", 15.378),
    ("mvit-v2-s", 64.224),
    ("mc3-18", 43.343),
];

/// The table without its last column, which is about this machine.
fn without_memory(text: &str) -> String {
    // Right-aligned numbers begin up to two letters before their title.
    let width = text.lines().find_map(|line| line.find("memory")).unwrap() - 2;
    let cut = |line: &str| line.chars().take(width).collect::<String>().trim_end().to_owned();
    text.lines().map(cut).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_model_is_listed() {
    let shown = dapple("models");
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    exact_snapshot("models", &without_memory(&shown.stdout));
    let mut answer = dapple("models --json").json();
    let models = answer["models"].as_array_mut().unwrap();
    let names: Vec<&str> = models.iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names, dapple_plan::spec::keys::find("model.name").unwrap().choices);
    for model in &mut *models {
        let memory = model.as_object_mut().unwrap().remove("memory").unwrap().as_u64().unwrap();
        let parameters = model["parameters"].as_u64().unwrap();
        // Each input keeps at least its own numbers, and never more than a machine has.
        let input: u64 =
            model["input"].as_array().unwrap().iter().map(|side| side.as_u64().unwrap()).product();
        assert!(memory >= 4 * input && memory < 64 << 30, "{model} {memory}");
        assert!(model["operations"].as_u64().unwrap() > 0 && parameters > 0, "{model}");
    }
    for (name, published) in PUBLISHED {
        let model = models.iter().find(|model| model["name"] == name).unwrap();
        let counted = model["operations"].as_f64().unwrap() / 1e9;
        // Three digits are published; counters differ in whether they count the additions of a bias, of which there are far fewer.
        assert!((counted / published - 1.0).abs() < 5e-3, "{name}: {counted}, and {published} is published");
    }
    let transformer = models.iter_mut().find(|model| model["name"] == "vit-b-16").unwrap();
    transformer.as_object_mut().unwrap().remove("operations");
    let expected = serde_json::json!({
        "name": "vit-b-16", "parameters": 86_567_656, "answers": "class", "input": [3, 224, 224], "classes": 1000,
        "smallest": 16, "norm": false, "weights": ["timm", "torchvision", "OpenCLIP"],
    });
    assert_eq!(*transformer, expected);
}
