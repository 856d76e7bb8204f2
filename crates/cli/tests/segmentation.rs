//! From streets to a report: a model of label maps is trained, killed, resumed, evaluated and asked from the command line.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{dapple_with, exact_snapshot, wait_until};

const PLAN: &str = r#"
[privacy]
delta = "1/n"
noise_multiplier = 0.6

[region]
patch = [8, 8]

[pipeline]
crop = [24, 24]

[sampling]
batch = 12
steps = 60

[data]
format = "street-scenes"
mean = [0.5]
std = [0.25]
flip = true

[model]
name = "small-fcn"

[optimiser]
kind = "adam"
learning_rate = 0.002
schedule = "poly"

[train]
seed = 1
checkpoint_every = 10
evaluate_every = 30
"#;

fn prepare(folder: &Path) {
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    let scene = |x: u32, y: u32| image::Rgb([(3 * x) as u8, (2 * y) as u8, ((x ^ y) % 97) as u8]);
    // This picture has another size than the scenes and is smaller than a crop.
    image::RgbImage::from_fn(101, 67, scene).save(folder.join("street.png")).unwrap();
    image::RgbImage::from_fn(19, 40, scene).save(folder.join("narrow.png")).unwrap();
}

fn dapple(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dapple"));
    command.args(arguments.split_whitespace()).current_dir(folder).env("NO_COLOR", "1");
    command
}

/// What a verb says on stdout and stderr.
fn told(folder: &Path, arguments: &str) -> String {
    let output = dapple(folder, arguments).output().unwrap();
    let text = format!(
        "$ dapple {arguments}\n{}{}",
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap()
    );
    assert!(output.status.success(), "{text}");
    text
}

/// Compares with a snapshot in which every number of more than two decimals is blotted out, because it depends on how a processor rounds.
fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        filters => vec![
            (r"\d+\.\d{3,}", "#.####"),
            (r"(road|pavement|building|sky|car|person) \d+ %", "CLASS # %"),
            (r"(, CLASS # %)+", ", ..."),
            (r"─+", "─"),
            (r" +#", "  #"),
        ],
        omit_expression => true,
        prepend_module_to_snapshot => false,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

#[test]
#[cfg(unix)]
fn from_streets_to_a_report() {
    let place = tempfile::TempDir::new().unwrap();
    let folder = place.path();
    prepare(folder);
    let mut child = dapple(folder, "train plan.toml --out run --quiet --set performance.device=cpu")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let checkpoints = || std::fs::read_dir(folder.join("run/checkpoints")).map_or(0, Iterator::count);
    wait_until("a checkpoint is written", || checkpoints() > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut text = told(folder, "resume run --quiet");
    for arguments in [
        "eval run",
        "eval run --sliding=0.5 --quiet",
        "predict run street.png narrow.png --out maps",
        "predict run street.png --sliding --out sliding --quiet",
        "report run --html page.html",
    ] {
        text.push_str(&told(folder, arguments));
    }
    snapshot("segmentation", &text);

    let evaluation: serde_json::Value =
        serde_json::from_slice(&dapple(folder, "eval run --json").output().unwrap().stdout).unwrap();
    let ious = evaluation["per_class_iou"].as_array().unwrap();
    assert_eq!((ious.len(), evaluation["confusion"].as_array().unwrap().len()), (6, 6));
    // The model is better than one class for every pixel: a street is four tenths road, which gives 0.4 / 6.
    assert!(
        evaluation["miou"].as_f64().unwrap() > 0.1 && evaluation["pixel_accuracy"].as_f64().unwrap() > 0.4
    );
    assert_eq!(evaluation["class_names"][0], "road");

    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    for words in
        ["mIoU on the test set", "Loss on the test set", "IoU", "What the model sees", "class=\"legend\""]
    {
        assert!(page.contains(words), "{words}");
    }
    // There are four images, each with truth and prediction, one more beneath the crops, and all of them inside the page.
    assert_eq!(page.matches("data:image/png;base64,").count(), 13);
    assert!(!page.contains("src=\"http"));

    for (name, size) in [("street", (101, 67)), ("narrow", (19, 40))] {
        let labels = image::open(folder.join(format!("maps/{name}.labels.png"))).unwrap();
        let overlay = image::open(folder.join(format!("maps/{name}.overlay.png"))).unwrap();
        assert_eq!(((labels.width(), labels.height()), (overlay.width(), overlay.height())), (size, size));
    }
    let said: serde_json::Value = serde_json::from_slice(
        &dapple(folder, "predict run street.png --out json --json").output().unwrap().stdout,
    )
    .unwrap();
    assert_eq!((&said["answers"], &said["images"][0]["width"]), (&"label-map".into(), &101.into()));
    let shares = said["images"][0]["shares"].as_array().unwrap();
    assert!((shares.iter().map(|share| share.as_f64().unwrap()).sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn wrong_requests_name_what_is_wrong() {
    let run = dapple_with("train plan.toml --steps 1 --out run --quiet", prepare);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let folder = run.folder.path();
    std::fs::write(folder.join("rubbish.png"), b"rubbish").unwrap();
    std::fs::create_dir(folder.join("other")).unwrap();
    std::fs::copy(folder.join("street.png"), folder.join("other/street.png")).unwrap();
    let mut text = String::new();
    for arguments in [
        "predict run",
        "predict nowhere street.png",
        "predict run missing.png",
        "predict run rubbish.png",
        "predict run street.png other/street.png",
        "predict run street.png --grid 2",
        "predict run street.png --whole --sliding",
        "predict run street.png --sliding=1.5",
        "eval run --sliding=0",
        "train plan.toml --out again --set model.name=resnet-18",
        "train plan.toml --out again --set train.evaluation_grid=2",
        "train plan.toml --out again --crop 200x200",
        "train plan.toml --out again --set model.backbone_weights=w.safetensors --set model.weights=w.safetensors",
    ] {
        let output = dapple(folder, arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{arguments}: {stderr}");
        text.push_str(&format!(
            "$ dapple {arguments}\n{}",
            stderr.replace(&folder.display().to_string(), "FOLDER")
        ));
    }
    assert!(!folder.join("again").exists() && !folder.join("predictions").exists());
    exact_snapshot("segmentation_wrong", &text);
}
