//! The budget that a run is counted in, for the verbs that train.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use dapple_train::Within;

#[derive(Debug, Args)]
pub(crate) struct BudgetFlags {
    /// Counts this in a budget before anything is trained: a file, or a folder with a file for each set of records
    #[arg(long, value_name = "FILE")]
    budget: Option<PathBuf>,
    /// The most that everything in the budget may cost together; what would exceed it is refused
    #[arg(long, value_name = "E", requires = "budget", allow_negative_numbers = true)]
    epsilon_total: Option<f64>,
}

impl BudgetFlags {
    pub(crate) fn within(&self) -> Option<Within> {
        self.budget.clone().map(|file| Within { file, total: self.epsilon_total })
    }

    /// The same flags for a process of its own.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let Some(file) = &self.budget else { return Vec::new() };
        let mut arguments: Vec<OsString> = vec!["--budget".into(), file.into()];
        if let Some(total) = self.epsilon_total {
            arguments.push(format!("--epsilon-total={total}").into());
        }
        arguments
    }
}
