//! Experiments that train: several runs in one folder, each carried out once and read ever after.
//!
//! An experiment is a list of [`Setting`]s, a plan for each, and a [`Place`]. [`measure`] carries the runs out, several at once where
//! cores and memory allow, and [`groups()`] takes means over seeds. `dapple sweep-train`, `dapple demo` and the figures of
//! `dapple reproduce` that train are all made of this.

mod groups;
mod measured;
mod memory;
mod method;
mod rows;
mod run;
pub(crate) mod scenes;
mod setting;
mod show;
mod together;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::failure::Failure;

pub(crate) use groups::{Group, groups, moments};
pub(crate) use measured::{Measured, measure};
pub(crate) use method::{Level, Method};
pub(crate) use rows::{full, group_rows, run_rows, whole};
pub(crate) use run::{Finished, Planned, full_path};
pub(crate) use setting::Setting;
pub(crate) use show::{means_line, sweep_chart, sweep_table};
pub(crate) use together::carry_out;

/// Where the runs of an experiment lie: a folder that stays, or one that goes away with the experiment.
#[derive(Debug)]
pub(crate) enum Place {
    Kept(PathBuf),
    Passing(TempDir),
}

impl Place {
    pub(crate) fn new(kept: Option<&Path>) -> Result<Self, Failure> {
        match kept {
            Some(path) => Ok(Self::Kept(path.to_owned())),
            None => TempDir::with_prefix("dapple-").map(Self::Passing).map_err(|error| {
                Failure::run(format!("no temporary folder can be made: {error}")).with_hint("give --out DIR")
            }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Passing(folder) => folder.path(),
        }
    }
}
