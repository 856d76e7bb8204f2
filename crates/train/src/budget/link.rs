//! What a run folder knows about the budget that counts the run.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::TrainError;
use crate::files::{self, Access};

/// `private/budget.json` of a run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BudgetLink {
    /// The budget, by its full path.
    pub(super) budget: PathBuf,
    /// Hash of the line that reserved the run.
    pub(super) entry: String,
    /// Hash of the last line about the run.
    pub(super) turn: String,
    /// Hash of the line that is being written. After a crash, either this line or the one before may be the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl BudgetLink {
    fn place(run: &Path) -> PathBuf {
        run.join("private/budget.json")
    }

    /// The link of a run folder; `None` if no budget counts the run.
    pub(super) fn read(run: &Path) -> Result<Option<Self>, TrainError> {
        let path = Self::place(run);
        if !path.exists() {
            return Ok(None);
        }
        let changed = |_| TrainError::Changed { folder: run.to_owned(), what: "link to its budget" };
        serde_json::from_slice(&files::read(&path)?).map(Some).map_err(changed)
    }

    pub(super) fn write(&self, run: &Path) -> Result<(), TrainError> {
        // This fails only for paths that are not text.
        let bytes = serde_json::to_vec_pretty(self)
            .map_err(|error| TrainError::file(&self.budget, std::io::Error::other(error)))?;
        files::write_for(&Self::place(run), &bytes, Access::Owner)
    }

    /// Whether this folder's run is the one that the budget heard of last.
    pub(super) fn is_at(&self, turn: &str) -> bool {
        self.turn == turn || self.next.as_deref() == Some(turn)
    }
}
