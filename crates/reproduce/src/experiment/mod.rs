//! Experiments that train: several runs in one folder, each carried out once and read ever after.
//!
//! An experiment is a list of [`Setting`]s, a plan for each, and an [`ExperimentFolder`]. [`Experiment::measure`] carries the runs out, several at once where
//! cores and memory allow, and [`groups()`] takes means over seeds. `dapple sweep-train`, `dapple demo` and the figures of
//! `dapple reproduce` that train are all made of this.

mod groups;
mod measured;
mod memory;
mod method;
mod rows;
mod run;
pub mod scenes;
mod setting;
mod show;
pub mod streets;
mod together;

use std::path::{Path, PathBuf};

use dapple_plan::spec::{DeviceChoice, FactorPrecision, Performance};
use tempfile::TempDir;

use crate::Watch;
use crate::error::{ReproduceError, Result};

pub use groups::{RunGroup, groups, moments};
pub use measured::MeasuredRun;
pub use method::{Level, Method};
pub use rows::{group_rows, run_rows};
pub use run::{FinishedRun, PlannedRun, full_path};
pub use setting::Setting;
pub use show::{means_line, sweep_chart, sweep_table};

/// Several runs that are carried out together.
#[derive(Clone)]
pub struct Experiment<'a> {
    /// The folder that holds a folder for each run, under the run's name.
    pub place: &'a Path,
    /// How many runs train at once; `None` for as many as cores and memory allow.
    pub jobs: Option<usize>,
    /// Where all runs compute; `None` for what their plans say.
    pub device: Option<DeviceChoice>,
    /// How a GPU rounds the factors of products in all runs; `None` for what their plans say.
    pub precision: Option<FactorPrecision>,
    /// Is told of every run.
    pub watch: &'a dyn Watch,
}

impl Experiment<'_> {
    /// What replaces the settings of every plan.
    fn performance(&self) -> Performance {
        Performance { device: self.device.clone(), precision: self.precision, ..Performance::default() }
    }

    /// Finishes runs in folders of their names: starts them, resumes them, or reads them where they are finished already.
    ///
    /// # Errors
    /// A folder with a run of another plan, a run that fails or is stopped.
    pub fn carry_out(&self, runs: &[PlannedRun]) -> Result<Vec<FinishedRun>> {
        together::carry_out(self, runs)
    }
}

/// Where the runs of an experiment lie: in a folder that stays, or in one that goes away with the experiment.
#[derive(Debug)]
pub enum ExperimentFolder {
    /// A folder that stays.
    Kept(PathBuf),
    /// A folder that is removed together with this value.
    Passing(TempDir),
}

impl ExperimentFolder {
    /// The folder that was asked for, or a temporary one.
    ///
    /// # Errors
    /// A temporary folder that cannot be made.
    pub fn new(kept: Option<&Path>) -> Result<Self> {
        match kept {
            Some(path) => Ok(Self::Kept(path.to_owned())),
            None => TempDir::with_prefix("dapple-").map(Self::Passing).map_err(|error| {
                ReproduceError::failed(format!("no temporary folder can be made: {error}"))
                    .with_hint("give --out DIR")
            }),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Passing(folder) => folder.path(),
        }
    }
}
