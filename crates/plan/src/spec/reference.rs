//! The reference page of all keys.

use std::fmt::Write;

use super::keys::{Key, KeySection, Kind, SECTIONS};

/// Every key with what it takes, what it means and what its default is, section by section, in Markdown: the page `docs/plan.md`.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Every key of a plan\n\n\
         This page is written by the program (`dapple keys --markdown`) from the declarations in `crates/plan/src/spec`, and a test compares\n\
         the two. A plan is a TOML file; a key is given there, by its flag where it has one, by `--set section.key=value`, or in Python by a\n\
         keyword or by its dotted name in `set`. Flags lie over the file, settings over both.\n",
    );
    for KeySection { name, about, keys } in SECTIONS {
        // Writing to a string cannot fail.
        let _ = write!(
            page,
            "\n## `[{name}]`\n{}.\n\n| key | flag | takes | is | default |\n|---|---|---|---|---|\n",
            capitalised(about)
        );
        keys.iter().for_each(|key| page.push_str(&row(key)));
    }
    let phases: Vec<String> = SECTIONS
        .iter()
        .flat_map(|section| section.keys)
        .filter(|key| key.in_phases())
        .map(|key| format!("`{}`", key.name()))
        .collect();
    let _ = write!(
        page,
        "\n## `[[phases]]`\nParts of the run, in order. Each may give {}; what it leaves out is as in the sections.\n",
        phases.join(", ")
    );
    page
}

fn row(key: &Key) -> String {
    let flag = key.flag.map_or_else(String::new, |flag| format!("`--{flag} {}`", key.value));
    let takes = match key.kind {
        Kind::Word | Kind::Text if !key.choices.is_empty() => {
            key.choices.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        kind => format!("{}, e.g. {}", kind.words(), key.toml_example()),
    };
    let others: Vec<String> = key.instead_of.iter().map(|path| format!("`{path}`")).collect();
    let instead =
        if others.is_empty() { String::new() } else { format!("; in the place of {}", others.join(", ")) };
    let default = key.default.unwrap_or_default();
    let cells =
        [format!("`{}`", key.name()), flag, takes, format!("{}{instead}", key.meaning), default.to_owned()];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
