//! The noise behind the accuracies of the mixing paper, which prints none.

use dapple_accounting::calibrate::{self, PrivacyTarget};
use dapple_accounting::rdp::Rdp;
use dapple_accounting::search;
use dapple_plan::spec::Delta;
use dapple_plan::{Bracket, BracketPrecision, Plan, PlanSpec, Pld, number};
use dapple_report::{Axis, Cell, Chart, Column, Dash, Figure, Series, Table, TableRows};
use rayon::prelude::*;

use crate::claim::{Claim, ClaimVerdict};
use crate::error::{ReproduceError, Result};
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Paper, Reproduction, ReproductionOptions, Watch};

const DELTA: f64 = 1e-5;
/// Significant digits of the digest.
const DIGITS: usize = 4;

/// A table of the paper.
struct MixTable {
    entry: CatalogueEntry,
    subtitle: &'static str,
    batch: u64,
    runs: &'static [MixRun],
    epsilons: &'static [f64],
    /// Records clipped together, one line each.
    microbatches: &'static [u64],
}

#[derive(Debug, Clone, Copy)]
struct MixRun {
    data: &'static str,
    /// Records to train on (appendix C).
    records: u64,
    epochs: u64,
}

const fn run(data: &'static str, records: u64, epochs: u64) -> MixRun {
    MixRun { data, records, epochs }
}

/// Section 4 of the paper: batches of 4096 for 200 epochs from scratch, of 1000 for 10 epochs (EuroSAT 20) in fine-tuning.
static SPECS: [MixTable; 3] = [
    MixTable {
        entry: CatalogueEntry::new(Paper::Mixing, "mix/table1-noise", "Noise of microbatches", "3"),
        subtitle: "WRN-16-4 on CIFAR-10 from scratch: batch 4096, 200 epochs, ε = 8 at δ = 10⁻⁵",
        batch: 4096,
        runs: &[run("CIFAR-10", 50_000, 200)],
        epsilons: &[8.0],
        microbatches: &[1, 2],
    },
    MixTable {
        entry: CatalogueEntry::new(
            Paper::Mixing,
            "mix/table2-noise",
            "Noise of training from scratch",
            "5.1",
        ),
        subtitle: "WRN-16-4: batch 4096, 200 epochs, δ = 10⁻⁵",
        batch: 4096,
        runs: &[run("CIFAR-10 and CIFAR-100", 50_000, 200), run("EuroSAT", 21_600, 200)],
        epsilons: &[1.0, 2.0, 4.0, 8.0],
        microbatches: &[1],
    },
    MixTable {
        entry: CatalogueEntry::new(Paper::Mixing, "mix/table3-noise", "Noise of fine-tuning", "5.2"),
        subtitle: "ViT-B-16 and ConvNext: batch 1000, 10 epochs (EuroSAT 20), δ = 10⁻⁵",
        batch: 1000,
        runs: &[
            run("CIFAR-10 and CIFAR-100", 50_000, 10),
            run("EuroSAT", 21_600, 20),
            run("Caltech256", 24_485, 10),
            run("SUN397", 87_003, 10),
            run("Oxford-IIIT Pet", 3680, 10),
        ],
        epsilons: &[1.0, 2.0, 4.0, 8.0],
        microbatches: &[1],
    },
];

pub(super) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    SPECS.iter().map(RegisteredReproduction::new)
}

/// What is asked: the noise that one run needs for one epsilon.
#[derive(Debug, Clone, Copy)]
struct MixQuestion {
    run: MixRun,
    batch: u64,
    microbatch: u64,
    epsilon: f64,
}

/// A row of a table: the question and its answers.
struct MixRow {
    question: MixQuestion,
    /// Noise that a privacy-loss distribution asks for, in clip norms, and the epsilon it reaches.
    noise: f64,
    epsilon: Bracket,
    /// Noise by Rényi divergences.
    renyi: f64,
    /// Epsilon of the same noise where batches have a fixed size and one record is substituted.
    fixed: f64,
}

impl MixQuestion {
    fn rate(&self) -> f64 {
        self.batch as f64 / self.run.records as f64
    }

    /// The paper's batches over all epochs, a last incomplete one not counted.
    fn steps(&self) -> u64 {
        self.run.epochs * self.run.records / self.batch
    }

    /// In clip norms: a microbatch of several can change from anything to anything (section 2 of the paper).
    fn sensitivity(&self) -> f64 {
        if self.microbatch > 1 { 2.0 } else { 1.0 }
    }

    fn find(self) -> Result<MixRow> {
        let (rate, steps, sensitivity) = (self.rate(), self.steps(), self.sensitivity());
        let target = PrivacyTarget { epsilon: self.epsilon, delta: DELTA };
        let family =
            |noise| Ok(Pld::gaussian(sensitivity, noise)?.subsample_poisson(rate)?.self_compose(steps));
        let range = (0.1, 1e3);
        let solved =
            calibrate::smallest("noise multiplier", range, target, BracketPrecision::default(), family)?;
        let renyi = search::smallest_real(range.0, range.1, self.epsilon, |noise| {
            let step = Rdp::poisson_gaussian(rate, noise / sensitivity)?;
            Ok::<f64, ReproduceError>(step.self_compose(steps).epsilon(DELTA)?.epsilon)
        })?;
        let fixed = Pld::gaussian(2.0, solved.value)?.subsample_without_replacement(rate)?;
        Ok(MixRow {
            question: self,
            noise: solved.value,
            epsilon: solved.epsilon,
            renyi: renyi.unwrap_or(f64::NAN),
            fixed: fixed.self_compose(steps).epsilon(DELTA, BracketPrecision::default())?.upper,
        })
    }
}

const COLUMNS: &[&str] = &[
    "data",
    "records",
    "batch",
    "epochs",
    "sample_rate",
    "steps",
    "records_per_clip",
    "sensitivity",
    "delta",
    "epsilon_target",
    "noise_multiplier",
    "epsilon_lower",
    "epsilon",
    "renyi_noise_multiplier",
    "without_replacement_epsilon",
];

impl Reproduction for &'static MixTable {
    type Results = Vec<MixRow>;

    fn entry(&self) -> CatalogueEntry {
        self.entry
    }

    fn compute(&self, _: &ReproductionOptions, _: &dyn Watch) -> Result<Vec<MixRow>> {
        let mut questions = vec![];
        for &run in self.runs {
            for &microbatch in self.microbatches {
                let asked = self.epsilons.iter();
                questions.extend(asked.map(|&epsilon| MixQuestion {
                    run,
                    batch: self.batch,
                    microbatch,
                    epsilon,
                }));
            }
        }
        questions.into_par_iter().map(MixQuestion::find).collect()
    }

    fn subtitle(&self, _: &Vec<MixRow>) -> String {
        self.subtitle.to_owned()
    }

    fn digest(&self, found: &Vec<MixRow>) -> Result<Digest> {
        Ok(Digest { table: digest(found)?, says: "noise multiplier in clip norms, rounded up" })
    }

    fn numbers(&self, found: &Vec<MixRow>) -> TableRows {
        TableRows { columns: COLUMNS, rows: found.iter().map(row).collect() }
    }

    fn claims(&self, _: &Vec<MixRow>) -> Vec<Claim<'_, Vec<MixRow>>> {
        vec![match self.microbatches.len() {
            1 => Claim::new(
                "views, mixtures and synthetic images leave the noise as it is",
                |found: &Vec<MixRow>| views_are_free(found),
            ),
            _ => Claim::new(
                "microbatches of two double the sensitivity, and with it the noise",
                |found: &Vec<MixRow>| pairs_double(found),
            ),
        }]
    }

    fn claims_say(&self) -> &'static str {
        "What the paper says of the noise"
    }

    fn draw(&self, found: &Vec<MixRow>, figure: Figure) -> Figure {
        let mut chart = Chart::new("").x(Axis::log("ε")).y(Axis::log("noise multiplier"));
        for (color, run) in self.runs.iter().enumerate() {
            for &microbatch in self.microbatches {
                let same = found.iter().filter(|found| {
                    found.question.run.data == run.data && found.question.microbatch == microbatch
                });
                let points = same.map(|found| (found.question.epsilon, found.noise));
                let (label, dash) = match microbatch {
                    1 => (run.data.to_owned(), Dash::Solid),
                    several => (format!("{}, {several} records per clip", run.data), Dash::Dashed),
                };
                chart = chart.series(Series::line_points(label, points).color(color).dash(dash));
            }
        }
        figure.subtitle(self.subtitle).large(chart)
    }

    fn notes(&self, _: &Vec<MixRow>) -> Vec<String> {
        [
            "The paper prints accuracies, which are training results, and no noise: its library solved for it. The other tables repeat these settings at some of the ε.",
            "Each record is drawn by its own coin at rate batch / records, for epochs × records / batch steps. The paper accounts for this sampling, but its code draws batches of a fixed size: the last column prices those at the same noise, drawn without replacement, with one record substituted.",
            "Synthetic images must come from a model that never saw the private records. The Rényi noise is by the tight conversion over real orders.",
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

fn pairs_double(found: &[MixRow]) -> Result<ClaimVerdict> {
    let [single, pair] = found else {
        return Err(ReproduceError::failed("a single record and a pair were not both solved for"));
    };
    let here = format!("{} in place of {}", number::up(pair.noise, DIGITS), number::up(single.noise, DIGITS));
    // Both are solved for to one part in 100000.
    Ok((here, (pair.noise / single.noise - 2.0).abs() < 1e-3))
}

fn views_are_free(found: &[MixRow]) -> Result<ClaimVerdict> {
    let Some(first) = found.first() else { return Err(ReproduceError::failed("nothing was solved for")) };
    let (alone, mixed) = (priced(first, (1, 0, 0))?, priced(first, (16, 18, 2))?);
    let here = format!(
        "ε = {} with one view, {} with 16 views, 18 mixtures and 2 synthetic images",
        number::up(alone.upper, DIGITS),
        number::up(mixed.upper, DIGITS)
    );
    Ok((here, alone == mixed))
}

/// A run with these many views, mixtures and synthetic images, priced as a plan.
fn priced(found: &MixRow, (views, self_mix, synthetic): (u32, u32, u32)) -> Result<Bracket> {
    let question = found.question;
    let mut spec = PlanSpec::default();
    spec.privacy.delta = Some(Delta::Value(DELTA));
    spec.privacy.noise_multiplier = Some(found.noise);
    spec.sampling.batch = Some(question.batch);
    spec.sampling.records = Some(question.run.records);
    spec.sampling.steps = Some(question.steps());
    spec.pipeline.views = Some(views);
    spec.mix.self_mix = Some(self_mix);
    spec.mix.synthetic = Some(synthetic);
    Ok(Plan::check(&spec)?.epsilon(BracketPrecision::default())?)
}

fn row(found: &MixRow) -> Vec<Cell> {
    let (whole, full) = (Cell::whole, Cell::full);
    let question = found.question;
    vec![
        question.run.data.into(),
        whole(question.run.records),
        whole(question.batch),
        whole(question.run.epochs),
        full(question.rate()),
        whole(question.steps()),
        whole(question.microbatch),
        full(question.sensitivity()),
        full(DELTA),
        full(question.epsilon),
        full(found.noise),
        found.epsilon.lower.map(full).into(),
        full(found.epsilon.upper),
        full(found.renyi),
        full(found.fixed),
    ]
}

fn digest(found: &[MixRow]) -> Result<Table> {
    let mut table = Table::new([
        Column::text("data"),
        Column::number("records per clip"),
        Column::number("steps"),
        Column::number("ε"),
        Column::number("noise, certified"),
        Column::number("noise, Rényi"),
        Column::number("ε, fixed batches"),
    ]);
    let up = |value: f64| Cell::from(number::up(value, DIGITS));
    for found in found {
        let question = found.question;
        table.push([
            question.run.data.into(),
            question.microbatch.to_string().into(),
            question.steps().to_string().into(),
            number::exact(question.epsilon).into(),
            up(found.noise),
            up(found.renyi),
            up(found.fixed),
        ])?;
    }
    Ok(table)
}
