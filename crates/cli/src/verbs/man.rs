//! `dapple man`: manual pages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::args::Cli;
use crate::failure::Failure;
use crate::output;

/// Writes manual pages, one for each verb
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder to write them to; it is made if it does not exist
    folder: PathBuf,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let failed =
        |error: std::io::Error| Failure::run(format!("cannot write to {}: {error}", folder.display()));
    if folder.exists() && !folder.is_dir() {
        return Err(Failure::request(
            format!("{} is not a folder", folder.display()),
            "give the name of a folder",
        ));
    }
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    for verb in std::iter::once(&command).chain(command.get_subcommands()) {
        let name = verb.get_display_name().unwrap_or_else(|| verb.get_name()).to_owned();
        let mut page = Vec::new();
        clap_mangen::Man::new(verb.clone()).render(&mut page).map_err(failed)?;
        pages.push((format!("{name}.1"), page));
    }
    fs::create_dir_all(folder).map_err(failed)?;
    for (name, page) in pages {
        output::write_file(&folder.join(name), &page, arguments.quiet)?;
    }
    Ok(())
}
