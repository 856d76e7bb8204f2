//! Runs and groups as rows for machines.

use dapple_plan::Scheme;
use dapple_report::{Cell, TableRows};
use dapple_train::Measure;

use super::{Level, MeasuredRun, RunGroup, Setting};

const COLUMNS: usize = 12;

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
        "steps_lost",
    ]
}

/// A row for each run.
pub fn run_rows(runs: &[MeasuredRun], measure: Measure) -> TableRows {
    const ACCURACY: [&str; COLUMNS] = named(Measure::Accuracy.name());
    const CLASS_ACCURACY: [&str; COLUMNS] = named(Measure::ClassAccuracy.name());
    const MEAN_IOU: [&str; COLUMNS] = named(Measure::MeanIou.name());
    let columns = match measure {
        Measure::Accuracy => &ACCURACY,
        Measure::ClassAccuracy => &CLASS_ACCURACY,
        Measure::MeanIou => &MEAN_IOU,
    };
    TableRows { columns, rows: runs.iter().map(run_row).collect() }
}

fn run_row(run: &MeasuredRun) -> Vec<Cell> {
    let spent = run.spent.as_ref();
    let mut cells = asked(&run.setting).to_vec();
    cells.extend([
        Cell::whole(run.setting.seed),
        Cell::full(run.quality),
        full(spent.map(|spent| spent.epsilon.upper)),
        full(spent.map(|spent| spent.delta)),
        full(spent.map(|spent| spent.noise_multiplier)),
        full(spent.map(|spent| spent.inclusion_probability)),
        Cell::whole(run.steps),
        Cell::whole(run.lost),
    ]);
    cells
}

/// A row for each group.
pub fn group_rows(groups: &[RunGroup<'_>]) -> TableRows {
    const COLUMNS: &[&str] =
        &["method", "level", "sampling", "epsilon_target", "noise_multiplier", "runs", "mean", "deviation"];
    TableRows { columns: COLUMNS, rows: groups.iter().map(group_row).collect() }
}

fn group_row(group: &RunGroup<'_>) -> Vec<Cell> {
    let mut cells = asked(&group.one.setting).to_vec();
    cells.extend([
        full(group.noise_multiplier()),
        Cell::whole(group.runs as u64),
        Cell::full(group.mean),
        full(group.deviation),
    ]);
    cells
}

fn asked(setting: &Setting) -> [Cell; 4] {
    let method = setting.method;
    [
        method.name().into(),
        method.level().map(Level::name).into(),
        method.scheme().map(Scheme::name).into(),
        full(setting.epsilon),
    ]
}

/// A number with all its digits, where there is one.
fn full(value: Option<f64>) -> Cell {
    value.map(Cell::full).into()
}
