//! The one run that is released.

use std::fs;
use std::path::Path;

use dapple_train::ChoiceCertificate;
use serde::Serialize;

use super::Candidate;
use super::draw::DrawnRepetitions;
use crate::failure::Failure;
use crate::output;

/// The files of a run that are released. Its ledger and its times would reveal something about other repetitions.
const RELEASED: [&str; 4] = ["plan.toml", "mask.pgm", "model.safetensors", "model.json"];

/// The best repetition.
#[derive(Debug, Serialize)]
pub(super) struct Chosen {
    /// The values that its plan has for the keys that vary.
    pub(super) values: Vec<(&'static str, String)>,
    pub(super) measure: &'static str,
    pub(super) score: f64,
}

#[derive(Serialize)]
struct WrittenRelease<'a> {
    #[serde(flatten)]
    certificate: &'a ChoiceCertificate,
    chosen: Option<&'a Chosen>,
}

/// Releases the best repetition, or `None` if no repetition was drawn at all.
pub(super) fn best(
    out: &Path,
    drawn: &DrawnRepetitions,
    candidates: &[Candidate],
    certificate: &ChoiceCertificate,
) -> Result<Option<Chosen>, Failure> {
    let mut best: Option<(usize, usize, f64, &'static str)> = None;
    for (number, (candidate, done)) in drawn.outcomes().enumerate() {
        let score = done.score.unwrap_or(f64::NEG_INFINITY);
        // Of equals the first counts. Repetitions come in random order, so it may be any of them.
        if best.is_none_or(|(.., other, _)| score > other) {
            best = Some((number, candidate, score, done.measure.name()));
        }
    }
    let chosen = match best {
        None => None,
        Some((.., score, _)) if score == f64::NEG_INFINITY => {
            return Err(Failure::run("every repetition diverged")
                .with_hint("choose among plans with smaller learning rates; what was drawn is spent"));
        }
        Some((number, candidate, score, measure)) => {
            let run = drawn.run_folder(number);
            for name in RELEASED.iter().filter(|name| run.join(name).is_file()) {
                let bytes = fs::read(run.join(name)).map_err(|error| {
                    Failure::run(format!("cannot read {}: {error}", run.join(name).display()))
                })?;
                output::write_file(&out.join(name), &bytes, true)?;
            }
            let values = candidates.get(candidate).map_or_else(Vec::new, |one| one.values.clone());
            Some(Chosen { values, measure, score })
        }
    };
    let text = serde_json::to_vec_pretty(&WrittenRelease { certificate, chosen: chosen.as_ref() })
        .map_err(|error| Failure::run(format!("the certificate has no JSON form: {error}")))?;
    output::write_file(&out.join("certificate.json"), &text, true)?;
    Ok(chosen)
}
