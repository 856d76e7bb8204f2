//! `dapple demo`: the embedded example, record level against patch level at the same epsilon.

mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use dapple_plan::spec::Pixels;
use dapple_plan::{PlanSpec, Relation, number};
use dapple_report::{Cell, Column, ReportError, Table, TextStyle};
use dapple_train::{Request, Status};
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::Progress;
use crate::{output, run_page};

/// What both methods share.
const PLAN: &str = include_str!("demo.toml");

/// Trains the embedded example at record level and at patch level, and compares them
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of runs and report; it must not hold a demonstration yet
    #[arg(long, value_name = "DIR", default_value = "dapple-demo")]
    out: PathBuf,
    /// Times that each method is trained, from other initial weights
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Steps of each run
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    steps: Option<u64>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
    /// Says nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

/// One way to account for the same training.
#[derive(Debug, Clone, Copy)]
struct Method {
    name: &'static str,
    relation: Relation,
    patch: Option<Pixels>,
    /// The best of 1/4, 1/2, 1, 2 and 4 on a thousand further scenes of the training garments; more noise wants smaller steps.
    learning_rate: f64,
}

const METHODS: [Method; 2] = [
    Method { name: "record", relation: Relation::Replace, patch: None, learning_rate: 1.0 },
    Method {
        name: "patch",
        relation: Relation::Patch,
        patch: Some(Pixels { x: 8, y: 8 }),
        learning_rate: 2.0,
    },
];

impl Method {
    fn spec(&self, seed: u64, steps: Option<u64>) -> Result<PlanSpec, Failure> {
        let mut spec = PlanSpec::from_toml(PLAN)?;
        spec.privacy.relation = Some(self.relation);
        spec.region.patch = self.patch;
        spec.optimiser.learning_rate = Some(self.learning_rate);
        spec.model.seed = Some(seed);
        spec.sampling.steps = steps.or(spec.sampling.steps);
        Ok(spec)
    }
}

/// What came of a method.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    method: &'static str,
    relation: &'static str,
    protects: String,
    epsilon: f64,
    delta: f64,
    noise_multiplier: f64,
    inclusion_probability: f64,
    accuracies: Vec<f64>,
    mean: f64,
    /// Of single runs, from the mean; none for a single run.
    deviation: Option<f64>,
    curve: Vec<Point>,
}

/// Accuracy after some steps, over all runs.
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
    let methods = METHODS.iter().map(|method| measure(method, arguments)).collect::<Result<Vec<_>, _>>()?;
    let report = arguments.out.join("report.html");
    let page = page::page(&methods, &METHODS[1].spec(1, arguments.steps)?)?;
    output::write_file(&report, page.to_html().as_bytes(), true)?;
    let seconds = began.elapsed().as_secs_f64();
    if arguments.json {
        let report = report.display().to_string();
        return output::print_json(&Answer { methods: &methods, report, seconds });
    }
    output::print(&table(&methods)?.to_text(TextStyle::default()))?;
    output::say(arguments.quiet, &format!("{seconds:.0} s; open {} in a browser", report.display()));
    Ok(())
}

fn measure(method: &Method, arguments: &Arguments) -> Result<Measured, Failure> {
    let mut measured: Option<Measured> = None;
    let mut accuracies: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for seed in 1..=arguments.seeds {
        let folder = arguments.out.join(format!("{}-{seed}", method.name));
        let spec = method.spec(seed, arguments.steps)?;
        let request = Request { spec, base: PathBuf::new(), masks: Vec::new() };
        let outcome = train(&request, &folder, method.name, seed, arguments.quiet)?;
        for line in run_page::evaluations(&folder)? {
            accuracies.entry(line.step).or_default().push(line.evaluation.accuracy);
        }
        if let Some(spent) = outcome.certificate.spent {
            measured = Some(Measured {
                method: method.name,
                relation: spent.relation,
                protects: spent.protects,
                epsilon: spent.epsilon.upper,
                delta: spent.delta,
                noise_multiplier: spent.noise_multiplier,
                inclusion_probability: spent.inclusion_probability,
                accuracies: Vec::new(),
                mean: 0.0,
                deviation: None,
                curve: Vec::new(),
            });
        }
    }
    let Some(mut measured) = measured else { return Err(Failure::run("the demonstration spent nothing")) };
    for (step, accuracies) in accuracies {
        let (mean, deviation) = moments(&accuracies);
        (measured.mean, measured.deviation) = (mean, deviation);
        measured.curve.push(Point { step, mean, deviation });
        measured.accuracies = accuracies;
    }
    Ok(measured)
}

fn train(
    request: &Request,
    folder: &Path,
    method: &str,
    seed: u64,
    quiet: bool,
) -> Result<dapple_train::Outcome, Failure> {
    let mut progress = Progress::new(format!("{method} {seed}"), quiet);
    let outcome = dapple_train::start(request, folder, &mut progress)?;
    match outcome.certificate.status {
        Status::Finished => Ok(outcome),
        Status::Running | Status::Stopped => Err(Failure::Interrupted),
    }
}

/// Mean and, of two or more values, standard deviation.
fn moments(values: &[f64]) -> (f64, Option<f64>) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt()))
}

fn table(methods: &[Measured]) -> Result<Table, ReportError> {
    let mut table = Table::new([
        Column::text("accounting"),
        Column::number("epsilon"),
        Column::number("noise multiplier"),
        Column::number("accuracy"),
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
            Cell::Integer(method.accuracies.len() as i64),
        ])?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_plan::Plan;

    #[test]
    fn both_plans_differ_only_in_what_they_protect() {
        let [record, patch] = METHODS.map(|method| {
            let mut spec = method.spec(1, None).unwrap();
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
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(moments(&[0.5]), (0.5, None));
        assert_eq!(moments(&[1.0, 3.0]), (2.0, Some(2.0_f64.sqrt())));
    }
}
