//! The runs of P Figure 13 as rows, a table, a picture and checked statements.

use dapple_plan::{PlanSpec, number};
use dapple_report::{Axis, Cell, Chart, Column, Figure, Table};

use super::{EPOCHS, LISTED, Measured};
use crate::experiment::{Level, means_line, moments};
use crate::failure::Failure;
use crate::reproduce::claims::Finding;
use crate::reproduce::outcome::{Outcome, Rows};
use crate::reproduce::trained::{Scale, full, percent, whole};

/// Runs of one level at one budget.
struct Group<'a> {
    level: Level,
    target: f64,
    /// One of them, for what they share.
    one: &'a Measured,
    runs: usize,
    mean: f64,
    deviation: Option<f64>,
}

pub(super) fn shown(
    epsilons: &[f64],
    runs: &[Measured],
    plan: &PlanSpec,
    scale: Scale,
) -> Result<Outcome, Failure> {
    let groups = groups(epsilons, runs);
    let one = runs.first();
    let steps = one.map_or(0, |run| run.steps);
    let notes = notes(plan, scale, steps);
    let delta = one.map_or_else(String::new, |run| number::brief(run.delta));
    let subtitle = format!(
        "{}; {steps} steps of batch {}, δ = {delta}",
        task(plan, scale),
        plan.sampling.batch.unwrap_or_default(),
    );
    Ok(Outcome {
        id: LISTED.id,
        title: LISTED.title,
        heading: format!("Figure 13: {}", LISTED.title),
        digest: digest(&groups)?,
        digest_says: "accuracy on the test images, mean and standard deviation of single runs",
        numbers: Rows { columns: COLUMNS, rows: runs.iter().map(row).collect() },
        summary: Some(Rows { columns: SUMMARY, rows: groups.iter().map(summary).collect() }),
        findings: findings(epsilons, &groups),
        findings_say: "What the paper says of it",
        figure: draw(&groups, &subtitle, &notes),
        subtitle,
        notes,
    })
}

fn task(plan: &PlanSpec, scale: Scale) -> String {
    let model = plan.model.name.as_deref().unwrap_or_default();
    match scale {
        Scale::Tiny => format!("{model} on 128 × 128 scenes, crop 32 × 32, patch 8 × 8"),
        Scale::Small | Scale::Full => format!("{model} on 300 × 300 textures, crop 100 × 100, patch 5 × 5"),
    }
}

fn groups<'a>(epsilons: &[f64], runs: &'a [Measured]) -> Vec<Group<'a>> {
    let mut groups = Vec::new();
    for &target in epsilons {
        for level in Level::ALL {
            let own: Vec<&Measured> =
                runs.iter().filter(|run| run.level == level && run.target == target).collect();
            let accuracies: Vec<f64> = own.iter().map(|run| run.accuracy).collect();
            let (mean, deviation) = moments(&accuracies);
            if let Some(&one) = own.first() {
                groups.push(Group { level, target, one, runs: own.len(), mean, deviation });
            }
        }
    }
    groups
}

const COLUMNS: &[&str] = &[
    "level",
    "epsilon_target",
    "seed",
    "accuracy",
    "epsilon",
    "delta",
    "noise_multiplier",
    "inclusion_probability",
    "steps",
];

fn row(run: &Measured) -> Vec<Cell> {
    vec![
        run.level.name().into(),
        full(run.target),
        whole(run.seed),
        full(run.accuracy),
        full(run.epsilon),
        full(run.delta),
        full(run.noise_multiplier),
        full(run.inclusion_probability),
        whole(run.steps),
    ]
}

const SUMMARY: &[&str] = &["level", "epsilon_target", "noise_multiplier", "runs", "mean", "deviation"];

fn summary(group: &Group<'_>) -> Vec<Cell> {
    vec![
        group.level.name().into(),
        full(group.target),
        full(group.one.noise_multiplier),
        Cell::Integer(group.runs as i64),
        full(group.mean),
        group.deviation.map_or(Cell::Empty, full),
    ]
}

fn digest(groups: &[Group<'_>]) -> Result<Table, Failure> {
    let mut table = Table::new([
        Column::number("ε"),
        Column::text("accounting"),
        Column::number("noise multiplier"),
        Column::number("accuracy"),
        Column::number("deviation"),
        Column::number("runs"),
    ]);
    for group in groups {
        table.push([
            number::exact(group.target).into(),
            format!("{} level", group.level.name()).into(),
            Cell::Number(group.one.noise_multiplier, 4),
            percent(group.mean).into(),
            group.deviation.map_or(Cell::Empty, |deviation| percent(deviation).into()),
            Cell::Integer(group.runs as i64),
        ])?;
    }
    Ok(table)
}

/// How much more accurate patch level is at a budget, and the standard error of that.
struct Gain {
    epsilon: f64,
    gain: f64,
    error: Option<f64>,
}

fn gain(epsilon: f64, groups: &[Group<'_>]) -> Option<Gain> {
    let of = |level| groups.iter().find(|group| group.target == epsilon && group.level == level);
    let (record, patch) = (of(Level::Record)?, of(Level::Patch)?);
    let variance = |group: &Group<'_>| Some(group.deviation?.powi(2) / group.runs as f64);
    let error = variance(record).zip(variance(patch)).map(|(record, patch)| (record + patch).sqrt());
    Some(Gain { epsilon, gain: patch.mean - record.mean, error })
}

fn findings(epsilons: &[f64], groups: &[Group<'_>]) -> Vec<Finding> {
    let gains: Vec<Gain> = epsilons.iter().filter_map(|&epsilon| gain(epsilon, groups)).collect();
    let said: Vec<String> = gains
        .iter()
        .map(|Gain { epsilon, gain, error }| {
            let error = error.map_or_else(String::new, |error| format!(" ± {:.1}", 100.0 * error));
            format!("{:+.1}{error} at ε = {}", 100.0 * gain, number::exact(*epsilon))
        })
        .collect();
    let largest = gains.iter().max_by(|one, other| one.gain.total_cmp(&other.gain));
    let ends = [gains.first(), gains.last()].map(|end| end.map(|end| end.epsilon));
    vec![
        Finding {
            paper: "patch level is more accurate at every budget",
            here: format!("by points, with standard error: {}", said.join(", ")),
            holds: gains.iter().all(|gain| gain.gain > 0.0),
        },
        Finding {
            paper: "it gains most at low to moderate budgets, and less again at ε = 1",
            here: largest.map_or_else(String::new, |largest| {
                format!("it gains most at ε = {}", number::exact(largest.epsilon))
            }),
            holds: largest.is_some_and(|largest| !ends.contains(&Some(largest.epsilon))),
        },
    ]
}

fn draw(groups: &[Group<'_>], subtitle: &str, notes: &[String]) -> Figure {
    let chart = Chart::new(format!("Figure 13: {}", LISTED.title))
        .subtitle(subtitle)
        .x(Axis::log("ε"))
        .y(Axis::linear("accuracy").range(0.0, 1.0));
    // The paper's colours: patch level blue, minibatch orange.
    let chart = [(Level::Patch, 0), (Level::Record, 1)].into_iter().fold(chart, |chart, (level, color)| {
        let own = groups.iter().filter(|group| group.level == level);
        let means: Vec<_> = own.map(|group| (group.target, group.mean, group.deviation)).collect();
        means_line(chart, format!("{} level", level.name()), color, &means)
    });
    notes.iter().fold(Figure::single(chart), |figure, note| figure.note(note.clone()))
}

fn notes(plan: &PlanSpec, scale: Scale, steps: u64) -> Vec<String> {
    let grid = plan.train.evaluation_grid.unwrap_or(1);
    let mut notes = vec![format!(
        "The paper draws its accuracies and prints none. Both levels are priced under Poisson sampling, record level as one record substituted; test images are told by {} crops, their answers averaged.",
        grid * grid
    )];
    notes.extend(match scale {
        Scale::Tiny => [
            "Scenes of garments stand in for textures: most crops tell the label. The paper fine-tunes ResNet-18 and VGG-11 on the describable textures, --scale small or full.",
            "The learning rate at each ε and level was chosen on further scenes of the training garments, which the budget does not count; the paper chose one at ε = 10 for all.",
        ]
        .map(str::to_owned)
        .to_vec(),
        Scale::Small | Scale::Full if plan.sampling.epochs == Some(EPOCHS) => Vec::new(),
        Scale::Small | Scale::Full => {
            vec![format!("Trained for {steps} steps in place of the paper's {EPOCHS} epochs.")]
        }
    });
    notes
}
