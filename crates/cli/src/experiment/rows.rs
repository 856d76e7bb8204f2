//! Runs and groups as rows for machines.

use dapple_plan::Scheme;
use dapple_report::Cell;
use dapple_train::Measure;

use super::{Group, Level, Measured, Setting};
use crate::rows::Rows;

const COLUMNS: usize = 11;

const fn named(measure: &'static str) -> [&'static str; COLUMNS] {
    [
        "method",
        "level",
        "sampling",
        "epsilon_target",
        "seed",
        measure,
        "epsilon",
        "delta",
        "noise_multiplier",
        "inclusion_probability",
        "steps",
    ]
}

/// A row for each run.
pub(crate) fn run_rows(runs: &[Measured], measure: Measure) -> Rows {
    const ACCURACY: [&str; COLUMNS] = named(Measure::Accuracy.name());
    const MEAN_IOU: [&str; COLUMNS] = named(Measure::MeanIou.name());
    let columns = match measure {
        Measure::Accuracy => &ACCURACY,
        Measure::MeanIou => &MEAN_IOU,
    };
    Rows { columns, rows: runs.iter().map(run_row).collect() }
}

fn run_row(run: &Measured) -> Vec<Cell> {
    let spent = run.spent.as_ref();
    let mut cells = asked(&run.setting).to_vec();
    cells.extend([
        whole(run.setting.seed),
        full(run.quality),
        full_or_empty(spent.map(|spent| spent.epsilon.upper)),
        full_or_empty(spent.map(|spent| spent.delta)),
        full_or_empty(spent.map(|spent| spent.noise_multiplier)),
        full_or_empty(spent.map(|spent| spent.inclusion_probability)),
        whole(run.steps),
    ]);
    cells
}

/// A row for each group.
pub(crate) fn group_rows(groups: &[Group<'_>]) -> Rows {
    const COLUMNS: &[&str] =
        &["method", "level", "sampling", "epsilon_target", "noise_multiplier", "runs", "mean", "deviation"];
    Rows { columns: COLUMNS, rows: groups.iter().map(group_row).collect() }
}

fn group_row(group: &Group<'_>) -> Vec<Cell> {
    let mut cells = asked(&group.one.setting).to_vec();
    cells.extend([
        full_or_empty(group.noise_multiplier()),
        whole(group.runs as u64),
        full(group.mean),
        full_or_empty(group.deviation),
    ]);
    cells
}

fn asked(setting: &Setting) -> [Cell; 4] {
    let word = |word: Option<&'static str>| word.map_or(Cell::Empty, Cell::from);
    let method = setting.method;
    [
        method.name().into(),
        word(method.level().map(Level::name)),
        word(method.scheme().map(Scheme::name)),
        full_or_empty(setting.epsilon),
    ]
}

pub(crate) fn whole(value: u64) -> Cell {
    i64::try_from(value).map_or(Cell::Empty, Cell::Integer)
}

/// A number with all its digits.
pub(crate) fn full(value: f64) -> Cell {
    Cell::Number(value, 17)
}

fn full_or_empty(value: Option<f64>) -> Cell {
    value.map_or(Cell::Empty, full)
}
