//! `dapple account`: the privacy of a plan.

use clap::Args;
use dapple_plan::{CertificateDocument, SolvedUnknown, TradeOffPoint, number};
use serde::Serialize;

use super::calibrate::words;
use super::explain::{Baselines, Factor, explain};
use crate::args::{Common, Width};
use crate::failure::Failure;
use crate::load::PricingRequest;
use crate::output;

/// Prices a plan: epsilon in a certified bracket, and what it protects from whom
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  dapple account --batch 256 --records 60000 --epochs 20 --noise-multiplier 1 --delta 1e-5
  dapple account --image 1000x1000 --crop 100x100 --patch 10x10 --batch 100 --records 3000 \\
      --epochs 100 --noise-multiplier 1 --delta 1e-5 --explain
  dapple account plan.toml --set sampling.epochs=50 --statement")]
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
    certificate: CertificateDocument<'a>,
    /// What tests between neighbouring data sets can reach, where the whole curve is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    trade_off: Option<Vec<TradeOffPoint>>,
    /// What the plan leaves to its epsilon.
    #[serde(skip_serializing_if = "Option::is_none")]
    solved: Option<SolvedUnknown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a [Factor]>,
}

/// The answer for a plan that trains without privacy.
#[derive(Serialize)]
struct Unpriced {
    epsilon: Option<f64>,
    private: bool,
    protects: &'static str,
}

const NOTHING: &str = "nothing: train.private = false, so nothing is clipped and no noise is added";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let precision = arguments.width.precision();
    let mut request = PricingRequest::spatial(&arguments.common)?;
    if request.is_without_privacy() {
        return match arguments.common.output.json {
            true => output::print_json(&Unpriced { epsilon: None, private: false, protects: NOTHING }),
            false => output::print(&format!("{:<16}  none\n{:<16}  {NOTHING}\n", "epsilon", "protects")),
        };
    }
    let solved = request.settle()?;
    let plan = request.plan()?;
    let certificate = plan.price(precision)?;
    let factors = arguments
        .explain
        .then(|| explain(&plan, &certificate, arguments.baselines, precision))
        .transpose()?;
    if arguments.common.output.json {
        return output::print_json(&Answer {
            certificate: certificate.document(),
            trade_off: plan.trade_off_points(precision)?,
            solved,
            explanation: factors.as_deref(),
        });
    }
    if arguments.statement {
        let curve = plan.trade_off_points(precision)?;
        let section = curve.map_or_else(String::new, |points| TradeOffPoint::section(&points));
        return output::print(&(certificate.statement() + &section));
    }
    let mut text = certificate.text();
    if let Some(solved) = solved {
        let found = words(&solved);
        text.push_str(&format!("{:<16}  {} {found}, for the target epsilon\n", "solved", solved.name));
    }
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
