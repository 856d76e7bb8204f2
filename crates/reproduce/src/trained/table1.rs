//! Table 1 of the patch-level paper (P): digits with and without a small crop, without privacy.

use dapple_plan::PlanSpec;
use dapple_plan::spec::Pixels;
use dapple_report::{Axis, Cell, Chart, Column, Dash, Figure, Series, Table, TableRows};

use super::{existing, percent, single_crop};
use crate::claim::{Claim, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::{ExperimentFolder, FinishedRun, PlannedRun, full_path, moments};
use crate::options::{Classifier, Training, TrainingScale};
use crate::{CatalogueEntry, Digest, Paper, Reproduction, ReproductionKind, ReproductionOptions, Watch};

/// The table.
pub(super) struct Digits;

const ENTRY: CatalogueEntry = CatalogueEntry::new(
    Paper::PatchLevel,
    "patch/table1",
    "MNIST without privacy, with and without a crop",
    "C.8",
);

/// Side of the crop.
const CROP: u32 = 10;
/// Crops along each side of an image whose answers are averaged.
const GRID: u32 = 3;

/// What all runs share. P gives the crop, the models, the missing norms and the random initial weights; the rest is ours.
const PLAN: &str = r#"
[privacy]
relation = "replace"

[sampling]
batch = 64

[data]
format = "idx"
size = [32, 32]
mean = [0.1307]
std = [0.3081]

[model]
norm = "removed"

[optimiser]
kind = "sgd"
learning_rate = 0.03
momentum = 0.9
schedule = "cosine"

[train]
private = false
"#;

/// A run of one classifier, with or without the crop.
#[derive(Debug, Clone, Copy)]
struct ClassifierRun {
    model: Classifier,
    cropped: bool,
    seed: u64,
    steps: u64,
    /// The accuracy on what training sees: the whole image, or one random crop.
    accuracy: f64,
    /// The accuracy of the averaged answers for several crops of an image.
    averaged: Option<f64>,
}

/// The runs of one classifier on whole images and on crops.
struct ClassifierPair {
    model: Classifier,
    accuracies: [Vec<f64>; 2],
    averaged: Vec<f64>,
}

/// What the paper prints: without a crop and with one.
fn paper(model: Classifier) -> [f64; 2] {
    match model {
        Classifier::Resnet18 => [0.994, 0.260],
        Classifier::Vgg11 => [0.992, 0.167],
    }
}

/// Every run, and what is to be said about them.
pub(super) struct ClassifierRuns {
    runs: Vec<ClassifierRun>,
    pairs: Vec<ClassifierPair>,
    scale: TrainingScale,
}

impl ClassifierRuns {
    fn steps(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.steps)
    }
}

fn train(flags: &Training, watch: &dyn Watch) -> Result<ClassifierRuns> {
    if flags.weights.is_some() {
        return Err(ReproduceError::request(
            format!("{} begins with random weights: it has no --weights", ENTRY.id),
            "leave --weights away",
        ));
    }
    let models: Vec<Classifier> = match (flags.model, flags.scale()) {
        (Some(model), _) => vec![model],
        (None, TrainingScale::Tiny) => vec![Classifier::Resnet18],
        (None, TrainingScale::Small | TrainingScale::Full) => Classifier::ALL.to_vec(),
    };
    let place = ExperimentFolder::new(flags.out.as_deref())?;
    let mut settings = Vec::new();
    for &model in &models {
        for cropped in [false, true] {
            settings.extend((1..=flags.seeds.unwrap_or(1)).map(|seed| (model, cropped, seed)));
        }
    }
    let planned = |&(model, cropped, seed): &(Classifier, bool, u64)| {
        let view = if cropped { "crop" } else { "whole" };
        Ok(PlannedRun::of(format!("{}-{view}-{seed}", model.key()), plan(flags, model, cropped, seed)?))
    };
    let runs = settings.iter().map(planned).collect::<Result<Vec<_>>>()?;
    let finished = flags.experiment(place.path(), watch).carry_out(&runs)?;
    let measured = |((&(model, cropped, seed), planned), run): (
        (&(Classifier, bool, u64), &PlannedRun),
        &FinishedRun,
    )| {
        let (last, steps) = (run.quality()?, run.certificate.steps_spent);
        let folder = place.path().join(&planned.name);
        let accuracy = if cropped { single_crop::accuracy(model, &folder)? } else { last };
        Ok(ClassifierRun { model, cropped, seed, steps, accuracy, averaged: cropped.then_some(last) })
    };
    let runs: Vec<ClassifierRun> =
        settings.iter().zip(&runs).zip(&finished).map(measured).collect::<Result<_>>()?;
    let pairs = models.iter().map(|&model| pair(model, &runs)).collect();
    Ok(ClassifierRuns { runs, pairs, scale: flags.scale() })
}

fn plan(flags: &Training, model: Classifier, cropped: bool, seed: u64) -> Result<PlanSpec> {
    let data = flags.data.as_deref().ok_or_else(|| {
        ReproduceError::request(
            format!("{} needs data: --data is missing", ENTRY.id),
            "give --data the folder of MNIST's four IDX files: train-images-idx3-ubyte and so on, plain or .gz",
        )
    })?;
    let data = full_path(existing(data)?);
    let mut spec = PlanSpec::from_toml(PLAN)?;
    (spec.data.train, spec.data.test) = (Some(data.clone()), Some(data));
    spec.model.name = Some(model.key().to_owned());
    spec.model.seed = Some(seed);
    // Nothing is private here, so a run may be repeated number by number.
    spec.train.seed = Some(seed);
    if cropped {
        spec.pipeline.crop = Some(Pixels { x: CROP, y: CROP });
        spec.train.evaluation_grid = Some(GRID);
    }
    match (flags.steps, flags.scale()) {
        (Some(steps), _) => spec.sampling.steps = Some(steps),
        (None, TrainingScale::Tiny) => spec.sampling.steps = Some(300),
        (None, TrainingScale::Small) => spec.sampling.epochs = Some(5),
        (None, TrainingScale::Full) => spec.sampling.epochs = Some(50),
    }
    Ok(spec)
}

impl Reproduction for Digits {
    type Results = ClassifierRuns;

    fn entry(&self) -> CatalogueEntry {
        ENTRY
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Trained { pool: false }
    }

    fn compute(&self, options: &ReproductionOptions, watch: &dyn Watch) -> Result<ClassifierRuns> {
        train(&options.training, watch)
    }

    fn subtitle(&self, trained: &ClassifierRuns) -> String {
        let steps = trained.steps();
        format!("Crop {CROP} × {CROP}, random initial weights, no batch norm; {steps} steps of batch 64")
    }

    fn digest(&self, trained: &ClassifierRuns) -> Result<Digest> {
        Ok(Digest { table: digest(&trained.pairs)?, says: "accuracy on the test images" })
    }

    fn numbers(&self, trained: &ClassifierRuns) -> TableRows {
        TableRows { columns: COLUMNS, rows: trained.runs.iter().map(row).collect() }
    }

    fn claims(&self, trained: &ClassifierRuns) -> Vec<Claim<'_, ClassifierRuns>> {
        let claims = |place: usize| {
            CLAIMS.map(|Statement { says, check }| {
                Claim::new(says, move |trained: &ClassifierRuns| check(&trained.pairs[place]))
            })
        };
        (0..trained.pairs.len()).flat_map(claims).collect()
    }

    fn draw(&self, trained: &ClassifierRuns, figure: Figure) -> Figure {
        figure.large(chart(&trained.pairs))
    }

    fn notes(&self, trained: &ClassifierRuns) -> Vec<String> {
        let steps = trained.steps();
        let mut notes = vec![
            "The paper states neither epochs, batch, optimiser nor the size that a crop is brought to before VGG-11 can take it, nor how a cropped model is tested; here images and crops are brought to 32 × 32, and one random crop of each test image is looked at, as in training.".to_owned(),
            format!("Trained for {steps} steps of gradient descent: batch 64, learning rate 0.03 falling by a cosine, momentum 0.9, every random number from the seed."),
        ];
        if trained.scale == TrainingScale::Tiny {
            notes.push("At this scale training is far shorter than the paper's is likely to have been: --scale small trains both models for 5 epochs, full for 50.".to_owned());
        }
        notes
    }
}

fn pair(model: Classifier, runs: &[ClassifierRun]) -> ClassifierPair {
    let own = || runs.iter().filter(move |run| run.model == model);
    let of = |cropped: bool| own().filter(|run| run.cropped == cropped).map(|run| run.accuracy).collect();
    ClassifierPair {
        model,
        accuracies: [of(false), of(true)],
        averaged: own().filter_map(|run| run.averaged).collect(),
    }
}

const COLUMNS: &[&str] =
    &["model", "crop", "seed", "steps", "paper_accuracy", "accuracy", "averaged_accuracy"];

fn row(run: &ClassifierRun) -> Vec<Cell> {
    let [without, with] = paper(run.model);
    vec![
        run.model.name().into(),
        run.cropped.then(|| Cell::whole(CROP.into())).into(),
        Cell::whole(run.seed),
        Cell::whole(run.steps),
        Cell::full(if run.cropped { with } else { without }),
        Cell::full(run.accuracy),
        run.averaged.map(Cell::full).into(),
    ]
}

fn digest(pairs: &[ClassifierPair]) -> Result<Table> {
    let mut table = Table::new([
        Column::text("model"),
        Column::text("sees"),
        Column::number("paper"),
        Column::number("here"),
        Column::number("deviation"),
        Column::number("runs"),
    ]);
    let crops = GRID * GRID;
    for ClassifierPair { model, accuracies: [plain, cropped], averaged } in pairs {
        let [without, with] = paper(*model).map(percent);
        for (sees, paper, values) in [
            ("the whole image".to_owned(), Some(without), plain),
            (format!("one random {CROP} × {CROP} crop"), Some(with), cropped),
            (format!("{crops} crops on a grid, answers averaged"), None, averaged),
        ] {
            let (mean, deviation) = moments(values);
            table.push([
                model.name().into(),
                sees.into(),
                paper.into(),
                percent(mean).into(),
                deviation.map(percent).into(),
                Cell::Integer(values.len() as i64),
            ])?;
        }
    }
    Ok(table)
}

/// What the paper says about each of its classifiers.
const CLAIMS: [Statement<ClassifierPair>; 2] = [
    Statement {
        says: "whole digits are told with an accuracy of over 99%",
        check: |pair| {
            let plain = moments(&pair.accuracies[0]).0;
            Ok((format!("{}: {}", pair.model.name(), percent(plain)), plain > 0.99))
        },
    },
    Statement {
        says: "cropping alone destroys accuracy: it falls to about a quarter or less",
        check: |pair| {
            let cropped = moments(&pair.accuracies[1]).0;
            let here = format!(
                "{}: {} on one crop, {} on {} crops averaged",
                pair.model.name(),
                percent(cropped),
                percent(moments(&pair.averaged).0),
                GRID * GRID
            );
            // The paper's two figures are 26% and 17%.
            Ok((here, cropped < 0.3))
        },
    },
];

fn chart(pairs: &[ClassifierPair]) -> Chart {
    let axis = format!("1: the whole image; 2: one random crop; 3: {} crops averaged", GRID * GRID);
    let mut chart =
        Chart::new("").x(Axis::linear(axis).range(0.5, 3.5)).y(Axis::linear("accuracy").range(0.0, 1.0));
    for (color, ClassifierPair { model, accuracies: [plain, cropped], averaged }) in pairs.iter().enumerate()
    {
        let means = [plain, cropped, averaged].map(|values| moments(values).0);
        let printed = paper(*model);
        chart = chart
            .series(Series::line_points(model.name(), [1.0, 2.0, 3.0].into_iter().zip(means)).color(color))
            .series(
                Series::line_points(format!("{}, paper", model.name()), [1.0, 2.0].into_iter().zip(printed))
                    .color(color)
                    .dash(Dash::Dotted),
            );
    }
    chart
}
