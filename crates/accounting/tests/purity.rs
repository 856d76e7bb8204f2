//! The crates that carry the numbers touch no files, clock, environment, threads or randomness, so that they run anywhere.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

const PURE: [&str; 3] = ["accounting", "geometry", "plan"];
const FORBIDDEN: [&str; 9] = [
    "std::fs",
    "std::time",
    "std::env",
    "std::thread",
    "std::net",
    "std::process",
    "std::io",
    "rayon",
    "rand",
];
/// What pure crates may depend on.
const ALLOWED: [&str; 11] = [
    "libm",
    "puruspe",
    "realfft",
    "thiserror",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "toml",
    "dapple-accounting",
    "dapple-geometry",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { sources(&path, found) } else { found.push(path) }
    }
}

#[test]
fn pure_crates_stay_pure() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in PURE {
        let mut files = vec![];
        sources(&crates.join(name).join("src"), &mut files);
        assert!(files.len() > 3, "{name} has sources");
        for path in files {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            for line in code {
                for word in FORBIDDEN {
                    assert!(!line.contains(&format!("{word}::")), "{} uses {word}: {line}", path.display());
                }
            }
        }
        let manifest = std::fs::read_to_string(crates.join(name).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
        for line in dependencies.lines().filter(|line| !line.trim().is_empty()) {
            let dependency = line.split(['.', ' ', '=']).next().unwrap();
            assert!(ALLOWED.contains(&dependency), "{name} depends on {dependency}");
        }
    }
}
