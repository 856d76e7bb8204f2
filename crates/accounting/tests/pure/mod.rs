//! Whether a crate touches files, clock, environment, threads or randomness. Those that carry the numbers do not, so that they run anywhere.

mod paths;

use std::path::{Path, PathBuf};

pub(crate) use paths::paths;

/// Modules of `std` that reach outside a computation.
const OUTSIDE: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "thread", "time"];
/// Crates that do.
const CRATES: [&str; 5] = ["chacha20", "getrandom", "rand", "rand_core", "rayon"];
/// What pure crates may depend on.
const ALLOWED: [&str; 13] = [
    "libm",
    "puruspe",
    "realfft",
    "thiserror",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "strsim",
    "toml",
    "dapple-accounting",
    "dapple-geometry",
    "dapple-number",
];

/// The first path in a source text that reaches outside. All of `std` under another name, or by a glob, could reach anywhere.
pub(crate) fn impurity(source: &str) -> Option<String> {
    let reaches = |path: &Vec<String>| {
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        match segments[..] {
            ["std"] | ["std", "*" | "self"] => true,
            ["std", module, ..] => OUTSIDE.contains(&module),
            [name, ..] => CRATES.contains(&name),
            [] => false,
        }
    };
    paths(source).into_iter().find(reaches).map(|path| path.join("::"))
}

/// Holds the sources and the dependencies of a crate of the workspace to it.
pub(crate) fn assert_pure(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name);
    let mut files = vec![];
    sources(&folder.join("src"), &mut files);
    assert!(files.len() > 3, "{name} has sources");
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(impurity(&text), None, "{}", path.display());
    }
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let dependencies =
        manifest.split("[dependencies]").nth(1).unwrap_or_default().split("\n[").next().unwrap();
    for line in dependencies.lines().filter(|line| !line.trim().is_empty()) {
        let dependency = line.split(['.', ' ', '=']).next().unwrap();
        assert!(ALLOWED.contains(&dependency), "{name} depends on {dependency}");
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { sources(&path, found) } else { found.push(path) }
    }
}
