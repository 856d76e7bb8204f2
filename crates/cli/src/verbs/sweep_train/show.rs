//! Shows a trained sweep as tables, a figure and a page.

use std::path::Path;

use dapple_plan::{PlanSpec, number};
use dapple_report::{Figure, Page, Section, Table, TableRows, TextStyle, Theme};
use dapple_reproduce::experiment::{
    MeasuredRun, RunGroup, group_rows, groups, run_rows, sweep_chart, sweep_table,
};
use serde::Serialize;

use super::Arguments;
use crate::failure::Failure;
use crate::output;

/// Pixels per unit of the PNG.
const SCALE: f64 = 2.0;

#[derive(Serialize)]
struct Answer {
    measure: &'static str,
    #[serde(flatten)]
    runs: TableRows,
    summary: TableRows,
    seeds: Vec<u64>,
    report: String,
}

/// Writes tables, figure and page into the folder of the sweep, and prints the answer.
pub(super) fn show(runs: &[MeasuredRun], plan: &PlanSpec, arguments: &Arguments) -> Result<(), Failure> {
    let Some(first) = runs.first() else { return Err(Failure::run("the sweep has no runs")) };
    let groups = groups(runs);
    let (out, quiet) = (arguments.out.as_path(), arguments.common.output.quiet);
    let (all, summary) = (run_rows(runs, first.measure), group_rows(&groups));
    let figure = figure(first, &groups);
    let shown = sweep_table(first.measure, &groups)?;
    let write = |name: &str, bytes: &[u8]| output::write_file(&out.join(name), bytes, quiet);
    write("runs.csv", all.table()?.to_csv().as_bytes())?;
    write("summary.csv", summary.table()?.to_csv().as_bytes())?;
    let bare = arguments.bare.then(|| figure.clone().bare());
    let drawn = bare.as_ref().unwrap_or(&figure);
    write("sweep.svg", drawn.to_svg(Theme::Auto).as_bytes())?;
    write("sweep.png", &drawn.to_png(Theme::Light, SCALE)?)?;
    write("sweep.pdf", &drawn.to_pdf()?)?;
    let page = page(runs, &figure, &shown, plan, arguments);
    write("report.html", page.command(output::shown_command_line()).to_html().as_bytes())?;
    if arguments.common.output.json {
        return output::print_json(&Answer {
            measure: first.measure.name(),
            runs: all,
            summary,
            seeds: (1..=arguments.seeds).collect(),
            report: report(out),
        });
    }
    output::print(&shown.to_text(TextStyle::default()))?;
    output::say(quiet, &format!("open {} in a browser", report(out)));
    Ok(())
}

fn report(out: &Path) -> String {
    out.join("report.html").display().to_string()
}

fn figure(first: &MeasuredRun, groups: &[RunGroup<'_>]) -> Figure {
    let title = format!("{} over the privacy budget", first.measure.words());
    let runs = groups.iter().map(|group| group.runs).max().unwrap_or(1);
    let note = format!("Means of {runs} runs; bars are one standard deviation of single runs.");
    Figure::single(sweep_chart(&title, first.measure, groups)).note(note)
}

fn page(
    runs: &[MeasuredRun],
    figure: &Figure,
    table: &Table,
    plan: &PlanSpec,
    arguments: &Arguments,
) -> Page {
    let mut promises = Section::new("What each protects");
    let mut told = Vec::new();
    for run in runs {
        let (method, spent) = (run.setting.method, run.spent.as_ref());
        if !told.contains(&method) {
            told.push(method);
            let protects = spent.map_or("nothing is guaranteed".to_owned(), |spent| {
                format!("{}, at delta {}", spent.protects, number::brief(spent.delta))
            });
            promises = promises.paragraph(format!("**{}:** {protects}.", method.words()));
        }
    }
    let seeds = format!(
        "Seeds of initial weights: 1 to {}. Records, crops and noise are drawn anew in every run{}.",
        arguments.seeds,
        if plan.train.seed.is_some() {
            ", from the plan's seed and the run's"
        } else {
            ", from the operating system"
        },
    );
    let mut settings = Section::new("The plan").paragraph(
        "This is the plan as it was given. Each method sets its relation and its sampling, and the noise is solved for at every budget.",
    );
    for own in &arguments.set_for {
        settings = settings.paragraph(format!("`{own}`"));
    }
    Page::new("One plan, several promises")
        .lead("The same data, model and steps, trained under several neighbouring relations and budgets.")
        .section(
            Section::new("")
                .figure(figure, "Quality on records that were not trained on.")
                .table(table, "Means and standard deviations of single runs.")
                .paragraph(seeds),
        )
        .section(promises)
        .section(settings.code(plan.to_toml()))
}
