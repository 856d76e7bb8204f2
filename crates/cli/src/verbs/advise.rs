//! `dapple advise`: which batch, steps, bands, views and crop leave the least noise for the same budget and the same work.

use clap::Args;
use dapple_plan::spec::Pixels;
use dapple_plan::{
    Advice, Advised, BracketPrecision, Mask, Plan, PlanSpec, advise, noise_in_what_is_learned, number,
};
use dapple_report::{Axis, Cell, Chart, Column, Figure, Page, Section, Series, Table, TextStyle};
use rayon::prelude::*;
use serde::Serialize;

use crate::args::Common;
use crate::failure::Failure;
use crate::load::PricingRequest;
use crate::output;
use crate::pictures::Pictures;

/// Sides of crops that are compared, over those of the plan's crop.
const SIDES: [f64; 5] = [0.5, std::f64::consts::FRAC_1_SQRT_2, 1.0, std::f64::consts::SQRT_2, 2.0];
/// Numbers of views that are compared.
const VIEWS: [u32; 3] = [1, 2, 4];

/// Finds the batch, steps and bands with the least noise for a plan's budget and work, for several crops and views
#[derive(Debug, Args)]
#[command(
    after_help = "The work is that of the plan: as many pixels of views are looked at. Nothing is known of the data, so the noise is an estimate of
what the gradients drown in; how much a smaller crop shows, what more views teach, and how many steps a model needs, is for experiments.

Example:
  dapple advise plan.toml --epsilon 2 --work 0.5"
)]
pub(crate) struct Arguments {
    /// How much work there may be, in that of the plan
    #[arg(long, value_name = "TIMES", default_value_t = 1.0)]
    work: f64,
    /// The fewest steps that are advised, because little noise is of no use to a model that hardly moves [default: a quarter of the plan's]
    #[arg(long, value_name = "T")]
    least_steps: Option<u64>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    pictures: Pictures,
}

/// What is advised for a crop and a number of views.
#[derive(Serialize)]
struct AdvisedView {
    /// Width and height; `None` if the plan has no crop of a fixed size.
    crop: Option<[u32; 2]>,
    views: u32,
    #[serde(flatten)]
    advised: Advised,
    /// Whether these are the plan's own crop and views.
    own: bool,
}

#[derive(Serialize)]
struct Answer<'a> {
    epsilon: f64,
    /// The noise of the plan as it is.
    noise: f64,
    advice: &'a [AdvisedView],
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.pictures.check()?;
    if !(arguments.work > 0.0 && arguments.work.is_finite()) {
        return Err(Failure::request(
            format!("--work {}: not a positive number", arguments.work),
            "give how many times the plan's work there may be, such as 0.5",
        ));
    }
    let mut request = PricingRequest::load(&arguments.common)?;
    request.settle()?;
    let plan = request.plan()?;
    let epsilon = match request.spec.privacy.epsilon {
        Some(epsilon) => epsilon,
        None => plan.price(BracketPrecision::default())?.epsilon.upper,
    };
    request.spec.privacy.epsilon = Some(epsilon);
    let least = arguments.least_steps.unwrap_or(plan.steps().div_ceil(4));
    let found = compare(&request.spec, &request.masks, &plan, (arguments.work, least))?;
    let noise = noise_in_what_is_learned(&plan);
    let figure = figure(&plan, epsilon, noise, &found);
    arguments.pictures.write(arguments.common.output.quiet, &table(&found, noise)?, &figure, || {
        page(&plan, &found, noise, &figure)
    })?;
    if arguments.common.output.json {
        return output::print_json(&Answer { epsilon, noise, advice: &found });
    }
    output::print(&table(&found, noise)?.to_text(TextStyle::default()))?;
    output::say(
        arguments.common.output.quiet,
        "noise: an estimate of that in what is learned, over that of the plan as it is; no bound",
    );
    if let Some(own) = found.iter().find(|view| view.own) {
        output::say(arguments.common.output.quiet, &own.advised.best.toml());
    }
    Ok(())
}

/// Searches for every crop and number of views, on all cores.
fn compare(
    spec: &PlanSpec,
    masks: &[Mask],
    plan: &Plan,
    (work, least): (f64, u64),
) -> Result<Vec<AdvisedView>, Failure> {
    let own = (spec.pipeline.crop, plan.spatial().views());
    let mut crops: Vec<Option<Pixels>> = match (own.0, spec.pipeline.image) {
        (Some(crop), Some(image)) => {
            let side =
                |side: u32, most: u32, times: f64| ((f64::from(side) * times).round() as u32).clamp(1, most);
            SIDES
                .iter()
                .map(|&times| {
                    Some(Pixels { x: side(crop.x, image.x, times), y: side(crop.y, image.y, times) })
                })
                .collect()
        }
        (crop, _) => vec![crop],
    };
    crops.dedup();
    let area = |crop: Option<Pixels>| crop.map_or(1.0, |crop| f64::from(crop.x) * f64::from(crop.y));
    let looked_at = plan.batch() as f64 * plan.steps() as f64 * f64::from(own.1) * area(own.0) * work;
    let mut views: Vec<u32> = VIEWS.into_iter().chain([own.1]).collect();
    views.sort_unstable();
    views.dedup();
    let gradients = |&(crop, views): &(Option<Pixels>, u32)| looked_at / (f64::from(views) * area(crop));
    let mut settings: Vec<(Option<Pixels>, u32)> =
        crops.iter().flat_map(|&crop| views.iter().map(move |&views| (crop, views))).collect();
    // Views or crops for which the work is less than one gradient are none to compare with.
    settings.retain(|setting| *setting == own || gradients(setting) >= 1.0);
    let advised = |setting: &(Option<Pixels>, u32)| {
        let &(crop, views) = setting;
        let mut spec = spec.clone();
        (spec.pipeline.crop, spec.pipeline.views) = (crop, Some(views));
        let mut advised = advise(&spec, masks, gradients(setting) as u64)?;
        // Where no batch leaves so many steps, the one that leaves most is as near as it gets.
        let most = advised.by_batch.iter().map(|advice| advice.steps).max().unwrap_or(0);
        advised.by_batch.retain(|advice| advice.steps >= least.min(most));
        let by_noise = |one: &&Advice, other: &&Advice| one.noise.total_cmp(&other.noise);
        if let Some(best) = advised.by_batch.iter().min_by(by_noise) {
            advised.best = best.clone();
        }
        let crop_size = crop.map(|crop| [crop.x, crop.y]);
        Ok(AdvisedView { crop: crop_size, views, advised, own: (crop, views) == own })
    };
    settings.par_iter().map(advised).collect()
}

/// The noise over that of the plan as it is.
fn relative(advice: &Advice, noise: f64) -> Cell {
    number::brief(advice.noise / noise).into()
}

fn size(view: &AdvisedView) -> String {
    view.crop.map_or_else(|| "none".to_owned(), |[x, y]| format!("{x}x{y}"))
}

fn table(found: &[AdvisedView], noise: f64) -> Result<Table, Failure> {
    let mut table = Table::new([
        Column::text("crop"),
        Column::number("views"),
        Column::number("batch"),
        Column::number("steps"),
        Column::number("bands"),
        Column::number("noise_multiplier"),
        Column::number("noise"),
        Column::text("setting"),
    ]);
    for view in found {
        let best = &view.advised.best;
        table.push([
            size(view).into(),
            Cell::Integer(i64::from(view.views)),
            Cell::Integer(best.batch as i64),
            Cell::Integer(best.steps as i64),
            Cell::Integer(best.bands as i64),
            number::up(best.noise_multiplier, 4).into(),
            relative(best, noise),
            if view.own { "the plan's crop and views" } else { "" }.into(),
        ])?;
    }
    Ok(table)
}

fn figure(plan: &Plan, epsilon: f64, noise: f64, found: &[AdvisedView]) -> Figure {
    let mut chart = Chart::new("Noise over the batch")
        .subtitle(format!(
            "epsilon {}, {} records, {} views of each record, the same work everywhere",
            number::brief(epsilon),
            plan.records(),
            plan.spatial().views()
        ))
        .x(Axis::log("batch"))
        .y(Axis::log("noise, over that of the plan"));
    for view in found.iter().filter(|view| view.views == plan.spatial().views()) {
        let points = view.advised.by_batch.iter().map(|advice| (advice.batch as f64, advice.noise / noise));
        chart = chart.series(Series::line(format!("crop {}", size(view)), points));
    }
    Figure::single(chart)
        .note("An estimate from the accountant alone, with the best number of bands at each batch.")
}

fn page(plan: &Plan, found: &[AdvisedView], noise: f64, figure: &Figure) -> Page {
    let section = Section::new("")
        .figure(figure, "How much noise is in what is learned, for the same budget and the same work.");
    let section = match table(found, noise) {
        Ok(table) => {
            section.table(&table, "The setting with the least noise for each crop and number of views.")
        }
        Err(_) => section,
    };
    Page::new("Advice").lead(format!("Plan `{}`.", plan.hash())).section(section)
}
