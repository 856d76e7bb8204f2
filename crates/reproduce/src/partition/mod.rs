//! `partition/*`: the figures of *Leveraging Randomness in Model and Data Partitioning for Privacy Amplification* (D in what follows), and
//! the noise and the accuracies of its tables.

mod claims;
mod compute;
mod draw;
mod figures;
mod price;
mod tables;
mod trained;

use dapple_plan::number;
use dapple_report::{Cell, Column, Figure, Table, TableRows};

use crate::claim::{Claim, Statement};
use crate::error::Result;
use crate::grid::thinned;
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Reproduction, ReproductionOptions, Watch};
use compute::{PartitionCurve, PartitionPoint, PartitionResults};
use figures::{PanelQuestion, PartitionFigure};
use price::RecordSampling;

/// Points of a line that the digest shows.
const DIGEST_POINTS: usize = 6;
/// Significant digits of the digest.
const DIGITS: usize = 4;

const COLUMNS: &[&str] = &[
    "panel",
    "line",
    "price",
    "submodels",
    "sample_rate",
    "steps",
    "per_record",
    "noise_multiplier",
    "order",
    "divergence",
    "epsilon_lower",
    "epsilon",
    "delta_lower",
    "delta",
];

/// The figures of D, then the noise of its tables and their accuracies.
pub(crate) fn all() -> impl Iterator<Item = RegisteredReproduction> {
    figures::all().into_iter().map(RegisteredReproduction::new).chain(tables::all()).chain(trained::all())
}

impl Reproduction for PartitionFigure {
    type Results = PartitionResults;

    fn entry(&self) -> CatalogueEntry {
        self.entry
    }

    fn compute(&self, options: &ReproductionOptions, _: &dyn Watch) -> Result<PartitionResults> {
        compute::compute(self, options.points())
    }

    fn subtitle(&self, _: &PartitionResults) -> String {
        "Leveraging Randomness in Model and Data Partitioning, beside certified bounds".to_owned()
    }

    fn digest(&self, results: &PartitionResults) -> Result<Digest> {
        let says = match self.panels.first().map(|panel| panel.question) {
            Some(PanelQuestion::EpsilonOverNoise { .. }) => "epsilon, rounded up",
            Some(PanelQuestion::NoiseOverSteps { .. }) => "noise multiplier, rounded up",
            Some(PanelQuestion::DeltaOverSteps { .. }) => "delta, rounded up",
            _ => "Rényi divergence, rounded up",
        };
        Ok(Digest { table: digest(results)?, says })
    }

    fn numbers(&self, results: &PartitionResults) -> TableRows {
        let points =
            results.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point)));
        let rows = points.filter_map(|(curve, point)| row(results, curve, point)).collect();
        TableRows { columns: COLUMNS, rows }
    }

    fn claims(&self, _: &PartitionResults) -> Vec<Claim<'_, PartitionResults>> {
        self.claims.iter().map(Statement::claim).collect()
    }

    fn draw(&self, results: &PartitionResults, figure: Figure) -> Figure {
        draw::draw(results, figure)
    }

    fn notes(&self, _: &PartitionResults) -> Vec<String> {
        self.open.iter().map(|note| (*note).to_owned()).collect()
    }
}

/// A number, or nothing where there is none.
fn full(value: f64) -> Cell {
    value.is_finite().then(|| Cell::full(value)).into()
}

fn row(results: &PartitionResults, curve: &PartitionCurve, point: &PartitionPoint) -> Option<Vec<Cell>> {
    let panel = results.panels.get(curve.panel)?;
    let value = point.value;
    let given = |given: f64| [full(given), full(given)];
    let nothing = || [Cell::Empty, Cell::Empty];
    let asked = [value.lower.map(Cell::full).into(), full(value.upper)];
    let (order, divergence, epsilon, delta) = match panel.question {
        PanelQuestion::EpsilonOverNoise { delta, .. } => (Cell::Empty, Cell::Empty, asked, given(delta)),
        PanelQuestion::NoiseOverSteps { epsilon, delta } => {
            (Cell::Empty, Cell::Empty, given(epsilon), given(delta))
        }
        PanelQuestion::DeltaOverSteps { epsilon, .. } => (Cell::Empty, Cell::Empty, given(epsilon), asked),
        PanelQuestion::DivergenceOverOrder { .. } => (full(point.x), full(value.upper), nothing(), nothing()),
    };
    let rate = match point.run.sampling {
        RecordSampling::Poisson { rate, .. } => full(rate),
        _ => Cell::Empty,
    };
    let [epsilon_lower, epsilon] = epsilon;
    let [delta_lower, delta] = delta;
    Some(vec![
        panel.title.into(),
        curve.line.label.into(),
        curve.line.price.name().into(),
        curve.line.submodels().map(Cell::whole).into(),
        rate,
        Cell::whole(point.run.steps),
        point.run.per_record().map(Cell::whole).into(),
        full(point.run.noise_multiplier),
        order,
        divergence,
        epsilon_lower,
        epsilon,
        delta_lower,
        delta,
    ])
}

/// One row a place on the x axis, one column a line.
fn digest(results: &PartitionResults) -> Result<Table> {
    let x = results.panels.first().map_or("", |panel| panel.question.x());
    let names = results.lines.iter().map(|line| Column::number(line.label));
    let mut table = Table::new([Column::text("panel"), Column::number(x)].into_iter().chain(names));
    for (index, panel) in results.panels.iter().enumerate() {
        let of_panel: Vec<&PartitionCurve> =
            results.curves.iter().filter(|curve| curve.panel == index).collect();
        let Some(first) = of_panel.first() else { continue };
        let places: Vec<f64> = first.points.iter().map(|point| point.x).collect();
        for x in thinned(&places, Some(DIGEST_POINTS)) {
            let cell = |curve: &&PartitionCurve| {
                let point = curve.points.iter().find(|point| point.x == x);
                Cell::from(point.map(|point| number::up(point.value.upper, DIGITS)))
            };
            let head: [Cell; 2] = [panel.title.into(), number::exact(x).into()];
            table.push(head.into_iter().chain(of_panel.iter().map(cell)))?;
        }
    }
    Ok(table)
}
