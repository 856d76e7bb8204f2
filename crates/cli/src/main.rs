//! The `dapple` command line: results on stdout, talk on stderr.
//!
//! Exit codes: 0 done, 1 the run failed, 2 the request was wrong (with a `hint:` line), 130 interrupted.

#![forbid(unsafe_code)]

mod args;
mod failure;
mod load;
mod output;
mod pictures;
mod ranges;
mod reproduce;
mod verbs;

use std::process::ExitCode;

use args::Cli;
use clap::Parser;
use failure::Failure;

fn main() -> ExitCode {
    // Files appear by one rename each, so an interrupt at any moment leaves none half-written. Where no handler can be set,
    // the signal itself ends the process with the same code as seen by a shell.
    let _ = ctrlc::set_handler(|| std::process::exit(130));
    let done = match Cli::try_parse() {
        Ok(cli) => verbs::run(cli.verb),
        Err(error) => Err(Failure::from(error)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
