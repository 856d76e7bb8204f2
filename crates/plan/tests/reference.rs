//! The reference page is what the declarations of keys say.
#![allow(clippy::unwrap_used, reason = "a test")]

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
