//! `dapple report`: the page of a run.

use std::path::PathBuf;

use clap::Args;
use dapple_train::RunCertificate;
use serde::Serialize;

use crate::failure::Failure;
use crate::{output, run_page};

/// Writes the page of a run, from what the run has released: nothing in it is beyond its certificate, which is computed from the ledger
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where the page goes [default: DIR/report.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Prints JSON: where the page is, and the certificate
    #[arg(long)]
    json: bool,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    report: String,
    #[serde(flatten)]
    certificate: &'a RunCertificate,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = arguments.html.clone().unwrap_or_else(|| arguments.folder.join("report.html"));
    let certificate = dapple_train::certify(&arguments.folder)?;
    output::check_target("html", &target)?;
    let page = run_page::page(&arguments.folder, &certificate)?;
    output::write_file(&target, page.to_html().as_bytes(), arguments.quiet)?;
    if arguments.json {
        let report = target.display().to_string();
        return output::print_json(&Answer { report, certificate: &certificate });
    }
    Ok(())
}
