//! Files beside the ledger that know how far a run has come. If they know more than the ledger, something was removed from it.

use std::path::Path;

use serde::Deserialize;

use crate::checkpoint::{self, Checkpoint};
use crate::error::TrainError;
use crate::files;
use crate::folder::Folder;
use crate::ledger::{History, LedgerError};
use crate::tensorboard;

/// What a file tells about the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witness {
    name: String,
    /// The last step that the file knows was taken.
    step: u64,
    /// Hash of a line of the ledger, and the number of the line if it is known.
    line: Option<(Option<usize>, String)>,
}

impl Witness {
    /// All files of a folder that tell something about the ledger. A file that cannot be read tells nothing here.
    pub(crate) fn gather(folder: &Folder) -> Result<Vec<Self>, TrainError> {
        let mut found = Vec::new();
        #[derive(Deserialize)]
        struct CertifiedLedger {
            ledger: String,
        }
        if let Some(seen) =
            text(&folder.certificate()).and_then(|text| serde_json::from_str::<CertifiedLedger>(&text).ok())
        {
            // The steps that it counts may be ahead of the ledger, but the line that it names cannot be.
            let name = "certificate.json".to_owned();
            found.push(Self { name, step: 0, line: Some((None, seen.ledger)) });
        }
        for path in checkpoint::list(&folder.checkpoints())? {
            let Some(place) = Checkpoint::place_of(&path) else { continue };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            found.push(Self {
                name: format!("checkpoints/{name}"),
                step: place.step,
                line: Some((Some(place.ledger_lines), place.ledger_hash)),
            });
        }
        for (name, path) in [
            ("metrics.jsonl", folder.metrics()),
            ("private/diagnostics.jsonl", folder.diagnostics()),
            ("private/gradient-norms.jsonl", folder.gradient_norms()),
        ] {
            if let Some(step) = text(&path).and_then(|text| last_step(&text)) {
                found.push(Self { name: name.to_owned(), step, line: None });
            }
        }
        for (name, place) in
            [("tensorboard", folder.tensorboard()), ("private/tensorboard", folder.private_tensorboard())]
        {
            for path in std::fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path()) {
                if let Some(step) = bytes(&path).and_then(|bytes| tensorboard::last_step(&bytes)) {
                    let file = path.file_name().unwrap_or_default().to_string_lossy();
                    found.push(Self { name: format!("{name}/{file}"), step, line: None });
                }
            }
        }
        Ok(found)
    }

    /// Checks that a ledger counts what the file knows of.
    pub(crate) fn check(&self, history: &History) -> Result<(), LedgerError> {
        let witness = || self.name.clone();
        let seen = self.line.as_ref().is_none_or(|(lines, hash)| match lines {
            Some(lines) => history.has_seen(*lines, hash),
            None => history.has_line(hash),
        });
        if !seen {
            return Err(LedgerError::Forgotten { witness: witness() });
        }
        if self.step > history.spent() {
            return Err(LedgerError::Behind { witness: witness(), step: self.step, spent: history.spent() });
        }
        Ok(())
    }
}

fn text(path: &Path) -> Option<String> {
    bytes(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn bytes(path: &Path) -> Option<Vec<u8>> {
    files::read(path).ok()
}

/// The largest step in the complete lines of a log.
fn last_step(text: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct StepLine {
        step: u64,
    }
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().filter_map(|line| serde_json::from_str::<StepLine>(line).ok()).map(|line| line.step).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_tell_their_largest_step_and_half_lines_tell_nothing() {
        assert_eq!(last_step(""), None);
        assert_eq!(last_step("{\"step\":7,\"loss\":1}\n{\"step\":3}\nrubbish\n"), Some(7));
        assert_eq!(last_step("{\"step\":7}\n{\"step\":8}"), Some(7));
    }
}
