//! `dapple account`: the privacy of a plan.

use clap::Args;
use dapple_plan::{Certificate, number};
use serde::Serialize;

use super::explain::{Baselines, Factor, explain};
use crate::args::{Common, Width};
use crate::failure::Failure;
use crate::load::Request;
use crate::output;

/// Prices a plan: epsilon in a certified bracket, and what it protects from whom
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Shows every factor and what it is worth
    #[arg(long, conflicts_with = "statement")]
    explain: bool,
    /// Prints a statement for a reviewer, in Markdown
    #[arg(long, visible_alias = "markdown", conflicts_with = "json")]
    statement: bool,
    #[command(flatten)]
    baselines: Baselines,
    #[command(flatten)]
    width: Width,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    certificate: &'a Certificate,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a [Factor]>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let precision = arguments.width.precision();
    let plan = Request::load(&arguments.common)?.plan()?;
    let certificate = plan.price(precision)?;
    let factors = arguments
        .explain
        .then(|| explain(&plan, &certificate, arguments.baselines, precision))
        .transpose()?;
    if arguments.common.json {
        return output::print_json(&Answer { certificate: &certificate, explanation: factors.as_deref() });
    }
    if arguments.statement {
        return output::print(&certificate.statement());
    }
    let mut text = certificate.text();
    if let Some(target) = plan.target_epsilon() {
        let met = if certificate.epsilon.upper <= target { "met" } else { "not met" };
        text.push_str(&format!("{:<16}  {} ({met})\n", "target epsilon", number::exact(target)));
    }
    if let Some(factors) = factors {
        text.push('\n');
        text.push_str(&super::explain::text(&factors)?);
    }
    output::print(&text)
}
