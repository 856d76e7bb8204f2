//! The accuracies of the masked paper, trained: whole clips against private tokens, in three modes and for two ways in which neighbours
//! differ.

mod catalogue;
mod plans;
mod show;
mod statements;

use dapple_report::{Figure, TableRows};

use crate::claim::{Claim, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::{ExperimentFolder, FinishedRun, PlannedRun, moments};
use crate::options::{Training, TrainingScale, first_given};
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Paper, Reproduction, ReproductionKind, ReproductionOptions, Watch};
pub(super) use catalogue::dash_of;
use catalogue::{MaskMethod, PrintedSet, PrintedTable, TABLES};

/// A table of accuracies.
struct MaskTable(PrintedTable);

/// One cell of the table: the runs of a method within a budget.
struct TrainedMask {
    set: PrintedSet,
    method: MaskMethod,
    epsilon: Option<f64>,
    printed: Option<f64>,
    noise_multiplier: Option<f64>,
    steps: u64,
    /// The score of each run.
    scores: Vec<f64>,
    /// The accuracy on each class, averaged over runs.
    per_class: Vec<f64>,
}

impl TrainedMask {
    fn mean(&self) -> f64 {
        moments(&self.scores).0
    }
}

/// Everything that was trained.
struct MaskAccuracies {
    cells: Vec<TrainedMask>,
    scale: TrainingScale,
}

pub(super) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    TABLES.into_iter().map(|table| RegisteredReproduction::new(MaskTable(table)))
}

impl MaskTable {
    fn refuse(&self, flags: &Training) -> Result<()> {
        match first_given(&[("--model", flags.model.is_some())]) {
            None => Ok(()),
            Some(flag) => Err(ReproduceError::request(
                format!("{} trains one model: it has no {flag}", self.0.id),
                format!("leave {flag} away"),
            )),
        }
    }

    /// The data sets that a scale trains on: at scale tiny clips drawn by the program stand for the first.
    fn sets(&self, scale: TrainingScale) -> &[PrintedSet] {
        if scale == TrainingScale::Tiny { &self.0.sets[..1] } else { &self.0.sets }
    }

    fn epsilons(&self, scale: TrainingScale) -> &[f64] {
        if scale == TrainingScale::Tiny { &self.0.tiny } else { &self.0.epsilons }
    }

    fn train(&self, flags: &Training, watch: &dyn Watch) -> Result<MaskAccuracies> {
        self.refuse(flags)?;
        let scale = flags.scale();
        let seeds = flags.seeds.unwrap_or(2);
        let place = ExperimentFolder::new(flags.out.as_deref())?;
        let experiment = flags.experiment(place.path(), watch);
        let mut asked = Vec::new();
        let mut runs = Vec::new();
        for &set in self.sets(scale) {
            let base = plans::base(flags, self.0.id, &set)?;
            let budgets = self.epsilons(scale).iter().map(|&epsilon| Some(epsilon));
            let private =
                budgets.flat_map(|epsilon| MaskMethod::private().map(move |method| (method, epsilon)));
            for (method, epsilon) in private.chain([(MaskMethod::Open, None)]) {
                asked.push((set, method, epsilon));
                for seed in 1..=seeds {
                    let mut plan = plans::plan(base.clone(), method, epsilon)?;
                    plan.model.seed = Some(seed);
                    let budget = epsilon.map_or_else(String::new, |epsilon| format!("-epsilon{epsilon}"));
                    let name = format!("{}-{}{budget}-{seed}", set.format, method.key());
                    runs.push(PlannedRun::of(name, plan));
                }
            }
        }
        let finished = experiment.carry_out(&runs)?;
        let cells = asked.into_iter().zip(finished.chunks(seeds as usize));
        let cells = cells.map(|(asked, runs)| self.cell(asked, runs)).collect::<Result<_>>()?;
        Ok(MaskAccuracies { cells, scale })
    }

    /// The runs of a cell, summed up.
    fn cell(
        &self,
        (set, method, epsilon): (PrintedSet, MaskMethod, Option<f64>),
        runs: &[FinishedRun],
    ) -> Result<TrainedMask> {
        let spent = runs[0].certificate.spent.as_ref();
        let classes = runs.iter().map(|run| run.per_class.len()).min().unwrap_or(0);
        let mean = |class: usize| {
            let found = runs.iter().filter_map(|run| run.per_class[class]);
            moments(&found.collect::<Vec<f64>>()).0
        };
        Ok(TrainedMask {
            set,
            method,
            epsilon,
            printed: self.0.printed(&set, method, epsilon),
            noise_multiplier: spent.map(|spent| spent.noise_multiplier),
            steps: runs[0].certificate.steps_spent,
            scores: runs.iter().map(FinishedRun::quality).collect::<Result<_>>()?,
            per_class: (0..classes).map(mean).collect(),
        })
    }
}

impl Reproduction for MaskTable {
    type Results = MaskAccuracies;

    fn entry(&self) -> CatalogueEntry {
        CatalogueEntry::new(Paper::Masked, self.0.id, self.0.title, "5.4")
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Trained { pool: false }
    }

    fn compute(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<MaskAccuracies> {
        self.train(&options.training, watch)
    }

    fn subtitle(&self, trained: &MaskAccuracies) -> String {
        show::subtitle(trained)
    }

    fn digest(&self, trained: &MaskAccuracies) -> Result<Digest> {
        let says = "score on the test clips: accuracy, or its mean over classes for Toyota Smarthome";
        Ok(Digest { table: show::digest(trained)?, says })
    }

    fn numbers(&self, trained: &MaskAccuracies) -> TableRows {
        show::numbers(trained)
    }

    fn claims(&self, _: &MaskAccuracies) -> Vec<Claim<'_, MaskAccuracies>> {
        let claim = |statement: &'static Statement<[TrainedMask]>| {
            Claim::new(statement.says, |trained: &MaskAccuracies| (statement.check)(&trained.cells))
        };
        statements::ALL.iter().map(claim).collect()
    }

    fn draw(&self, trained: &MaskAccuracies, figure: Figure) -> Figure {
        show::draw(trained, figure.subtitle(show::subtitle(trained)))
    }

    fn notes(&self, trained: &MaskAccuracies) -> Vec<String> {
        show::notes(trained)
    }
}
