//! `dapple report`: the page of a run, and its figures.

use std::path::PathBuf;

use clap::Args;
use dapple_pages::RunPage;
use dapple_report::Theme;
use dapple_train::RunCertificate;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// Writes the page of a run, from what the run has released: nothing in it is beyond its certificate, which is computed from the ledger
#[derive(Debug, Args)]
#[command(after_help = "Example:
  dapple report runs/first --figures paper --bare")]
pub(crate) struct Arguments {
    /// The folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where the page goes [default: DIR/report.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Writes each figure of the page, too, as NAME.svg and NAME.pdf
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Leaves titles and notes out of these figures, for a paper that has words of its own
    #[arg(long, requires = "figures")]
    bare: bool,
    /// Prints JSON: where the page and the figures are, and the certificate
    #[arg(long)]
    json: bool,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    report: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    figures: Vec<String>,
    #[serde(flatten)]
    certificate: &'a RunCertificate,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let target = arguments.html.clone().unwrap_or_else(|| arguments.folder.join("report.html"));
    let certificate = dapple_train::certify(&arguments.folder)?;
    output::check_target("html", &target)?;
    let made = RunPage::of(&arguments.folder, &certificate)?;
    let figures = write_figures(arguments, &made)?;
    let page = made.page.command(output::shown_command_line());
    output::write_file(&target, page.to_html().as_bytes(), arguments.quiet)?;
    if arguments.json {
        let report = target.display().to_string();
        return output::print_json(&Answer { report, figures, certificate: &certificate });
    }
    Ok(())
}

/// Writes the figures that were asked for; the names of their files.
fn write_figures(arguments: &Arguments, made: &RunPage) -> Result<Vec<String>, Failure> {
    let Some(folder) = &arguments.figures else { return Ok(Vec::new()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::run(format!("cannot make the folder {}: {error}", folder.display())))?;
    let mut written = Vec::new();
    for figure in &made.figures {
        let graphic = figure.graphic(arguments.bare);
        let files = [("svg", graphic.to_svg(Theme::Auto).into_bytes()), ("pdf", graphic.to_pdf()?)];
        for (ending, bytes) in files {
            let target = folder.join(format!("{}.{ending}", figure.name));
            output::write_file(&target, &bytes, arguments.quiet)?;
            written.push(target.display().to_string());
        }
    }
    Ok(written)
}
