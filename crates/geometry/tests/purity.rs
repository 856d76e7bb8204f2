//! The crate touches no files, clock, environment, threads or randomness.
#![allow(clippy::unwrap_used, reason = "a test")]

#[test]
fn the_library_is_pure() {
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(sources).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for forbidden in
            ["std::fs", "std::time", "std::env", "std::thread", "std::net", "std::process", "rand::"]
        {
            assert!(!text.contains(forbidden), "{} uses {forbidden}", path.display());
        }
    }
}
