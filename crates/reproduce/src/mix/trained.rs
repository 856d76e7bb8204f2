//! Tables of the mixing paper that are trained: models from scratch, and the last layers of pretrained ones.

use dapple_report::{Figure, TableRows};

use super::catalogue::{self, MixModel, MixPool, PaperAccuracy};
use super::folders::GivenFolders;
use super::tuned::TuningFiles;
use super::{plans, show};
use crate::claim::{Claim, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::{ExperimentFolder, FinishedRun, PlannedRun, moments};
use crate::options::{Training, TrainingScale, first_given};
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Reproduction, ReproductionKind, ReproductionOptions, Watch};

/// A table of accuracies.
pub(super) struct AccuracyTable {
    pub(super) entry: CatalogueEntry,
    pub(super) cells: Vec<PaperAccuracy>,
    pub(super) statements: &'static [Statement<[TrainedAccuracy]>],
}

/// An accuracy of the paper beside what comes out here.
pub(super) struct TrainedAccuracy {
    pub(super) cell: PaperAccuracy,
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
    /// Whether pretrained models were fine-tuned.
    pub(super) tuned: bool,
    /// What other rows of the paper's table lack.
    pub(super) missing: Vec<String>,
}

pub(super) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    catalogue::tables().into_iter().map(RegisteredReproduction::new)
}

impl AccuracyTable {
    /// Whether its models were pretrained.
    pub(super) fn is_tuned(&self) -> bool {
        self.cells.iter().any(|cell| cell.model != MixModel::WideResNet)
    }

    /// The pools that its methods show images of.
    pub(super) fn pools(&self) -> impl Iterator<Item = MixPool> {
        let shows = |pool: &MixPool| {
            self.cells.iter().any(|cell| cell.method.synthetic > 0 && cell.method.pool == *pool)
        };
        [MixPool::Synthetic, MixPool::Real].into_iter().filter(shows)
    }

    /// The name of a run behind an accuracy.
    pub(super) fn run_name(&self, cell: &PaperAccuracy, scale: TrainingScale, seed: u64) -> String {
        let method = plans::at_scale(cell.method, scale).key();
        let run = format!("{}-{method}-epsilon{}-{seed}", cell.data.folder(), cell.epsilon);
        if self.is_tuned() { format!("{}-{run}", cell.model.key()) } else { run }
    }

    /// The cells that can be trained, and what the others lack. Embedded images take the place of one data set and one model.
    fn cells(&self, flags: &Training) -> Result<(Vec<PaperAccuracy>, Vec<String>)> {
        let first =
            |cell: &&PaperAccuracy| (cell.data, cell.model) == (self.cells[0].data, self.cells[0].model);
        match flags.scale() {
            TrainingScale::Tiny => Ok((self.cells.iter().filter(first).copied().collect(), Vec::new())),
            TrainingScale::Small | TrainingScale::Full => {
                GivenFolders::new(flags, self.is_tuned())?.cells(self)
            }
        }
    }

    /// Refuses flags that mean nothing here.
    fn refuse(&self, flags: &Training) -> Result<()> {
        let id = self.entry.id;
        let model = ("--model", flags.model.is_some());
        let weights = ("--weights", flags.weights.is_some());
        let own = [model, weights, ("--data", flags.data.is_some()), ("--pool", flags.pool.is_some())];
        let (unused, why, way_out) = match (self.is_tuned(), flags.scale()) {
            (false, _) => (&[model, weights][..], "trains one model from scratch", ""),
            (true, TrainingScale::Tiny) => (
                &own[..],
                "at scale tiny trains a small model on the embedded garments",
                ", or add --scale small",
            ),
            (true, TrainingScale::Small | TrainingScale::Full) => {
                (&[model][..], "trains the models whose weights are there", "")
            }
        };
        match first_given(unused) {
            None => Ok(()),
            Some(flag) => Err(ReproduceError::request(
                format!("{id} {why}: it has no {flag}"),
                format!("leave {flag} away{}", if flag == "--model" { "" } else { way_out }),
            )),
        }
    }

    fn train(&self, flags: &Training, watch: &dyn Watch) -> Result<AccuracyRuns> {
        self.refuse(flags)?;
        let (cells, missing) = self.cells(flags)?;
        let seeds = flags.seeds.unwrap_or(if flags.scale() == TrainingScale::Tiny { 2 } else { 3 });
        let place = ExperimentFolder::new(flags.out.as_deref())?;
        let experiment = flags.experiment(place.path(), watch);
        let tuning = match self.is_tuned() {
            true => Some(TuningFiles::prepare(flags, &experiment)?),
            false => None,
        };
        let planned = |(cell, seed): (&PaperAccuracy, u64)| {
            let plan = match &tuning {
                Some(files) => files.plan(flags, cell, seed)?,
                None => plans::plan(flags, cell, seed)?,
            };
            Ok(PlannedRun::of(self.run_name(cell, flags.scale(), seed), plan))
        };
        let pairs = cells.iter().flat_map(|cell| (1..=seeds).map(move |seed| (cell, seed)));
        let runs = pairs.map(planned).collect::<Result<Vec<_>>>()?;
        let finished = experiment.carry_out(&runs)?;
        let row = |(&cell, runs): (&PaperAccuracy, &[FinishedRun])| {
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
        Ok(AccuracyRuns { rows, scale: flags.scale(), tuned: self.is_tuned(), missing })
    }
}

impl Reproduction for AccuracyTable {
    type Results = AccuracyRuns;

    fn entry(&self) -> CatalogueEntry {
        self.entry
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Trained { pool: self.is_tuned() }
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
