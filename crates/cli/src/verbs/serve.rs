//! `dapple serve`: a page in the browser over one plan.

use clap::Args;
use dapple_plan::PlanSpec;
use dapple_serve::Explorer;

use crate::args::Common;
use crate::failure::Failure;
use crate::load::PricingRequest;
use crate::output;

/// What the page begins with where no plan is given: crops of street scenes.
const FIRST: &str = include_str!("first-plan.toml");

/// Opens a page for the browser in which a plan is priced while its numbers are dragged
#[derive(Debug, Args)]
#[command(
    after_help = "The page is at an address of this machine alone, which holds a secret; it opens no files and asks nobody else. Interrupt to end it.

Example:
  dapple serve plan.toml"
)]
pub(crate) struct Arguments {
    /// The port of 127.0.0.1 that serves the page [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let nothing = common.plan().is_none() && common.set.is_empty() && common.flags.0.is_empty();
    let PricingRequest { spec, masks } = match nothing {
        true => PricingRequest { spec: PlanSpec::from_toml(FIRST)?, masks: Vec::new() },
        false => PricingRequest::load(common)?,
    };
    let mut told = Ok(());
    dapple_serve::serve(Explorer::new(spec, masks), arguments.port, |address| {
        told = match common.output.json {
            true => output::print_json(&serde_json::json!({ "url": address.url, "port": address.port })),
            false => output::print(&format!("{}\n", address.url)),
        };
    })?;
    told
}
