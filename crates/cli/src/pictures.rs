//! The files to which a curve or a sweep may be written.

use std::path::{Path, PathBuf};

use clap::Args;
use dapple_report::{Figure, Page, Table, Theme};

use crate::failure::Failure;
use crate::output;

/// Pixels per unit of a figure drawn as PNG.
const SCALE: f64 = 2.0;

#[derive(Debug, Args)]
pub(crate) struct Pictures {
    /// Writes the numbers as comma-separated values
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    csv: Option<PathBuf>,
    /// Draws the figure as SVG
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    svg: Option<PathBuf>,
    /// Draws the figure as PNG
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    png: Option<PathBuf>,
    /// Draws the figure as PDF
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    pdf: Option<PathBuf>,
    /// Draws the files of the figure without title and notes, for a paper that has words of its own
    #[arg(long, help_heading = "Files")]
    bare: bool,
    /// Writes figure and numbers as one HTML page that needs no network
    #[arg(long, value_name = "FILE", help_heading = "Files")]
    html: Option<PathBuf>,
}

impl Pictures {
    /// Refuses names that cannot be written, before any work is done.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let targets = [
            ("csv", &self.csv),
            ("svg", &self.svg),
            ("png", &self.png),
            ("pdf", &self.pdf),
            ("html", &self.html),
        ];
        for (flag, path) in targets {
            path.as_deref().map_or(Ok(()), |path| output::check_target(flag, path))?;
        }
        Ok(())
    }

    /// Writes what was asked for.
    pub(crate) fn write(
        &self,
        quiet: bool,
        numbers: &Table,
        figure: &Figure,
        page: impl FnOnce() -> Page,
    ) -> Result<(), Failure> {
        let write = |path: &Path, bytes: &[u8]| output::write_file(path, bytes, quiet);
        if let Some(path) = &self.csv {
            write(path, numbers.to_csv().as_bytes())?;
        }
        let bare = self.bare.then(|| figure.clone().bare());
        let figure = bare.as_ref().unwrap_or(figure);
        if let Some(path) = &self.svg {
            write(path, figure.to_svg(Theme::Auto).as_bytes())?;
        }
        if let Some(path) = &self.png {
            write(path, &figure.to_png(Theme::Light, SCALE)?)?;
        }
        if let Some(path) = &self.pdf {
            write(path, &figure.to_pdf()?)?;
        }
        if let Some(path) = &self.html {
            write(path, page().command(output::shown_command_line()).to_html().as_bytes())?;
        }
        Ok(())
    }
}
