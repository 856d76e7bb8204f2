//! What `dapple check` says.

use dapple_plan::number;
use dapple_train::data::Inspection;
use dapple_train::{Readiness, Request};
use serde::Serialize;

use super::InspectedParts;
use super::fixes::Fixes;
use crate::output::wrapped;

/// The most sizes and classes that are listed.
const LISTED: usize = 8;

/// Everything that was found.
pub(super) struct CheckReport<'a> {
    pub(super) request: &'a Request,
    pub(super) found: &'a InspectedParts,
    pub(super) fixes: &'a Fixes,
    pub(super) readiness: Option<&'a Readiness>,
}

/// The report as programs read it.
#[derive(Serialize)]
pub(super) struct CheckAnswer {
    ready: bool,
    train: PartAnswer,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<PartAnswer>,
    classes: Vec<ClassShare>,
    problems: Vec<ProblemAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
}

#[derive(Serialize)]
struct PartAnswer {
    records: usize,
    sizes: Vec<SizeAnswer>,
    unusable: usize,
}

#[derive(Serialize)]
struct SizeAnswer {
    width: u32,
    height: u32,
    images: usize,
}

#[derive(Serialize)]
struct ClassShare {
    name: String,
    share: f64,
}

#[derive(Serialize)]
struct ProblemAnswer {
    problem: String,
    hint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    toml: Option<String>,
}

impl CheckReport<'_> {
    pub(super) fn json(&self) -> CheckAnswer {
        let part = |part: &Inspection| PartAnswer {
            records: part.records,
            sizes: part
                .sizes
                .iter()
                .map(|&(size, images)| SizeAnswer { width: size.width(), height: size.height(), images })
                .collect(),
            unusable: part.faults.len(),
        };
        let problems = self.fixes.0.iter().cloned();
        CheckAnswer {
            ready: self.readiness.is_some(),
            train: part(&self.found.train),
            test: self.found.test.as_ref().map(part),
            classes: self.shares().map(|(name, share)| ClassShare { name: name.to_owned(), share }).collect(),
            problems: problems
                .map(|fix| ProblemAnswer { problem: fix.problem, hint: fix.hint, toml: fix.toml })
                .collect(),
            epsilon: self.readiness.and_then(|ready| Some(ready.certificate.as_ref()?.epsilon.upper)),
            steps: self.readiness.map(|ready| ready.steps),
        }
    }

    /// Each class with its share of the records, or of the labelled pixels.
    fn shares(&self) -> impl Iterator<Item = (&str, f64)> {
        let counts = &self.found.train.classes;
        let all = counts.iter().sum::<u64>().max(1) as f64;
        self.found.names.iter().zip(counts).map(move |(name, count)| (name.as_str(), *count as f64 / all))
    }

    pub(super) fn text(&self, next: &str) -> String {
        let InspectedParts { train, test, clips, every_pixel_labelled, .. } = self.found;
        let things = if *clips { "clips" } else { "images" };
        let from = self.request.spec.data.train.as_deref();
        let place = from.map_or_else(String::new, |path| format!(" in {path}"));
        let mut lines = vec![("records", format!("{} {things}{place}", train.records))];
        match test {
            Some(test) => lines.push(("to evaluate on", format!("{} {things}", test.records))),
            None => lines.push((
                "to evaluate on",
                "none: give data.test, or data.validation = 0.1 to hold some back".to_owned(),
            )),
        }
        if !train.sizes.is_empty() {
            let listed = train.sizes.iter().take(LISTED);
            let mut text: Vec<String> = listed.map(|(size, count)| format!("{size} ({count})")).collect();
            if let Some(more) = train.sizes.len().checked_sub(LISTED).filter(|more| *more > 0) {
                text.push(format!("and {more} more"));
            }
            lines.push(("sizes", text.join(", ")));
        }
        let shares: Vec<(&str, f64)> = self.shares().collect();
        let mut text: Vec<String> =
            shares.iter().take(LISTED).map(|(name, share)| format!("{name} {:.1}%", 100.0 * share)).collect();
        if let Some(more) = shares.len().checked_sub(LISTED).filter(|more| *more > 0) {
            text.push(format!("and {more} more"));
        }
        let of = if *every_pixel_labelled { "pixels by class" } else { "classes" };
        if train.strange_labels.is_empty() {
            lines.push((of, text.join(", ")));
            let empty = shares.iter().filter(|(_, share)| *share == 0.0).count();
            if empty > 0 {
                lines.push(("", format!("{empty} of {} classes have no record to train on", shares.len())));
            }
        } else {
            lines.push((of, "not counted: there are labels outside the classes".to_owned()));
        }
        if let Some(ready) = self.readiness {
            lines.push(("model", format!("{} values train, on {}", ready.trainable, ready.machine)));
            match &ready.certificate {
                None => lines.push(("epsilon", "none: the plan trains without privacy".to_owned())),
                Some(certificate) => {
                    let (epsilon, delta) = (number::up(certificate.epsilon.upper, 4), certificate.delta);
                    lines.push((
                        "epsilon",
                        format!("<= {epsilon} at delta {} after {} steps", number::brief(delta), ready.steps),
                    ));
                    if let Some(whole) = ready.record_level {
                        let epsilon = number::up(whole.upper, 4);
                        lines.push(("", format!("<= {epsilon} for whole records")));
                    }
                    lines.push(("protects", certificate.protects.clone()));
                }
            }
            lines.extend(ready.notes.iter().map(|note| ("note", note.clone())));
        }
        let mut text: String = lines.iter().map(|(name, value)| wrapped(name, value)).collect();
        text.push_str(&wrapped(
            "private",
            "sizes, classes and files are told to you alone: no guarantee covers them, and they stand in no file",
        ));
        match self.readiness {
            Some(_) => text.push_str(&format!("\nNothing is in the way. Next:\n  {next}\n")),
            None => text.push_str(&format!("\n{}", self.fixes.text())),
        }
        text
    }
}
