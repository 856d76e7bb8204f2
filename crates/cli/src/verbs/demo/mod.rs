//! `dapple demo`: an embedded example, record level against patch level at the same epsilon.

mod garments;
mod page;
mod streets;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use dapple_plan::{PlanSpec, number};
use dapple_report::{Cell, Column, ReportError, Table, TextStyle};
use dapple_reproduce::experiment::{self, Experiment, FinishedRun, Level, PlannedRun, moments};
use dapple_train::Measure;
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::machine::MachineFlags;
use crate::output;
use crate::progress::Screen;

/// Trains on streets at record level and at patch level, with the same epsilon, and shows what each finds
#[derive(Debug, Args)]
#[command(after_help = "The streets, and the garments, are part of the program: nothing is fetched.

Examples:
  dapple demo
  dapple demo --garments --out demo-garments --seeds 4")]
pub(crate) struct Arguments {
    /// The folder of runs and report; runs that are there already are read, or resumed
    #[arg(long, value_name = "DIR", default_value = "dapple-demo")]
    out: PathBuf,
    /// Tells which garment most of a scene's are, instead of finding the parts of a street
    #[arg(long)]
    garments: bool,
    /// Times that each method is trained, from other initial weights
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Steps of each run
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    steps: Option<u64>,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// The levels that are compared, in order.
const LEVELS: [Level; 2] = experiment::scenes::LEVELS;

/// The results of a method.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    method: &'static str,
    relation: &'static str,
    sampling: &'static str,
    protects: String,
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    inclusion_probability: f64,
    measure: &'static str,
    scores: Vec<f64>,
    mean: f64,
    /// Standard deviation of single runs; `None` if there is only one.
    deviation: Option<f64>,
    /// The share of the images, or pixels, of each class that are found, averaged over all runs.
    per_class: Vec<Option<f64>>,
    curve: Vec<Point>,
}

/// The score after some steps, averaged over all runs.
#[derive(Debug, Serialize)]
struct Point {
    step: u64,
    mean: f64,
    deviation: Option<f64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    methods: &'a [Measured],
    report: String,
    seconds: f64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let began = Instant::now();
    let methods = measure(arguments)?;
    let report = arguments.out.join("report.html");
    let page = page::page(arguments, &methods, &plan(Level::Patch, arguments)?)?;
    output::write_file(&report, page.to_html().as_bytes(), true)?;
    let seconds = began.elapsed().as_secs_f64();
    if arguments.output.json {
        let report = report.display().to_string();
        return output::print_json(&Answer { methods: &methods, report, seconds });
    }
    output::print(&table(&methods)?.to_text(TextStyle::default()))?;
    output::say(arguments.output.quiet, &format!("{seconds:.0} s; open {} in a browser", report.display()));
    Ok(())
}

fn measure(arguments: &Arguments) -> Result<Vec<Measured>, Failure> {
    let seeds = 1..=arguments.seeds;
    let settings = LEVELS.into_iter().flat_map(|level| seeds.clone().map(move |seed| (level, seed)));
    let planned = |(level, seed): (Level, u64)| {
        let mut spec = plan(level, arguments)?;
        spec.model.seed = Some(seed);
        Ok(PlannedRun::of(run_name(level, seed), spec))
    };
    let runs = settings.map(planned).collect::<Result<Vec<_>, Failure>>()?;
    let finished = Experiment {
        place: &arguments.out,
        jobs: None,
        device: None,
        precision: None,
        watch: &Screen::new(arguments.output.quiet),
    }
    .carry_out(&runs)?;
    let together = finished.chunks(usize::try_from(arguments.seeds).unwrap_or(usize::MAX));
    LEVELS.into_iter().zip(together).map(|(level, runs)| measured(level, runs)).collect()
}

fn measured(level: Level, runs: &[FinishedRun]) -> Result<Measured, Failure> {
    let spent = runs.first().and_then(|run| run.certificate.spent.clone());
    let Some(spent) = spent else { return Err(Failure::run("the demonstration spent nothing")) };
    let mut by_step: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (step, score) in runs.iter().flat_map(|run| run.curve.iter().copied()) {
        by_step.entry(step).or_default().push(score);
    }
    let point = |(&step, scores): (&u64, &Vec<f64>)| {
        let (mean, deviation) = moments(scores);
        Point { step, mean, deviation }
    };
    let scores = runs.iter().map(FinishedRun::quality).collect::<Result<Vec<_>, _>>()?;
    let (mean, deviation) = moments(&scores);
    Ok(Measured {
        method: level.name(),
        relation: spent.relation.name(),
        sampling: spent.sampling.name(),
        protects: spent.protects,
        epsilon: spent.epsilon.upper,
        delta: spent.delta,
        noise_multiplier: spent.noise_multiplier,
        inclusion_probability: spent.inclusion_probability,
        measure: runs.first().map_or(Measure::Accuracy, |run| run.measure).words(),
        scores,
        mean,
        deviation,
        per_class: per_class(runs),
        curve: by_step.iter().map(point).collect(),
    })
}

/// The share of each class that is found, averaged over the runs; `None` for a class that does not occur.
fn per_class(runs: &[FinishedRun]) -> Vec<Option<f64>> {
    let classes = runs.first().map_or(0, |run| run.per_class.len());
    let of_class = |class: usize| {
        let found: Option<Vec<f64>> =
            runs.iter().map(|run| run.per_class.get(class).copied().flatten()).collect();
        found.map(|found| moments(&found).0)
    };
    (0..classes).map(of_class).collect()
}

/// The name of a run and of its folder.
fn run_name(level: Level, seed: u64) -> String {
    format!("{}-{seed}", level.name())
}

fn plan(level: Level, arguments: &Arguments) -> Result<PlanSpec, Failure> {
    let mut spec = match arguments.garments {
        true => experiment::scenes::plan(level, None)?,
        false => experiment::streets::plan(level)?,
    };
    spec.sampling.steps = arguments.steps.or(spec.sampling.steps);
    spec.performance = spec.performance.merge(&arguments.machine.performance());
    Ok(spec)
}

fn table(methods: &[Measured]) -> Result<Table, ReportError> {
    let mut table = Table::new([
        Column::text("accounting"),
        Column::number("epsilon"),
        Column::number("noise multiplier"),
        Column::number(methods.first().map_or("score", |method| method.measure)),
        Column::number("deviation"),
        Column::number("runs"),
    ]);
    for method in methods {
        table.push([
            format!("{} level", method.method).into(),
            number::up(method.epsilon, 4).into(),
            Cell::Number(method.noise_multiplier, 4),
            Cell::Text(format!("{:.3}", method.mean)),
            method.deviation.map_or(Cell::Empty, |deviation| Cell::Text(format!("{deviation:.3}"))),
            Cell::Integer(method.scores.len() as i64),
        ])?;
    }
    Ok(table)
}
