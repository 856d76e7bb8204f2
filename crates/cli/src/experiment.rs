//! Experiments that train: several runs in one folder, each carried out once and read ever after.

use std::path::{Path, PathBuf};

use dapple_plan::{PlanSpec, Relation};
use dapple_report::{Chart, ErrorPoint, Series};
use dapple_train::{Request, RunCertificate, Status};
use tempfile::TempDir;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::{load, run_page};

/// The plan of the embedded scenes.
const SCENES: &str = include_str!("../../../examples/plans/fashion-scenes.toml");

/// What the price of a training protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Whole records, one substituted for another.
    Record,
    /// The patch that the plan names.
    Patch,
}

impl Level {
    pub(crate) const ALL: [Self; 2] = [Self::Record, Self::Patch];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Patch => "patch",
        }
    }

    /// The same training, priced at this level.
    pub(crate) fn of(self, mut spec: PlanSpec) -> PlanSpec {
        match self {
            Self::Record => {
                spec.privacy.relation = Some(Relation::Replace);
                spec.region.patch = None;
            }
            Self::Patch => spec.privacy.relation = Some(Relation::Patch),
        }
        spec
    }
}

/// Learning rates for the embedded scenes by epsilon, at record and at patch level. Each is the best power of two on a thousand
/// further scenes of the training garments; more noise wants smaller steps.
const LEARNING_RATES: [(f64, [f64; 2]); 4] =
    [(1.0, [0.5, 2.0]), (2.0, [1.0, 2.0]), (5.0, [2.0, 4.0]), (10.0, [2.0, 4.0])];

/// Epsilons at which the embedded scenes have learning rates.
pub(crate) fn scenes_epsilons() -> impl Iterator<Item = f64> {
    LEARNING_RATES.iter().map(|(epsilon, _)| *epsilon)
}

/// The embedded scenes at a level, for an epsilon of [`scenes_epsilons`] or the plan's own.
pub(crate) fn scenes(level: Level, epsilon: Option<f64>) -> Result<PlanSpec, Failure> {
    let mut spec = PlanSpec::from_toml(SCENES)?;
    spec.privacy.epsilon = epsilon.or(spec.privacy.epsilon);
    let known = LEARNING_RATES.iter().find(|(known, _)| spec.privacy.epsilon == Some(*known));
    if let Some((_, [record, patch])) = known {
        spec.optimiser.learning_rate = Some(match level {
            Level::Record => *record,
            Level::Patch => *patch,
        });
    }
    Ok(level.of(spec))
}

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

/// A run that is finished.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) certificate: RunCertificate,
    /// Steps and accuracy of every evaluation, in order.
    pub(crate) accuracies: Vec<(u64, f64)>,
}

impl Finished {
    /// Accuracy after the last step.
    pub(crate) fn accuracy(&self) -> Result<f64, Failure> {
        let (_, accuracy) = self
            .accuracies
            .last()
            .ok_or_else(|| Failure::run("a run of the experiment was not evaluated"))?;
        Ok(*accuracy)
    }
}

/// Finishes a run: starts it, goes on with it, or reads it where it is finished already.
pub(crate) fn finish(spec: PlanSpec, folder: &Path, name: &str, quiet: bool) -> Result<Finished, Failure> {
    let certificate = match begun(&spec, folder)? {
        Some(certificate) if certificate.status == Status::Finished => certificate,
        begun => {
            let mut progress = Progress::new(name, quiet);
            let request = Request { spec, base: PathBuf::new(), masks: Vec::new() };
            let outcome = match begun {
                Some(_) => dapple_train::resume(folder, &mut progress)?,
                None => dapple_train::start(&request, folder, &mut progress)?,
            };
            if outcome.certificate.status != Status::Finished {
                return Err(Failure::Interrupted);
            }
            outcome.certificate
        }
    };
    let lines = run_page::evaluations(folder)?;
    let accuracies = lines.iter().map(|line| (line.step, line.evaluation.accuracy)).collect();
    Ok(Finished { certificate, accuracies })
}

/// The certificate of the run that is in a folder, if any; a run of another plan is refused.
fn begun(asked: &PlanSpec, folder: &Path) -> Result<Option<RunCertificate>, Failure> {
    if !folder.join("ledger.jsonl").is_file() {
        return Ok(None);
    }
    let stored = load::read_plan(&folder.join("plan.toml"))?;
    let mut asked = asked.clone();
    // What a run fills in when it starts.
    asked.privacy.noise_multiplier = asked.privacy.noise_multiplier.or(stored.privacy.noise_multiplier);
    asked.privacy.delta = asked.privacy.delta.or(stored.privacy.delta);
    asked.sampling.records = asked.sampling.records.or(stored.sampling.records);
    asked.pipeline.image = asked.pipeline.image.or(stored.pipeline.image);
    if asked.digest() != stored.digest() {
        return Err(Failure::request(
            format!("{}: the run in this folder has another plan", folder.display()),
            "give the flags that it was begun with, or another --out",
        ));
    }
    Ok(Some(dapple_train::certify(folder)?))
}

/// Mean and, of two or more values, standard deviation.
pub(crate) fn moments(values: &[f64]) -> (f64, Option<f64>) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt()))
}

/// A line through means, with bars of one standard deviation.
pub(crate) fn means_line(
    chart: Chart,
    label: String,
    color: usize,
    means: &[(f64, f64, Option<f64>)],
) -> Chart {
    let bars = means.iter().map(|&(x, y, deviation)| {
        let deviation = deviation.unwrap_or(0.0);
        ErrorPoint { x, y, lower: y - deviation, upper: y + deviation }
    });
    chart
        .series(Series::line(label, means.iter().map(|&(x, mean, _)| (x, mean))).color(color))
        .series(Series::error_points("", bars).color(color))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_plan::Plan;

    #[test]
    fn both_levels_differ_only_in_what_they_protect() {
        let [record, patch] = Level::ALL.map(|level| {
            let mut spec = scenes(level, None).unwrap();
            spec.privacy.noise_multiplier = Some(1.0);
            Plan::check(&spec).unwrap()
        });
        assert_eq!(record.at_relation(Relation::Replace).sample_rate(), patch.sample_rate());
        assert_eq!((record.steps(), record.batch()), (patch.steps(), patch.batch()));
        assert_eq!(record.inclusion_probability(), 1.0);
        // 39 of 97 places along each side.
        assert!((patch.inclusion_probability() - (39.0_f64 / 97.0).powi(2)).abs() < 1e-9);
    }

    #[test]
    fn the_plan_of_the_scenes_has_the_learning_rate_that_was_chosen() {
        let plan = PlanSpec::from_toml(SCENES).unwrap();
        assert_eq!(scenes(Level::Patch, None).unwrap(), plan);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(moments(&[0.5]), (0.5, None));
        assert_eq!(moments(&[1.0, 3.0]), (2.0, Some(2.0_f64.sqrt())));
    }
}
