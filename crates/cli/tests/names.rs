//! A type's name means one thing in the workspace.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names that several types share because they mean the same, with that meaning.
const SAME: &[(&str, &str)] = &[
    ("Answer", "what answers a question; each verb of the command line has its own"),
    ("Arguments", "what a verb of the command line is given; each verb has its own"),
    ("Inclusion", "the geometry's, and what Python sees of it"),
    ("Result", "a crate's shorthand for results with its own error"),
    ("Sampler", "the data's, and what Python sees of it"),
];

/// Where types are declared, by their names.
type Places = BTreeMap<String, BTreeSet<String>>;

/// The name of the type that a line declares. Associated types do not count, so aliases are only looked for at the margin.
fn declared(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => code,
    };
    let (keyword, rest) = code.split_once(' ')?;
    let counts = match keyword {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    (counts && name.starts_with(|letter: char| letter.is_ascii_uppercase())).then_some(name)
}

/// The types of a file, but for those of its test module, which comes last.
fn types(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter_map(declared)
}

/// Every Rust file below a folder that is no module of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !stem.ends_with("tests") {
            found.push(path);
        }
    }
}

/// Where every type of the workspace is declared.
fn places() -> Places {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for one in fs::read_dir(crates).unwrap() {
        sources(&one.unwrap().path().join("src"), &mut files);
    }
    let mut places = Places::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(crates).unwrap().display().to_string();
        for declared in types(&text) {
            places.entry(declared.to_owned()).or_default().insert(name.clone());
        }
    }
    places
}

/// Complaints about names that are in several files but not listed, and about listed names that are not.
fn complaints(places: &Places, listed: &[&str]) -> Vec<String> {
    let shared: BTreeMap<&str, &BTreeSet<String>> = places
        .iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(name, files)| (name.as_str(), files))
        .collect();
    let new = shared.iter().filter(|(name, _)| !listed.contains(name));
    let new =
        new.map(|(name, files)| format!("`{name}` is declared in {files:?}: give each a name of its own"));
    let gone = listed.iter().filter(|name| !shared.contains_key(**name));
    new.chain(gone.map(|name| format!("`{name}` is declared in one file at most: take it off the list")))
        .collect()
}

#[test]
fn a_name_means_one_thing() {
    let listed: Vec<&str> = SAME.iter().map(|(name, _)| *name).collect();
    let complaints = complaints(&places(), &listed);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn new_homonyms_and_listed_names_that_are_none_are_found() {
    let text = "pub(in crate::here) struct Window<'a> {\n    type Item = f64;\n}\ntype Short = f64;\n\n\
                #[cfg(test)]\nmod tests {\n    struct Case;\n}\n";
    let found: Vec<&str> = types(text).collect();
    assert_eq!(found, ["Window", "Short"]);
    let files = |files: &[&str]| files.iter().map(|file| (*file).to_owned()).collect();
    let places: Places = [
        ("Window".to_owned(), files(&["a.rs", "b.rs"])),
        ("Result".to_owned(), files(&["a.rs", "b.rs"])),
        ("Step".to_owned(), files(&["a.rs"])),
    ]
    .into();
    let found = complaints(&places, &["Result", "Step"]);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("`Window` is declared in"), "{found:?}");
    assert!(found[1].starts_with("`Step` is declared in one file at most"), "{found:?}");
}
