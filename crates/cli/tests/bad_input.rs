//! Mistakes in files and settings are found before anything is written or spent, in little memory, and told in one line with a hint.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{Run, dapple_with, npy};

/// A plan on pictures of two classes.
const PICTURES: &str = r#"
[privacy]
relation = "replace"
delta = 1e-5
noise_multiplier = 1.0

[pipeline]
image = [8, 8]

[sampling]
batch = 2
steps = 40

[data]
format = "image-folder"
train = "photos"

[model]
name = "linear"

[optimiser]
learning_rate = 0.1
"#;

fn picture(path: &Path, shade: u8, side: u32) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::from_fn(side, side, |x, y| image::Rgb([shade, x as u8, y as u8])).save(path).unwrap();
}

/// Forty pictures, twenty of each class, and the plan.
fn photos(folder: &Path) {
    for number in 0..40u8 {
        let class = ["cat", "dog"][usize::from(number % 2)];
        picture(&folder.join(format!("photos/{class}/{number:02}.png")), number, 8);
    }
    fs::write(folder.join("plan.toml"), PICTURES).unwrap();
}

/// The plan for arrays of twenty records with these labels.
fn arrays(folder: &Path, labels: &[i64], data: &str) {
    let records = labels.len();
    let pixels: Vec<u8> = (0..records * 64).map(|value| (value * 7 % 251) as u8).collect();
    let labels: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
    fs::write(folder.join("images.npy"), npy("|u1", &format!("{records}, 8, 8"), &pixels)).unwrap();
    fs::write(folder.join("labels.npy"), npy("<i8", &format!("{records},"), &labels)).unwrap();
    let files = format!("format = \"npy\"\ntrain = \"images.npy\"\ntrain_labels = \"labels.npy\"\n{data}");
    let plan = PICTURES.replace("format = \"image-folder\"\ntrain = \"photos\"", &files);
    fs::write(folder.join("plan.toml"), plan).unwrap();
}

/// Asserts that a request was refused as wrong: nothing was written, and one line contains these words.
fn refused(run: &Run, words: &[&str]) {
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(!run.folder.path().join("run").exists(), "{}", run.stderr);
    for word in words.iter().chain(&["error: ", "hint: "]) {
        assert!(run.stderr.contains(word), "{word:?} is not in {}", run.stderr);
    }
    assert_eq!(run.stderr.lines().filter(|line| !line.starts_with("warning")).count(), 2, "{}", run.stderr);
}

#[test]
fn a_damaged_picture_costs_no_step() {
    let cut = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        let path = folder.join("photos/dog/39.png");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    });
    refused(&cut, &["dog/39.png", "decode"]);
    let other_size = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        picture(&folder.join("photos/dog/39.png"), 1, 9);
    });
    refused(&other_size, &["dog/39.png", "9x9", "8x8"]);
    // The last record of an array holds a number that is not finite.
    let hole = dapple_with("train plan.toml --out run --quiet", |folder| {
        arrays(folder, &[0, 1, 0, 1], "classes = 2");
        let mut values = vec![0.5f32; 4 * 64];
        values[255] = f32::NAN;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        fs::write(folder.join("images.npy"), npy("<f4", "4, 8, 8", &bytes)).unwrap();
    });
    refused(&hole, &["images.npy", "record 3"]);
}

#[test]
fn records_are_not_tested_on_themselves() {
    let with_test = |test: &str| {
        PICTURES.replace("train = \"photos\"", &format!("train = \"photos\"\ntest = \"{test}\""))
    };
    let same = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        fs::write(folder.join("plan.toml"), with_test("photos")).unwrap();
    });
    refused(&same, &["data.test", "data.validation"]);
    let copied = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        for entry in ["cat", "dog"] {
            fs::create_dir_all(folder.join("copy").join(entry)).unwrap();
            for file in fs::read_dir(folder.join("photos").join(entry)).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), folder.join("copy").join(entry).join(file.file_name())).unwrap();
            }
        }
        fs::write(folder.join("plan.toml"), with_test("copy")).unwrap();
    });
    refused(&copied, &["data.test"]);
}

#[test]
fn a_label_beyond_all_classes_asks_for_no_memory() {
    let run =
        dapple_with("train plan.toml --out run --quiet", |folder| arrays(folder, &[0, 1, 1 << 31, 1], ""));
    refused(&run, &["labels.npy", "2147483648", "data.classes"]);
}

#[test]
fn classes_counted_from_private_labels_are_stated() {
    let words = |run: &Run| {
        let certificate: serde_json::Value = serde_json::from_str(&run.read("run/certificate.json")).unwrap();
        let sentences = certificate["planned"]["assumptions"].as_array().unwrap().clone();
        sentences.iter().map(|sentence| sentence.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let counted =
        dapple_with("train plan.toml --out run --quiet", |folder| arrays(folder, &[0, 1, 2, 1], ""));
    assert_eq!(counted.code, 0, "{}", counted.stderr);
    assert!(
        words(&counted)
            .iter()
            .any(|s| s.contains("number of classes was counted") && s.contains("data.classes"))
    );
    let given = dapple_with("train plan.toml --out run --quiet", |folder| {
        arrays(folder, &[0, 1, 2, 1], "classes = 3")
    });
    assert!(!words(&given).iter().any(|sentence| sentence.contains("number of classes was counted")));
    // Names of folders are in the model's description.
    let named = dapple_with("train plan.toml --out run --quiet", photos);
    assert!(words(&named).iter().any(|s| s.contains("names of the classes")));
}

#[test]
fn a_mask_is_looked_for_beside_the_plan() {
    let mask = |folder: &Path| {
        fs::create_dir(folder.join("plans")).unwrap();
        let mut mask = image::GrayImage::new(8, 8);
        mask.put_pixel(3, 3, image::Luma([255]));
        mask.save(folder.join("plans/mask.png")).unwrap();
        let plan = "[region]\nmask = \"mask.png\"\nplacement = \"annotated\"\n[pipeline]\nimage = [8, 8]\ncrop = [4, 4]\n";
        fs::write(folder.join("plans/plan.toml"), plan).unwrap();
    };
    let beside = dapple_with("inclusion plans/plan.toml --json", mask);
    assert_eq!(beside.json()["hits"], 16);
    // Paths on the command line are relative to where it was typed.
    let typed = dapple_with("inclusion plans/plan.toml --region-mask plans/mask.png --json", mask);
    assert_eq!(typed.json()["hits"], 16);
    let set = dapple_with("inclusion plans/plan.toml --set region.mask=plans/mask.png --json", mask);
    assert_eq!(set.json()["hits"], 16);
}

#[test]
fn threads_by_the_thousand_are_refused() {
    let run = dapple_with("train plan.toml --out run --quiet --set performance.threads=100000", photos);
    refused(&run, &["performance.threads", "100000"]);
}

#[test]
fn names_cannot_write_on_the_terminal() {
    let run = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        fs::write(folder.join("photos/cat/\u{1b}[2J\u{202e}gnp.exe.png"), b"no picture").unwrap();
    });
    refused(&run, &["[2J"]);
    assert!(!run.stderr.contains('\u{1b}') && !run.stderr.contains('\u{202e}'), "{:?}", run.stderr);
    let typed = dapple_with("account \u{1b}[31mplan.toml", |_| ());
    assert!(!typed.stderr.contains('\u{1b}'), "{:?}", typed.stderr);
}

#[test]
#[cfg(unix)]
fn devices_and_pipes_are_no_files() {
    use std::os::unix::fs::symlink;
    let pipe =
        |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    let zero = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        symlink("/dev/zero", folder.join("photos/cat/zero.png")).unwrap();
    });
    refused(&zero, &["zero.png", "not a file"]);
    let piped = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        pipe(&folder.join("photos/cat/pipe.png"));
    });
    refused(&piped, &["pipe.png", "not a file"]);
    for key in ["data.train", "data.train_labels"] {
        let device =
            dapple_with(&format!("train plan.toml --out run --quiet --set {key}=/dev/zero"), |folder| {
                arrays(folder, &[0, 1, 0, 1], "classes = 2");
            });
        refused(&device, &["/dev/zero", "not a file"]);
    }
    let weights = dapple_with("train plan.toml --out run --quiet --set model.weights=/dev/zero", photos);
    refused(&weights, &["/dev/zero", "not a file"]);
    let mask = dapple_with("inclusion --image 8x8 --crop 4x4 --region-mask /dev/zero", |_| ());
    refused(&mask, &["/dev/zero", "not a file"]);
    let plan = dapple_with("account /dev/zero", |_| ());
    refused(&plan, &["/dev/zero"]);
}

#[test]
#[cfg(unix)]
fn a_link_counts_no_picture_twice() {
    use std::os::unix::fs::symlink;
    let class = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        symlink("cat", folder.join("photos/lion")).unwrap();
    });
    refused(&class, &["lion", "cat"]);
    let picture = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        symlink("../cat/00.png", folder.join("photos/dog/again.png")).unwrap();
    });
    refused(&picture, &["again.png", "00.png"]);
    let itself = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        symlink(".", folder.join("photos/dog/deeper")).unwrap();
    });
    refused(&itself, &["deeper"]);
    // Links to pictures elsewhere are a data set like any other, if each picture is linked once.
    let farm = dapple_with("train plan.toml --out run --quiet", |folder| {
        photos(folder);
        fs::rename(folder.join("photos"), folder.join("store")).unwrap();
        for class in ["cat", "dog"] {
            fs::create_dir_all(folder.join("photos").join(class)).unwrap();
            for file in fs::read_dir(folder.join("store").join(class)).unwrap() {
                let file = file.unwrap();
                symlink(file.path(), folder.join("photos").join(class).join(file.file_name())).unwrap();
            }
        }
    });
    assert_eq!(farm.code, 0, "{}", farm.stderr);
}

/// Keys without a flag are often typed as one, by the names that other programs give them.
#[test]
fn flags_that_are_keys_are_told_as_keys() {
    for (arguments, hint) in [
        ("train plan.toml --out run --learning-rate 0.5", "give --set optimiser.learning_rate=.."),
        ("train plan.toml --out run --lr 0.5", "give --set optimiser.learning_rate=.."),
        ("train plan.toml --out run --model resnet-18", "give --set model.name=.."),
        ("account plan.toml --seed 1", "give --set model.seed=.. or --set train.seed=.."),
        // A slip in a flag is told as one, and what is no key at all leads to the help.
        ("train plan.toml --out run --epsilom 1", "a similar argument exists: '--epsilon'"),
        ("account plan.toml --zzzzzzzzzzzzzzzz", "see `dapple account --help`"),
        ("models --learning-rate 1", "see `dapple models --help`"),
        ("reproduce fig", "see `dapple reproduce --list`; figures are written as patch/fig3"),
    ] {
        let run = dapple_with(arguments, photos);
        assert_eq!(run.code, 2, "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("hint: {hint}\n")), "{arguments}: {}", run.stderr);
        assert!(!run.folder.path().join("run").exists(), "{arguments}");
    }
}
