//! Tables of the mixing paper that are trained: 1, 2, 5 and 11, models from scratch.

use dapple_report::{Figure, TableRows};

use super::catalogue::{MixData, PaperAccuracy, TABLES};
use super::{plans, show};
use crate::claim::{Claim, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::{Experiment, ExperimentFolder, FinishedRun, PlannedRun, moments};
use crate::options::{Training, TrainingScale, first_given};
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Reproduction, ReproductionKind, ReproductionOptions, Watch};

/// A table of accuracies.
pub(super) struct AccuracyTable {
    pub(super) entry: CatalogueEntry,
    pub(super) cells: &'static [PaperAccuracy],
    pub(super) statements: &'static [Statement<[TrainedAccuracy]>],
}

/// An accuracy of the paper beside what comes out here.
pub(super) struct TrainedAccuracy {
    pub(super) cell: &'static PaperAccuracy,
    /// The accuracy of each run.
    pub(super) accuracies: Vec<f64>,
    pub(super) noise_multiplier: f64,
    pub(super) steps: u64,
}

impl TrainedAccuracy {
    pub(super) fn mean(&self) -> f64 {
        moments(&self.accuracies).0
    }
}

/// Everything that was trained for a table.
pub(super) struct AccuracyRuns {
    pub(super) rows: Vec<TrainedAccuracy>,
    pub(super) scale: TrainingScale,
    /// Data sets of the paper's table that are not there.
    pub(super) missing: Vec<&'static str>,
}

pub(super) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    TABLES.iter().map(RegisteredReproduction::new)
}

impl AccuracyTable {
    /// The cells that can be trained, and the data sets of the others. The embedded scenes take the place of one data set.
    fn cells(&self, flags: &Training) -> Result<(Vec<&'static PaperAccuracy>, Vec<&'static str>)> {
        let there = |data: MixData| -> Result<bool> {
            match flags.scale() {
                TrainingScale::Tiny => Ok(data == MixData::Cifar10),
                TrainingScale::Small | TrainingScale::Full => {
                    Ok(plans::root(flags)?.join(data.folder()).is_dir())
                }
            }
        };
        let mut cells = Vec::new();
        let mut missing = Vec::new();
        for cell in self.cells {
            match there(cell.data)? {
                true => cells.push(cell),
                false => missing.push(cell.data.name()),
            }
        }
        missing.dedup();
        if cells.is_empty() {
            return Err(ReproduceError::request(
                format!("--data: there is no folder of {}", missing.join(", ")),
                "the folder behind --data holds cifar-10, cifar-100 or eurosat",
            ));
        }
        Ok((cells, missing))
    }

    fn train(&self, flags: &Training, watch: &dyn Watch) -> Result<AccuracyRuns> {
        let unused = [("--model", flags.model.is_some()), ("--weights", flags.weights.is_some())];
        if let Some(flag) = first_given(&unused) {
            return Err(ReproduceError::request(
                format!("{} trains one model from scratch: it has no {flag}", self.entry.id),
                format!("leave {flag} away"),
            ));
        }
        let (cells, missing) = self.cells(flags)?;
        let seeds = flags.seeds.unwrap_or(if flags.scale() == TrainingScale::Tiny { 2 } else { 3 });
        let place = ExperimentFolder::new(flags.out.as_deref())?;
        let planned = |(&cell, seed): (&&'static PaperAccuracy, u64)| {
            let method = plans::at_scale(cell.method, flags.scale()).key();
            let name = format!("{}-{method}-epsilon{}-{seed}", cell.data.folder(), cell.epsilon);
            Ok(PlannedRun::of(name, plans::plan(flags, cell, seed)?))
        };
        let pairs = cells.iter().flat_map(|cell| (1..=seeds).map(move |seed| (cell, seed)));
        let runs = pairs.map(planned).collect::<Result<Vec<_>>>()?;
        let finished = Experiment { place: place.path(), jobs: flags.jobs(), watch }.carry_out(&runs)?;
        let row = |(&cell, runs): (&&'static PaperAccuracy, &[FinishedRun])| {
            let accuracies = runs.iter().map(FinishedRun::quality).collect::<Result<_>>()?;
            let certificate = &runs[0].certificate;
            let spent =
                certificate.spent.as_ref().ok_or_else(|| ReproduceError::failed("a run has no price"))?;
            Ok(TrainedAccuracy {
                cell,
                accuracies,
                noise_multiplier: spent.noise_multiplier,
                steps: certificate.steps_spent,
            })
        };
        let rows = cells.iter().zip(finished.chunks(seeds as usize)).map(row).collect::<Result<_>>()?;
        Ok(AccuracyRuns { rows, scale: flags.scale(), missing })
    }
}

impl Reproduction for &'static AccuracyTable {
    type Results = AccuracyRuns;

    fn entry(&self) -> CatalogueEntry {
        self.entry
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Trained
    }

    fn compute(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<AccuracyRuns> {
        self.train(&options.training, watch)
    }

    fn subtitle(&self, trained: &AccuracyRuns) -> String {
        show::subtitle(trained)
    }

    fn digest(&self, trained: &AccuracyRuns) -> Result<Digest> {
        Ok(Digest { table: show::digest(trained)?, says: "accuracy on the test images" })
    }

    fn numbers(&self, trained: &AccuracyRuns) -> TableRows {
        show::numbers(trained)
    }

    fn claims(&self, _: &AccuracyRuns) -> Vec<Claim<'_, AccuracyRuns>> {
        let claim = |statement: &'static Statement<[TrainedAccuracy]>| {
            Claim::new(statement.says, |trained: &AccuracyRuns| (statement.check)(&trained.rows))
        };
        self.statements.iter().map(claim).collect()
    }

    fn draw(&self, trained: &AccuracyRuns, figure: Figure) -> Figure {
        figure.large(show::chart(trained))
    }

    fn notes(&self, trained: &AccuracyRuns) -> Vec<String> {
        show::notes(trained)
    }
}
