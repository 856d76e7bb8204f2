//! The reference page and the types of Python's keywords agree with the declarations of keys.
#![allow(clippy::unwrap_used, reason = "a test")]

use dapple_plan::spec::keys::SECTIONS;

#[test]
fn the_page_of_all_keys_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.md");
    let written = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        written,
        dapple_plan::spec::reference::markdown(),
        "write the page anew: dapple keys --markdown > docs/plan.md"
    );
}

/// In sections that have flags, Python takes keys as keywords, under their flags or else under their own names.
#[test]
fn every_key_that_python_takes_is_declared_as_a_keyword() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/dapple/_dapple.pyi");
    let stub = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = stub.lines().map(str::trim).collect();
    let with_flags = SECTIONS.iter().filter(|section| section.keys.iter().any(|key| key.flag.is_some()));
    for key in with_flags.flat_map(|section| section.keys) {
        let keyword = format!("{}: ", key.flag.unwrap_or_else(|| key.name()).replace('-', "_"));
        let default = key.default.map_or_else(String::new, |default| format!(" (default: {default})"));
        let meaning = format!("\"\"\"{}{default}\"\"\"", key.meaning);
        let declared = lines.windows(2).any(|pair| pair[0].starts_with(&keyword) && pair[1] == meaning);
        assert!(declared, "{}: write the types anew with python/stubs", key.path);
    }
}
