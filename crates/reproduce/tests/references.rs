//! The papers that figures come from are cited, and named where they are cited.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use dapple_reproduce::Paper;

const BIBLIOGRAPHY: &str = include_str!("../../../docs/references.bib");
const PAGE: &str = include_str!("../../../docs/references.md");

#[test]
fn every_paper_is_in_the_bibliography_and_on_its_page() {
    for paper in Paper::ALL {
        let title = paper.title();
        assert!(BIBLIOGRAPHY.contains(&format!("= {{{title}}},")), "{title}");
        assert!(PAGE.contains(&format!("*{title}*")), "{title}");
    }
}

/// A letter that stands for a paper, and the names of which one must stand where the letter is used.
const LETTERS: [(char, [&str; 2]); 4] = [
    ('P', ["patch-level paper", "Amplified Patch-Level Differential Privacy"]),
    ('M', ["masked paper", "Masked Differential Privacy"]),
    ('D', ["partitioning paper", "Model and Data Partitioning"]),
    ('X', ["DP-Mix", "Mixup-based Data Augmentation"]),
];

/// What is cited from papers.
const PARTS: [&str; 12] = [
    "Theorem",
    "Lemma",
    "Corollar",
    "Proposition",
    "Definition",
    "Remark",
    "Algorithm",
    "Figure",
    "Table",
    "section",
    "appendix",
    "equation",
];

/// The letters by which a text cites papers that it does not name.
fn unnamed(text: &str) -> Vec<char> {
    // A name may stand on two lines.
    let words = text.split_whitespace().filter(|word| !["//!", "///", "//"].contains(word));
    let text = words.collect::<Vec<_>>().join(" ");
    let cites = |letter: char, part: &str| {
        [' ', '('].iter().any(|before| text.contains(&format!("{before}{letter} {part}")))
    };
    let unnamed = LETTERS.iter().filter(|(letter, names)| {
        PARTS.iter().any(|part| cites(*letter, part)) && !names.iter().any(|name| text.contains(name))
    });
    unnamed.map(|(letter, _)| *letter).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_text = path.extension().is_some_and(|ending| ending == "rs" || ending == "md");
        if path.is_dir() {
            files(&path, found);
        } else if is_text {
            found.push(path);
        }
    }
}

#[test]
fn a_letter_alone_is_noticed() {
    assert_eq!(unnamed("as in P Lemma 1 (X section 2)"), ['P', 'X']);
    assert_eq!(unnamed("/// the patch-level\n/// paper (P); as in P Lemma 1"), []);
    assert_eq!(unnamed("P(X > 1) and plan D"), []);
}

#[test]
fn letters_are_used_where_their_paper_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["crates", "docs"] {
        files(&root.join(folder), &mut found);
    }
    assert!(found.len() > 300);
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        // This file shows what a letter alone looks like.
        if !path.ends_with("reproduce/tests/references.rs") {
            assert_eq!(unnamed(&text), [], "{}: docs/references.md has the names", path.display());
        }
    }
}
