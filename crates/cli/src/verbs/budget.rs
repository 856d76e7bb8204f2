//! `dapple budget`: what all runs on the same records cost together.

use std::path::{Path, PathBuf};

use clap::Args;
use dapple_plan::number;
use dapple_report::{Cell, Column, Table, TextStyle};
use dapple_train::{BudgetStatement, Within};
use serde::Serialize;

use crate::args::OutputFlags;
use crate::failure::Failure;
use crate::output;

/// Tells what all runs on the same records cost together
#[derive(Debug, Args)]
#[command(after_help = "Runs are counted where they are trained with --budget.

Examples:
  dapple budget faces.budget
  dapple budget faces.budget --epsilon-total 4
  dapple budget faces.budget --add runs/before")]
pub(crate) struct Arguments {
    /// A budget, a folder of budgets, a run that is counted in one, or data with a budget beside it (DATA.budget)
    #[arg(value_name = "DATA|FILE")]
    path: PathBuf,
    /// States the most that everything may cost together, or another limit than before
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    epsilon_total: Option<f64>,
    /// Counts a run that was trained without a budget, as a whole; may be repeated
    #[arg(long, value_name = "RUN")]
    add: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Serialize)]
struct Several {
    budgets: Vec<BudgetStatement>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let place = place(&arguments.path)?;
    for run in &arguments.add {
        dapple_train::add_run(&Within { file: place.clone(), total: None }, run)?;
    }
    if let Some(total) = arguments.epsilon_total {
        dapple_train::state_total(&place, total)?;
    }
    let budgets = dapple_train::budgets(&place)?;
    output::say(
        arguments.output.quiet,
        "this counts what was trained with --budget; other uses of these records are not seen",
    );
    match (arguments.output.json, place.is_dir(), budgets.as_slice()) {
        (true, false, [only]) => output::print_json(only),
        (true, ..) => output::print_json(&Several { budgets }),
        (false, ..) => {
            let texts = budgets.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            output::print(&texts.join("\n"))
        }
    }
}

/// The budget that a path stands for.
fn place(path: &Path) -> Result<PathBuf, Failure> {
    if let Some(budget) = dapple_train::budget_of_run(path)? {
        return Ok(budget);
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".budget");
    let beside = PathBuf::from(beside);
    Ok(if beside.is_file() { beside } else { path.to_owned() })
}

fn text(budget: &BudgetStatement) -> Result<String, Failure> {
    let epsilon = &budget.epsilon;
    let upper = number::up(epsilon.upper, 4);
    let bracket = match epsilon.lower {
        Some(lower) => format!("<= {upper}  (certified bracket {} to {upper})", number::down(lower, 4)),
        None => format!("<= {upper}"),
    };
    let mut lines = vec![
        ("budget", budget.file.display().to_string()),
        ("epsilon", bracket),
        ("delta", number::brief(budget.delta)),
    ];
    lines.extend(budget.epsilon_total.map(|total| ("epsilon total", number::exact(total))));
    lines.extend(budget.protects.clone().map(|protects| ("protects", protects)));
    lines.extend([
        ("relation", budget.relation.to_owned()),
        ("records", budget.records.to_string()),
        ("composed by", budget.composition.words().to_owned()),
    ]);
    let mut text: String = lines.iter().map(|(name, value)| output::wrapped(name, value)).collect();
    for warning in &budget.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    if !budget.entries.is_empty() {
        let mut table = Table::new([
            Column::text("entry"),
            Column::text("kind"),
            Column::text("status"),
            Column::number("steps"),
            Column::number("planned"),
            Column::number("epsilon alone"),
        ]);
        for entry in &budget.entries {
            table.push([
                entry.entry.get(..8).unwrap_or_default().to_owned().into(),
                entry.kind.into(),
                entry.status.into(),
                Cell::Integer(i64::try_from(entry.steps).unwrap_or(i64::MAX)),
                Cell::Integer(i64::try_from(entry.planned).unwrap_or(i64::MAX)),
                number::up(entry.epsilon, 4).into(),
            ])?;
        }
        text.push('\n');
        text.push_str(&table.to_text(TextStyle::default()));
    }
    Ok(text)
}
