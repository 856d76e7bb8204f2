//! The accuracies of the partitioning paper, trained: submodels in Table 1 and, for users, in Table 2; balanced sampling in section 4.2.

mod catalogue;
mod halves;
mod plans;
mod show;
mod statements;

use dapple_report::{Figure, TableRows};

use super::figures;
use crate::claim::{Claim, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::{ExperimentFolder, FinishedRun, PlannedRun, moments};
use crate::options::{Training, TrainingScale, first_given};
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Reproduction, ReproductionKind, ReproductionOptions, Watch};
use catalogue::PrintedAccuracy;
use plans::PartitionFiles;

/// Accuracies that the paper prints together.
struct PartitionTraining {
    entry: CatalogueEntry,
    printed: Vec<PrintedAccuracy>,
    statements: &'static [Statement<[TrainedPartition]>],
}

/// An accuracy of the paper beside what comes out here.
struct TrainedPartition {
    printed: PrintedAccuracy,
    /// The accuracy of each run.
    accuracies: Vec<f64>,
    noise_multiplier: f64,
    /// What was spent, which is less than the budget where the noise is as if submodels were known.
    epsilon: f64,
    steps: u64,
}

impl TrainedPartition {
    fn mean(&self) -> f64 {
        moments(&self.accuracies).0
    }
}

/// Everything that was trained.
struct PartitionAccuracies {
    rows: Vec<TrainedPartition>,
    scale: TrainingScale,
    /// The accuracy that pretraining reached.
    pretrained: Option<f64>,
}

pub(super) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    catalogue::tables().into_iter().map(RegisteredReproduction::new)
}

impl PartitionTraining {
    /// Refuses flags that mean nothing here.
    fn refuse(&self, flags: &Training) -> Result<()> {
        let tiny = flags.scale() == TrainingScale::Tiny;
        let given = first_given(&[
            ("--model", flags.model.is_some()),
            ("--weights", flags.weights.is_some()),
            ("--data", tiny && flags.data.is_some()),
        ]);
        let Some(flag) = given else { return Ok(()) };
        let (why, way_out) = match flag {
            "--data" => ("at scale tiny trains on embedded garments", ", or add --scale small"),
            _ => ("trains its own models, which it pretrains itself", ""),
        };
        Err(ReproduceError::request(
            format!("{} {why}: it has no {flag}", self.entry.id),
            format!("leave {flag} away{way_out}"),
        ))
    }

    fn train(&self, flags: &Training, watch: &dyn Watch) -> Result<PartitionAccuracies> {
        self.refuse(flags)?;
        let seeds = flags.seeds.unwrap_or(if flags.scale() == TrainingScale::Tiny { 2 } else { 3 });
        let place = ExperimentFolder::new(flags.out.as_deref())?;
        let experiment = flags.experiment(place.path(), watch);
        let files = PartitionFiles::prepare(flags, &experiment, &self.printed)?;
        let planned = |(row, seed): (&PrintedAccuracy, u64)| {
            let method = plans::at_scale(row.method, flags.scale());
            let plan = files.plan(flags, row.method, seed)?;
            Ok(PlannedRun::of(format!("{}-{seed}", method.key()), plan))
        };
        let pairs = self.printed.iter().flat_map(|row| (1..=seeds).map(move |seed| (row, seed)));
        let runs = pairs.map(planned).collect::<Result<Vec<_>>>()?;
        let finished = experiment.carry_out(&runs)?;
        let rows = self.printed.iter().zip(finished.chunks(seeds as usize));
        let rows = rows.map(|(&printed, runs)| trained(printed, runs)).collect::<Result<_>>()?;
        Ok(PartitionAccuracies { rows, scale: flags.scale(), pretrained: files.pretrained })
    }
}

/// The runs of a method, summed up.
fn trained(printed: PrintedAccuracy, runs: &[FinishedRun]) -> Result<TrainedPartition> {
    let accuracies = runs.iter().map(FinishedRun::quality).collect::<Result<_>>()?;
    let certificate = &runs[0].certificate;
    let spent = certificate.spent.as_ref().ok_or_else(|| ReproduceError::failed("a run has no price"))?;
    Ok(TrainedPartition {
        printed,
        accuracies,
        noise_multiplier: spent.noise_multiplier,
        epsilon: spent.epsilon.upper,
        steps: certificate.steps_spent,
    })
}

impl Reproduction for PartitionTraining {
    type Results = PartitionAccuracies;

    fn entry(&self) -> CatalogueEntry {
        self.entry
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Trained { pool: false }
    }

    fn compute(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<PartitionAccuracies> {
        self.train(&options.training, watch)
    }

    fn subtitle(&self, trained: &PartitionAccuracies) -> String {
        show::subtitle(trained)
    }

    fn digest(&self, trained: &PartitionAccuracies) -> Result<Digest> {
        Ok(Digest { table: show::digest(trained)?, says: "accuracy on the test images" })
    }

    fn numbers(&self, trained: &PartitionAccuracies) -> TableRows {
        show::numbers(trained)
    }

    fn claims(&self, _: &PartitionAccuracies) -> Vec<Claim<'_, PartitionAccuracies>> {
        let claim = |statement: &'static Statement<[TrainedPartition]>| {
            Claim::new(statement.says, |trained: &PartitionAccuracies| (statement.check)(&trained.rows))
        };
        self.statements.iter().map(claim).collect()
    }

    fn draw(&self, trained: &PartitionAccuracies, figure: Figure) -> Figure {
        figure.large(show::chart(trained))
    }

    fn notes(&self, trained: &PartitionAccuracies) -> Vec<String> {
        show::notes(trained)
    }
}
