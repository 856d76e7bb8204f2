//! The page about fine-tuning shows what the program does.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Output};

/// The first fenced block of a language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    page.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap()
}

fn dapple(folder: &Path, words: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_dapple");
    let output = Command::new(program).args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A folder of pictures for each class.
fn pictures(folder: &Path, classes: &[&str], each: u32) {
    for (class, name) in classes.iter().enumerate() {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        for number in 0..each {
            let shade = |x: u32, y: u32| [(60 * class as u32 + x) as u8, (y * (number + 1)) as u8, 90];
            let picture = image::RgbImage::from_fn(20 + number, 24, |x, y| image::Rgb(shade(x, y)));
            picture.save(folder.join(name).join(format!("{number}.png"))).unwrap();
        }
    }
}

#[test]
fn the_five_lines_train_and_the_commands_behind_them_run() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fine-tuning.md");
    let page = std::fs::read_to_string(page).unwrap();
    let plan = block(&page, "toml");
    assert_eq!(plan.lines().filter(|line| !line.starts_with('#')).count(), 5);
    // Runs the same on a smaller scale.
    let small = [
        ("vit-b-16", "vit-ti-16"),
        ("[224, 224]", "[32, 32]"),
        ("batch = 256", "batch = 4"),
        ("steps = 500", "steps = 2"),
    ];
    let plan = small.iter().fold(plan.to_owned(), |plan, (from, to)| {
        assert!(plan.contains(from), "{from}");
        plan.replace(from, to)
    });
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    // Trains a model of three other classes to start from.
    pictures(&root.join("photos/train"), &["ant", "bee", "fly"], 4);
    pictures(&root.join("photos/test"), &["ant", "bee", "fly"], 1);
    let other = plan.replace("weights = \"vit.safetensors\", tune = \"lora\"", "seed = 3");
    std::fs::write(root.join("other.toml"), other).unwrap();
    dapple(root, "train other.toml --out runs/other --quiet");
    std::fs::copy(root.join("runs/other/model.safetensors"), root.join("vit.safetensors")).unwrap();
    std::fs::remove_dir_all(root.join("photos")).unwrap();

    pictures(&root.join("photos/train"), &["cat", "dog"], 6);
    pictures(&root.join("photos/test"), &["cat", "dog"], 2);
    std::fs::write(root.join("plan.toml"), plan).unwrap();
    let outputs: Vec<Output> =
        block(&page, "sh").lines().map(|line| dapple(root, line.strip_prefix("dapple ").unwrap())).collect();
    let [train, evaluated, predicted] = &outputs[..] else { unreachable!("three commands") };
    let said = String::from_utf8_lossy(&train.stderr);
    assert!(said.contains("warning: head is made anew"), "{said}");
    assert!(said.contains("has none for 2 classes"), "{said}");
    assert!(String::from_utf8_lossy(&evaluated.stdout).contains("accuracy"));
    // The noise decides which of the two it is.
    let answer = String::from_utf8_lossy(&predicted.stdout);
    let names = |line: &str| line.split_whitespace().any(|word| ["cat", "dog"].contains(&word));
    assert!(answer.lines().any(|line| line.contains("cat/0.png") && names(line)), "{answer}");
    assert!(root.join("runs/first/adapters.safetensors").is_file());
    let described = std::fs::read_to_string(root.join("runs/first/model.json")).unwrap();
    assert!(described.contains("\"names\": \"timm\""), "{described}");
    assert!(described.contains("adapters of rank 8 and alpha 16, and the last layers"), "{described}");
}
