//! Checks whether a run folder tells the truth.

mod certificate;

use std::path::Path;

use crate::certificate::RunCertificate;
use crate::checkpoint::Checkpoint;
use crate::digest;
use crate::error::TrainError;
use crate::files;
use crate::folder::Folder;
use crate::prepare::Prepared;
use crate::recover::Recovered;
use crate::run::hidden_fingerprint;

/// How often the comparison is tried, because a run in progress may write its certificate anew meanwhile, which must not be compared with
/// another state of the ledger.
const TRIES: usize = 5;

/// The result of examining a run folder.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Everything agrees.
    Valid {
        /// What the run has promised and spent, computed from its plan and its ledger.
        certificate: Box<RunCertificate>,
        /// What was not at hand, and so not compared.
        not_compared: Vec<&'static str>,
    },
    /// Something does not agree.
    Invalid {
        /// The first thing that does not agree, in one line.
        reason: String,
    },
}

/// Replays the ledger of a run, computes epsilon from it and the plan, and compares everything else in the folder with the result.
/// Nothing is changed.
///
/// # Guarantee
/// The certificate of a valid folder covers every value that the run has released, provided that the ledger's end was not removed
/// together with every other file that knows of it. Whoever keeps the hash of the last line elsewhere (`expected_head`) does not need
/// this proviso.
///
/// # Errors
/// A folder that holds no run at all.
pub fn verify(folder: &Path, expected_head: Option<&str>) -> Result<Verdict, TrainError> {
    let run = Folder::new(folder);
    if !run.ledger().exists() && !run.certificate().exists() && !run.plan().exists() {
        return Err(TrainError::NoRun { folder: folder.to_owned() });
    }
    for _ in 0..TRIES {
        let before = files::read(&run.certificate()).ok();
        let verdict = examine(&run, expected_head).unwrap_or_else(|reason| Verdict::Invalid { reason });
        let settled = files::read(&run.certificate()).ok() == before;
        if settled || matches!(verdict, Verdict::Valid { .. }) {
            return Ok(verdict);
        }
    }
    Ok(Verdict::Invalid { reason: "certificate.json changes faster than it can be compared".to_owned() })
}

fn examine(folder: &Folder, expected_head: Option<&str>) -> Result<Verdict, String> {
    let words = |error: TrainError| error.to_string();
    if !folder.ledger().exists() {
        return Err("the ledger is gone".to_owned());
    }
    let stored = certificate::read(folder)?;
    let run = Recovered::read(folder).map_err(words)?;
    let head = run.history.position().1;
    if let Some(expected) = expected_head.filter(|expected| *expected != head) {
        return Err(match run.history.has_line(expected) {
            true => format!("the ledger goes on after the line {expected}: it ends in {head}"),
            false => format!("the ledger does not have the line {expected}: it ends in {head}"),
        });
    }
    Checkpoint::check_all(&folder.checkpoints()).map_err(words)?;
    run.check_model(folder).map_err(words)?;
    check_logs(folder)?;
    certificate::compare(stored.as_ref(), &run)?;
    let not_compared = compare_beginning(folder, &run)?;
    Ok(Verdict::Valid { certificate: Box::new(run.certificate().map_err(words)?), not_compared })
}

/// Checks that the lines of the logs are JSON. Only a last line may be cut off.
fn check_logs(folder: &Folder) -> Result<(), String> {
    for (name, path) in
        [("metrics.jsonl", folder.metrics()), ("private/diagnostics.jsonl", folder.diagnostics())]
    {
        if !path.exists() {
            continue;
        }
        let text = files::read_text(&path).map_err(|error| error.to_string())?;
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        for (index, line) in whole.lines().enumerate() {
            if serde_json::from_str::<serde_json::Value>(line).is_err() {
                return Err(format!("{name}: line {} is not whole", index + 1));
            }
        }
    }
    Ok(())
}

/// Compares keys, data set and first weights with those that the run began with, as far as they are at hand, and returns the names of
/// those that are not.
fn compare_beginning(folder: &Folder, run: &Recovered) -> Result<Vec<&'static str>, String> {
    let start = run.history.start();
    let changed = |what: &str| format!("the {what} is not the one the run began with");
    if !folder.has_private() {
        return Ok(vec!["data set", "first weights"]);
    }
    let Ok(key) = files::read(&folder.data_key()) else {
        return Err("private/data.key is gone".to_owned());
    };
    if let Some(expected) = &start.sampling_key {
        let kept =
            files::read(&folder.sampling_key()).map_err(|_| "private/sampling.key is gone".to_owned())?;
        if digest::of(&[&kept]) != *expected {
            return Err(changed("sampling key"));
        }
    }
    let mut elsewhere = false;
    // The mask was copied into the folder, so its original is not needed.
    run.spec
        .clone()
        .each_file(|key, name| elsewhere |= key.path != "region.mask" && !Path::new(name).exists());
    if elsewhere {
        return Ok(vec!["data set", "first weights"]);
    }
    let prepared = Prepared::again(run.spec.clone(), run.masks.clone()).map_err(|error| error.to_string())?;
    let found = hidden_fingerprint(&*prepared.data.train, &key).map_err(|error| error.to_string())?;
    if found != start.data {
        return Err(changed("data set"));
    }
    if digest::of_values(prepared.parameters.values()) != start.weights {
        return Err(changed("weights file"));
    }
    Ok(Vec::new())
}
