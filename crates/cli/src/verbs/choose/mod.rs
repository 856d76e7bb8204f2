//! `dapple choose`: the best of several private runs, at a price that is known in advance.

mod draw;
mod release;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use dapple_plan::spec::DataFormat;
use dapple_plan::sweep::{self, SweepAxis};
use dapple_plan::{Repetitions, number};
use dapple_train::{ChoiceCertificate, Completed, Request};
use serde::Serialize;

use crate::args::Common;
use crate::budget::BudgetFlags;
use crate::failure::Failure;
use crate::machine::MachineFlags;
use crate::shell_words::ShellWords;
use crate::{load, output};
use draw::DrawnRepetitions;
use release::Chosen;

/// Trains some plans a random number of times and releases the best run, at a price that is known beforehand
#[derive(Debug, Args)]
#[command(
    after_help = "A plan to train has sections `data`, `model` and `optimiser`, and public records to score on (data.test).

Examples:
  dapple choose plan.toml --over optimiser.learning_rate=0.5,1,2 --price
  dapple choose plan.toml --over optimiser.learning_rate=0.5,1,2 --repetitions 10 --out runs/best"
)]
pub(crate) struct Arguments {
    /// The folder of the chosen run; what is not released lies in its folder `private`
    #[arg(long, value_name = "DIR", required_unless_present = "price")]
    out: Option<PathBuf>,
    /// A key or flag name and its values; may be repeated. Each repetition draws one of all combinations
    #[arg(long, value_name = "KEY=A:B:STEP|KEY=A,B,C", required = true, value_parser = ShellWords::axes(), hide_possible_values = true)]
    over: Vec<String>,
    /// Repetitions to expect; how many there are is drawn, and stays secret
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    repetitions: f64,
    /// The law of the number of repetitions
    #[arg(long, value_name = "LAW", value_enum, default_value = "logarithmic")]
    law: LawName,
    /// Tells the price and trains nothing
    #[arg(long)]
    price: bool,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LawName {
    /// Cheapest; one repetition is the most likely
    Logarithmic,
    /// Costs more; a single repetition is less likely
    Geometric,
    /// Close to its mean, for runs with a small epsilon; there may be no repetition at all
    Poisson,
}

impl LawName {
    fn with_mean(self, mean: f64) -> Result<Repetitions, Failure> {
        let law = match self {
            Self::Logarithmic => Repetitions::negative_binomial(0.0, mean),
            Self::Geometric => Repetitions::negative_binomial(1.0, mean),
            Self::Poisson => Repetitions::poisson(mean),
        };
        law.map_err(|error| Failure::request(format!("--repetitions: {error}"), "give a number such as 10"))
    }
}

/// A combination of values with its plan.
struct Candidate {
    /// Dotted keys with their values.
    values: Vec<(&'static str, String)>,
    request: Request,
    completed: Completed,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    certificate: &'a ChoiceCertificate,
    folder: Option<String>,
    chosen: Option<&'a Chosen>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let law = arguments.law.with_mean(arguments.repetitions)?;
    let candidates = candidates(arguments)?;
    let completed: Vec<Completed> = candidates.iter().map(|candidate| candidate.completed.clone()).collect();
    let certificate = dapple_train::choose_price(&completed, law)?;
    let (json, quiet) = (arguments.common.output.json, arguments.common.output.quiet);
    let Some(out) = arguments.out.as_deref().filter(|_| !arguments.price) else {
        return match json {
            true => output::print_json(&Answer { certificate: &certificate, folder: None, chosen: None }),
            false => output::print(&text(&certificate, None)),
        };
    };
    let mut drawn = DrawnRepetitions::open(out, law, &candidates)?;
    if let Some(within) = arguments.budget.within()
        && dapple_train::budget_of_run(out)?.is_none()
    {
        dapple_train::reserve_choice(&within, &completed, law, out).inspect_err(|_| drawn.forget())?;
    }
    drawn.carry_out(&candidates, quiet)?;
    let chosen = release::best(out, &drawn, &candidates, &certificate)?;
    let folder = Some(out.display().to_string());
    match json {
        true => output::print_json(&Answer { certificate: &certificate, folder, chosen: chosen.as_ref() }),
        false => output::print(&text(&certificate, chosen.as_ref())),
    }
}

/// Every combination of values, each with its completed plan.
fn candidates(arguments: &Arguments) -> Result<Vec<Candidate>, Failure> {
    let axes = arguments.over.iter().map(|text| SweepAxis::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let mut base = load::training(&arguments.common)?;
    base.spec.performance = base.spec.performance.merge(&arguments.machine.performance());
    refuse(&base)?;
    let mut candidates = Vec::new();
    for values in sweep::combinations(&axes)? {
        let mut request = base.clone();
        for (axis, value) in axes.iter().zip(&values) {
            if axis.key.path.starts_with("data.") || axis.key.path.starts_with("region.") {
                return Err(Failure::request(
                    format!(
                        "--over {}: candidates train on the same records and protect the same",
                        axis.name()
                    ),
                    "vary the model, the optimiser, the sampling or the noise",
                ));
            }
            request.spec.set(axis.key.path, value)?;
        }
        let request = request.in_full();
        let completed = dapple_train::complete(&request)?;
        let values = axes.iter().map(|axis| axis.key.path).zip(values).collect();
        candidates.push(Candidate { values, request, completed });
    }
    Ok(candidates)
}

/// Refuses plans for which the price would not hold.
fn refuse(base: &Request) -> Result<(), Failure> {
    let (data, train) = (&base.spec.data, &base.spec.train);
    let embedded = data.format.is_some_and(DataFormat::is_embedded);
    if data.validation.is_some() || (data.test.is_none() && !embedded) {
        return Err(Failure::request(
            "data.test: runs are chosen by a score on public records, and the plan names none",
            "give data.test; records split off by data.validation are private, and choosing by them is not priced",
        ));
    }
    if train.seed.is_some() {
        return Err(Failure::request(
            "train.seed: repetitions of one plan would all be the same run",
            "leave it out; every repetition draws its own randomness",
        ));
    }
    if train.private == Some(false) {
        return Err(Failure::request(
            "train.private: a choice among runs without privacy has no price",
            "leave it out",
        ));
    }
    Ok(())
}

fn text(certificate: &ChoiceCertificate, chosen: Option<&Chosen>) -> String {
    let law = match certificate.shape {
        Some(0.0) => "logarithmic",
        Some(_) => "geometric",
        None => "Poisson",
    };
    let mut lines = Vec::new();
    if let Some(chosen) = chosen {
        let values = chosen.values.iter().map(|(key, value)| format!("{key} = {value}"));
        lines.push(("chosen", values.collect::<Vec<_>>().join(", ")));
        lines.push((chosen.measure, format!("{:.4}", chosen.score)));
    }
    lines.extend([
        ("epsilon", format!("<= {}", number::up(certificate.epsilon, 4))),
        ("delta", number::brief(certificate.delta)),
        ("of one run", format!("{} if it were the only one", number::up(certificate.epsilon_of_one, 4))),
        ("protects", certificate.protects.clone()),
        ("relation", certificate.relation.to_owned()),
        ("candidates", certificate.candidates.to_string()),
        (
            "repetitions",
            format!(
                "{law} with mean {}; how many there are is not told",
                (1e6 * certificate.mean).round() / 1e6
            ),
        ),
    ]);
    lines.iter().map(|(name, value)| output::wrapped(name, value)).collect()
}
