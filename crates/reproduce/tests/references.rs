//! The papers that figures come from are cited.

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
