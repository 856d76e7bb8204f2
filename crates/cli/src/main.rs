//! The `dapple` command line: results on stdout, talk on stderr.
//!
//! Exit codes: 0 done, 1 the run failed, 2 the request was wrong (with a `hint:` line), 130 interrupted.

// Input arrives here, and it may be anything.
#![warn(clippy::expect_used)]
#![forbid(unsafe_code)]

mod args;
mod budget;
mod failure;
mod interrupt;
mod load;
mod look;
mod machine;
mod output;
mod pictures;
mod progress;
mod ranks;
mod shell_words;
mod verbs;

use std::process::ExitCode;

use args::Cli;
use clap::Parser;
use failure::Failure;

fn main() -> ExitCode {
    interrupt::install();
    let done = match Cli::try_parse() {
        Ok(cli) => verbs::run(cli.verb),
        Err(error) => Err(Failure::from(error)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
