//! `dapple report`: the page of a run.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::{output, run_page};

/// Writes the page of a run, from what the run has released: nothing in it is beyond its certificate
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where the page goes [default: DIR/report.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = arguments.html.clone().unwrap_or_else(|| arguments.folder.join("report.html"));
    let page = run_page::page(&arguments.folder)?;
    output::check_target("html", &target)?;
    output::write_file(&target, page.to_html().as_bytes(), arguments.quiet)
}
