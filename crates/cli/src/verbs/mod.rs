//! One file a verb.

pub(crate) mod account;
pub(crate) mod calibrate;
pub(crate) mod completions;
mod explain;
pub(crate) mod inclusion;
pub(crate) mod man;
pub(crate) mod profile;
pub(crate) mod sweep;

use crate::args::Verb;
use crate::failure::Failure;

/// Runs a verb.
pub(crate) fn run(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Account(arguments) => account::run(&arguments),
        Verb::Calibrate(arguments) => calibrate::run(&arguments),
        Verb::Profile(arguments) => profile::run(&arguments),
        Verb::Sweep(arguments) => sweep::run(&arguments),
        Verb::Inclusion(arguments) => inclusion::run(&arguments),
        Verb::Reproduce(arguments) => crate::reproduce::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments),
    }
}
