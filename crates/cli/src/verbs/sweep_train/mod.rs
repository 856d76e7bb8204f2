//! `dapple sweep-train`: a plan trained for every budget, method and seed.

mod own;
mod show;

use std::path::PathBuf;

use clap::Args;
use dapple_plan::spec::{DataFormat, RegionSpec};
use dapple_reproduce::experiment::{Experiment, Level, Method, Setting};
use dapple_train::Request;

use crate::args::Common;
use crate::budget::BudgetFlags;
use crate::failure::Failure;
use crate::load;
use crate::machine::MachineFlags;
use crate::progress::Screen;
use own::Own;

/// Trains a plan for every budget, method and seed, and compares what comes out
#[derive(Debug, Args)]
#[command(after_help = "A plan to train has sections `data`, `model` and `optimiser`.

Example:
  dapple sweep-train plan.toml --out sweep --epsilons 1,5,10 --methods record,patch --seeds 4")]
pub(crate) struct Arguments {
    /// The folder of runs, tables and figures; finished runs are read, interrupted ones are resumed
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The budgets; the noise is solved for at each [default: the plan's epsilon]
    #[arg(long, value_name = "E,..", value_delimiter = ',', value_parser = budget)]
    epsilons: Vec<f64>,
    /// What is compared
    #[arg(
        long,
        value_name = "METHOD,..",
        value_delimiter = ',',
        default_value = "record,patch,record-poisson,patch-poisson"
    )]
    methods: Vec<Method>,
    /// Times that each is trained: from initial weights of seeds 1 to N, each run with noise of its own
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Runs at once [default: as many as cores and memory allow]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Draws the files of the figure without title and notes, for a paper that has words of its own
    #[arg(long)]
    bare: bool,
    /// Sets a key of the plan for one method, or for one method at one budget; may be repeated
    #[arg(long, value_name = "METHOD[@E]:KEY=VALUE")]
    set_for: Vec<Own>,
    #[command(flatten)]
    machine: MachineFlags,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    common: Common,
}

fn budget(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err("not a positive number".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut base = load::training(&arguments.common)?;
    base.spec.performance = base.spec.performance.merge(&arguments.machine.performance());
    let epsilons = budgets(&arguments.epsilons, &base)?;
    let settings = Setting::grid(&epsilons, &arguments.methods, arguments.seeds);
    refuse(arguments, &base, &epsilons)?;
    let experiment = Experiment {
        place: &arguments.out,
        jobs: arguments.jobs.map(usize::from),
        device: None,
        precision: None,
        watch: &Screen::new(arguments.common.output.quiet),
    };
    let runs = experiment.measure(&settings, arguments.budget.within().as_ref(), |setting| {
        request(&base, setting, &arguments.set_for)
    })?;
    show::show(&runs, &base.spec, arguments)
}

/// The budgets that were asked for, each once, or else the plan's budget.
fn budgets(asked: &[f64], base: &Request) -> Result<Vec<f64>, Failure> {
    let mut epsilons: Vec<f64> = Vec::new();
    for &epsilon in asked {
        if !epsilons.contains(&epsilon) {
            epsilons.push(epsilon);
        }
    }
    if epsilons.is_empty() {
        epsilons.extend(base.spec.privacy.epsilon);
    }
    if epsilons.is_empty() {
        return Err(Failure::request(
            "there is no budget to train for",
            "give --epsilons 1,5,10, or privacy.epsilon in the plan",
        ));
    }
    Ok(epsilons)
}

/// Refuses what no run could carry out, before any run begins.
fn refuse(arguments: &Arguments, base: &Request, epsilons: &[f64]) -> Result<(), Failure> {
    if arguments.budget.within().is_some() && arguments.methods.contains(&Method::NonPrivate) {
        return Err(Failure::request(
            "method non-private: a run without privacy has no price that a budget could count",
            "leave it out of --methods, or leave --budget out",
        ));
    }
    let patch = arguments.methods.iter().find(|method| method.level() == Some(Level::Patch));
    if let Some(method) = patch.filter(|_| base.spec.region == RegionSpec::default()) {
        return Err(Failure::request(
            format!("method {} protects a region, and the plan names none", method.name()),
            "give --patch WxH or region.patch in the plan, or leave the method out of --methods",
        ));
    }
    let tokens = arguments.methods.iter().find(|method| method.level() == Some(Level::Tokens));
    // Drawn clips have masks of their own.
    let drawn = base.spec.data.format == Some(DataFormat::MovingShapes);
    if let Some(method) = tokens.filter(|_| base.spec.data.masks.is_none() && !drawn) {
        return Err(Failure::request(
            format!(
                "method {} protects private parts, and the plan does not say which they are",
                method.name()
            ),
            "give data.masks in the plan, or leave the method out of --methods",
        ));
    }
    if arguments.methods.contains(&Method::NoisyPixels) && base.spec.pipeline.pixel_noise.is_none() {
        return Err(Failure::request(
            "method noisy-pixels adds noise to pixels, and the plan does not say how much",
            "give --set pipeline.pixel_noise=10, of values from 0 to 1, or leave the method out of --methods",
        ));
    }
    let data = &base.spec.data;
    let has_test = data.format.is_some_and(DataFormat::is_embedded);
    if !has_test && data.test.is_none() && data.validation.is_none() {
        return Err(Failure::request(
            "data.test: there is nothing to compare the runs on",
            "give data.test, or data.validation = 0.1",
        ));
    }
    let until_budget = base.spec.train.until_budget == Some(true);
    if base.spec.privacy.noise_multiplier.is_some() && !until_budget {
        return Err(Failure::request(
            "privacy.noise_multiplier: a sweep solves for the noise of each method and budget",
            "leave it out, or set train.until_budget = true to have the steps solved for",
        ));
    }
    let idle = arguments.set_for.iter().find(|own| {
        !arguments.methods.contains(&own.method)
            || own.epsilon.is_some_and(|epsilon| !epsilons.contains(&epsilon))
    });
    match idle {
        Some(own) => Err(Failure::request(
            format!("--set-for {own}: no run of the sweep is of this kind"),
            "name a method of --methods and, if any, a budget of --epsilons",
        )),
        None => Ok(()),
    }
}

/// The plan of a setting.
fn request(base: &Request, setting: &Setting, own: &[Own]) -> Result<Request, Failure> {
    let mut request = base.clone();
    request.spec.privacy.epsilon = setting.epsilon;
    request.spec = setting.method.of(request.spec);
    for own in own.iter().filter(|own| own.concerns(setting)) {
        request.spec.set(&own.key, &own.value)?;
    }
    // Otherwise the plan's seed of all randomness would give every run the same noise.
    request.spec.train.seed = request.spec.train.seed.map(|seed| seed.wrapping_add(setting.seed));
    if request.spec.region == RegionSpec::default() {
        request.masks.clear();
    }
    Ok(request)
}
