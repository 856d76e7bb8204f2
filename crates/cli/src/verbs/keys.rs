//! `dapple keys`: every key of a plan.

use clap::Args;
use clap::builder::PossibleValuesParser;
use dapple_plan::spec::keys::{Key, KeySection, SECTIONS};
use dapple_plan::spec::reference;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// Lists the keys of a plan: what each is, takes and defaults to
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple keys
  dapple keys sampling
  dapple keys optimiser --json")]
pub(crate) struct Arguments {
    /// Only this section
    #[arg(value_name = "SECTION", value_parser = sections())]
    section: Option<String>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Prints the reference page of all sections
    #[arg(long, conflicts_with_all = ["json", "section"])]
    markdown: bool,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

fn sections() -> PossibleValuesParser {
    PossibleValuesParser::new(SECTIONS.iter().map(|section| section.name))
}

/// A key as programs read it.
#[derive(Serialize)]
struct Declared {
    key: &'static str,
    flag: Option<&'static str>,
    takes: &'static str,
    choices: &'static [&'static str],
    meaning: &'static str,
    example: &'static str,
    default: Option<&'static str>,
    instead_of: &'static [&'static str],
    in_phases: bool,
}

impl From<&Key> for Declared {
    fn from(key: &Key) -> Self {
        Self {
            key: key.path,
            flag: key.flag,
            takes: key.kind.words(),
            choices: key.choices,
            meaning: key.meaning,
            example: key.example,
            default: key.default,
            instead_of: key.instead_of,
            in_phases: key.in_phases(),
        }
    }
}

#[derive(Serialize)]
struct Answer {
    keys: Vec<Declared>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.markdown {
        return output::print(&reference::markdown());
    }
    let asked = |section: &&KeySection| arguments.section.as_deref().is_none_or(|name| name == section.name);
    let sections = SECTIONS.iter().filter(asked);
    if arguments.json {
        let keys = sections.flat_map(|section| section.keys).map(Declared::from).collect();
        return output::print_json(&Answer { keys });
    }
    output::print(&sections.map(text).collect::<Vec<_>>().join("\n"))
}

fn text(section: &KeySection) -> String {
    let mut text = format!("[{}]  {}\n", section.name, section.about);
    for key in section.keys {
        let flag = key.flag.map_or_else(String::new, |flag| format!("  (--{flag} {})", key.value));
        text.push_str(&format!("  {}{flag}\n      {}\n", key.name(), key.meaning));
        match key.choices {
            [] => text.push_str(&format!("      takes {}, e.g. {}\n", key.kind.words(), key.example)),
            words => text.push_str(&format!("      one of {}\n", words.join(", "))),
        }
        if let Some(default) = key.default {
            text.push_str(&format!("      default: {default}\n"));
        }
    }
    text
}
