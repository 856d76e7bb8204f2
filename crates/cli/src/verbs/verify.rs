//! `dapple verify`: whether a run folder tells the truth.

use std::path::PathBuf;

use clap::Args;
use dapple_plan::{Bracket, number};
use dapple_train::{RunCertificate, Verdict};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;

/// Replays the ledger of a run, computes epsilon anew, and compares everything else in its folder with that
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 the folder is valid, 1 it is not.

Example:
  dapple verify runs/first")]
pub(crate) struct Arguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The hash of the ledger's last line, as it was kept elsewhere
    #[arg(long, value_name = "HASH")]
    expect_head: Option<String>,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct Valid<'a> {
    valid: bool,
    epsilon: Option<Bracket>,
    delta: Option<f64>,
    steps: u64,
    head: &'a str,
    not_compared: &'a [&'static str],
}

#[derive(Serialize)]
struct Invalid<'a> {
    valid: bool,
    reason: &'a str,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match dapple_train::verify(&arguments.folder, arguments.expect_head.as_deref())? {
        Verdict::Valid { certificate, not_compared } => show(arguments, &certificate, &not_compared),
        Verdict::Invalid { reason } => {
            match arguments.output.json {
                true => output::print_json(&Invalid { valid: false, reason: &reason })?,
                false => output::print(&format!("INVALID  {reason}"))?,
            }
            Err(Failure::Told)
        }
    }
}

fn show(
    arguments: &Arguments,
    certificate: &RunCertificate,
    not_compared: &[&'static str],
) -> Result<(), Failure> {
    let spent = certificate.spent.as_ref();
    if arguments.output.json {
        // Before the first step nothing is released, so epsilon is 0.
        let nothing = certificate.private.then_some(Bracket::ZERO);
        return output::print_json(&Valid {
            valid: true,
            epsilon: spent.map(|price| price.epsilon).or(nothing),
            delta: certificate.planned.as_ref().map(|price| price.delta),
            steps: certificate.steps_spent,
            head: &certificate.ledger,
            not_compared,
        });
    }
    let epsilon = match (spent, certificate.private) {
        (Some(price), _) => {
            format!("<= {} at delta {}", number::up(price.epsilon.upper, 4), number::brief(price.delta))
        }
        (None, true) => "0: no step was taken".to_owned(),
        (None, false) => "none: nothing is guaranteed".to_owned(),
    };
    let mut lines = vec![
        ("VALID", String::new()),
        ("steps", certificate.steps_spent.to_string()),
        ("epsilon spent", epsilon),
        ("ledger", certificate.ledger.clone()),
    ];
    if !not_compared.is_empty() {
        lines.push(("not at hand", not_compared.join(", ")));
    }
    let lines = lines.iter().map(|(name, value)| output::wrapped(name, value));
    output::print(&lines.collect::<String>())?;
    for warning in &certificate.warnings {
        output::say(arguments.output.quiet, &format!("warning: {warning}"));
    }
    Ok(())
}
