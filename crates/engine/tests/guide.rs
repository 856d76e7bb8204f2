//! Checks that the page on adding an operation names files that exist, and shows lines that they have.
#![allow(clippy::unwrap_used)]

use std::path::Path;

const PAGE: &str = include_str!("../../../docs/contributing/add-an-operation.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The files that a part of the page names.
fn files(text: &str) -> Vec<&str> {
    text.split('`').filter(|word| word.starts_with("crates/")).collect()
}

#[test]
fn the_files_it_names_exist() {
    let named = files(PAGE);
    assert!(named.len() > 10, "{named:?}");
    for file in named {
        assert!(root().join(file).is_file(), "{file}");
    }
}

#[test]
fn the_lines_it_shows_are_in_the_files() {
    let parts: Vec<&str> = PAGE.split("```").collect();
    let mut shown = 0;
    for (index, lines) in parts.iter().enumerate().filter(|(index, _)| index % 2 == 1) {
        let lines = lines.strip_prefix("rust\n").unwrap().trim_end();
        let before = parts[..index].concat();
        let sources =
            files(&before).into_iter().map(|file| std::fs::read_to_string(root().join(file)).unwrap());
        assert!(sources.into_iter().any(|source| source.contains(lines)), "{lines}");
        shown += 1;
    }
    assert_eq!(shown, 7);
}

#[test]
fn it_is_found_from_the_guide_for_contributors() {
    let guide = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    assert!(guide.contains("(docs/contributing/add-an-operation.md)"));
}
