//! Runs the program in an empty folder and records what it did.

#![allow(dead_code, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Figure 2a of the patch-level paper: images of 1000x1000, crops of 100x100, patches of 10x10, batch 100 of 3000, 100 epochs.
pub(crate) const FIGURE_2A: &str = "--image 1000x1000 --crop 100x100 --patch 10x10 --batch 100 --records 3000 \
                             --epochs 100 --noise-multiplier 1 --delta 1e-5";

/// What a run of the program did.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) folder: TempDir,
}

impl Run {
    /// The names of the files it left behind.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Everything that the run did in one text, for a snapshot.
    pub(crate) fn report(&self) -> String {
        let Self { code, stdout, stderr, .. } = self;
        let files = self.files().join(" ");
        format!("exit {code}\n--- stdout\n{stdout}--- stderr\n{stderr}--- files\n{files}\n")
    }
}

/// Runs `dapple` with arguments separated by spaces, in an empty folder.
pub(crate) fn dapple(arguments: &str) -> Run {
    dapple_with(arguments, |_| ())
}

/// The same in a folder that is prepared first. What was put there is not listed among the files left behind.
pub(crate) fn dapple_with(arguments: &str, prepare: impl FnOnce(&Path)) -> Run {
    let folder = TempDir::new().unwrap();
    prepare(folder.path());
    let output = Command::new(env!("CARGO_BIN_EXE_dapple"))
        .args(arguments.split_whitespace())
        .current_dir(folder.path())
        .env_remove("COLUMNS")
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    Run {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
        folder,
    }
}

/// Waits until another process has done something. The limit of ten minutes is reached only if it hangs, however busy the machine is.
pub(crate) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(600), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Compares with a snapshot that guards the interface. The numbers themselves are tested against references in the crates that compute
/// them, so bounds keep only one decimal here, and a finer grid of the accountant does not change a snapshot.
pub(crate) fn snapshot(name: &str, text: &str) {
    insta::with_settings!({
        filters => vec![(r"[0-9a-f]{64}", "HASH"), (r#"("program_version": )"[^"]+""#, r#"$1"VERSION""#), (r"(\d\.\d)\d+(e-?\d+)?", "$1..$2")],
        omit_expression => true,
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// A snapshot of text without bounds, digit by digit.
pub(crate) fn exact_snapshot(name: &str, text: &str) {
    insta::with_settings!({
        omit_expression => true,
        snapshot_path => "../snapshots",
        prepend_module_to_snapshot => false,
    }, {
        insta::assert_snapshot!(name, text);
    });
}

/// One part of a data set as MNIST stores it: images of 28x28, each class with its own shade.
fn idx(folder: &Path, prefix: &str, records: u32) {
    let mut images = vec![0, 0, 8, 3];
    for number in [records, 28, 28] {
        images.extend(number.to_be_bytes());
    }
    let shade = |record: u32, pixel: u32| (20 * (record % 10) + pixel * 31 % 17) as u8;
    images.extend((0..records).flat_map(|record| (0..784).map(move |pixel| shade(record, pixel))));
    let mut labels = vec![0, 0, 8, 1];
    labels.extend(records.to_be_bytes());
    labels.extend((0..records).map(|record| (record % 10) as u8));
    std::fs::write(folder.join(format!("{prefix}-images-idx3-ubyte")), images).unwrap();
    std::fs::write(folder.join(format!("{prefix}-labels-idx1-ubyte")), labels).unwrap();
}

/// A folder `digits` of a few images, as MNIST stores them.
pub(crate) fn digits(folder: &Path) {
    std::fs::create_dir(folder.join("digits")).unwrap();
    idx(&folder.join("digits"), "train", 70);
    idx(&folder.join("digits"), "t10k", 20);
}

/// An array as numpy writes it.
pub(crate) fn npy(kind: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Numpy pads the header so that the values begin at a multiple of 64 bytes.
    header.push_str(&" ".repeat(63 - (10 + header.len()) % 64));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    bytes
}

/// The rows of an answer, each as an object.
pub(crate) fn rows(answer: &Value) -> Vec<Value> {
    let columns: Vec<String> = serde_json::from_value(answer["columns"].clone()).unwrap();
    let rows: Vec<Vec<Value>> = serde_json::from_value(answer["rows"].clone()).unwrap();
    assert!(rows.iter().all(|row| row.len() == columns.len()));
    rows.into_iter().map(|row| columns.iter().cloned().zip(row).collect()).collect()
}

/// A plan for the training images of [`digits`].
pub(crate) const DIGITS_PLAN: &str = r#"
[privacy]
delta = 1e-5
noise_multiplier = 4.0

[sampling]
batch = 8
steps = 3

[data]
format = "idx"
train = "digits"

[model]
name = "linear"

[optimiser]
learning_rate = 1.0
"#;
