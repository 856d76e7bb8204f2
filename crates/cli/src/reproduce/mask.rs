//! `mask/theorem1`: what the masked paper claims for its noise, and what its run costs.

use dapple_plan::masked::claimed_epsilon;
use dapple_plan::spec::{Delta, PublicGradient};
use dapple_plan::{Plan, PlanSpec, Precision, Relation, number};
use dapple_report::{Axis, Cell, Chart, Column, Dash, Figure, Series, Table};

use super::Arguments;
use super::claims::Finding;
use super::outcome::Outcome;
use crate::failure::Failure;
use crate::rows::Rows;

pub(super) const ID: &str = "mask/theorem1";
pub(super) const TITLE: &str = "Claimed and certified privacy of masked training";
pub(super) const SECTION: &str = "4";

/// M section 5.3.
const BATCH: u64 = 128;
const EPOCHS: u64 = 150;
const DELTA: f64 = 1e-5;
/// The first training split of UCF-101; the paper does not say how many videos it trains on.
const RECORDS: u64 = 9537;
/// The epsilons of M Table 2 up to 5, for which the noise is solved; beyond lie runs with hardly any.
const TARGETS: [(f64, &str); 5] =
    [(0.5, "ε = 0.5"), (1.0, "ε = 1"), (2.0, "ε = 2"), (3.0, "ε = 3"), (5.0, "ε = 5")];
/// Noise multipliers drawn, evenly in their logarithm.
const NOISE: (f64, f64) = (1.0, 32.0);
const POINTS: u32 = 16;

const COLUMNS: &[&str] =
    &["price", "noise_multiplier", "records", "batch", "steps", "delta", "epsilon_lower", "epsilon"];

/// A way of pricing a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Price {
    /// By M Theorem 1.
    Claimed,
    /// By its public gradient.
    Certified(PublicGradient),
}

impl Price {
    const ALL: [Self; 4] = [
        Self::Claimed,
        Self::Certified(PublicGradient::Decoupled),
        Self::Certified(PublicGradient::CoupledClipped),
        Self::Certified(PublicGradient::Coupled),
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Certified(mode) => mode.name(),
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Claimed => "claimed by the paper",
            Self::Certified(PublicGradient::Decoupled) => "decoupled, certified",
            Self::Certified(PublicGradient::CoupledClipped) => "coupled-clipped at Cu = 1, certified",
            Self::Certified(PublicGradient::Coupled) => "coupled, the paper's algorithm, certified",
        }
    }

    fn plan(self, records: u64, noise_multiplier: f64) -> Result<Plan, Failure> {
        let mode = match self {
            Self::Claimed => PublicGradient::Coupled,
            Self::Certified(mode) => mode,
        };
        let mut spec = PlanSpec::default();
        spec.privacy.relation = Some(Relation::Masked);
        spec.privacy.delta = Some(Delta::Value(DELTA));
        spec.privacy.noise_multiplier = Some(noise_multiplier);
        spec.sampling.batch = Some(BATCH);
        spec.sampling.records = Some(records);
        spec.sampling.epochs = Some(EPOCHS);
        spec.masked.public_gradient = Some(mode);
        spec.masked.public_clip = (mode == PublicGradient::CoupledClipped).then_some(1.0);
        Ok(Plan::check(&spec)?)
    }
}

struct Point {
    price: Price,
    plan: Plan,
    lower: Option<f64>,
    epsilon: f64,
}

impl Point {
    fn new(price: Price, records: u64, noise_multiplier: f64) -> Result<Self, Failure> {
        let plan = price.plan(records, noise_multiplier)?;
        let (lower, epsilon) = match price {
            Price::Claimed => (None, claimed_epsilon(&plan)),
            Price::Certified(_) => {
                let bracket = plan.epsilon(Precision::default())?;
                (Some(bracket.lower), bracket.upper)
            }
        };
        Ok(Self { price, plan, lower, epsilon })
    }

    fn row(&self) -> Vec<Cell> {
        let number = |value: f64| Cell::Number(value, 6);
        let whole = |value: u64| i64::try_from(value).map_or(Cell::Empty, Cell::Integer);
        vec![
            self.price.name().into(),
            number(self.plan.noise_multiplier()),
            whole(self.plan.records()),
            whole(self.plan.batch()),
            whole(self.plan.steps()),
            number(DELTA),
            self.lower.map_or(Cell::Empty, number),
            number(self.epsilon),
        ]
    }
}

/// The noise for which the paper claims `target`, by bisection of a falling function.
fn noise_for(target: f64, records: u64) -> Result<f64, Failure> {
    let (mut low, mut high) = (0.3f64, 1e3f64);
    while high / low > 1.0 + 1e-9 {
        let middle = (low * high).sqrt();
        let claimed = claimed_epsilon(&Price::Claimed.plan(records, middle)?);
        if claimed > target { low = middle } else { high = middle }
    }
    Ok(high)
}

pub(super) fn outcome(arguments: &Arguments) -> Result<Outcome, Failure> {
    let records = arguments.records.unwrap_or(RECORDS);
    let count = arguments.points.map_or(POINTS, |points| points.min(POINTS));
    let noise = |index: u32| {
        NOISE.0 * (NOISE.1 / NOISE.0).powf(f64::from(index) / f64::from(count.saturating_sub(1).max(1)))
    };
    let mut points = Vec::new();
    for price in Price::ALL {
        for index in 0..count {
            points.push(Point::new(price, records, noise(index))?);
        }
    }
    let mut findings = Vec::new();
    for (target, paper) in TARGETS {
        let noise = noise_for(target, records)?;
        let epsilon = |mode| Point::new(Price::Certified(mode), records, noise).map(|point| point.epsilon);
        let described = epsilon(PublicGradient::Coupled)?;
        let here = format!(
            "{} as described, {} if decoupled, at noise multiplier {}",
            number::up(described, 4),
            number::up(epsilon(PublicGradient::Decoupled)?, 4),
            number::up(noise, 4)
        );
        findings.push(Finding { paper, here, holds: described <= target });
    }
    let notes = notes(records);
    let subtitle = format!("batch {BATCH} of {records}, {EPOCHS} epochs, δ = 10⁻⁵, clip norm 1");
    Ok(Outcome {
        id: ID,
        title: TITLE,
        heading: format!("Theorem 1: {TITLE}"),
        digest: digest(&points)?,
        digest_says: "epsilon at delta 1e-5, rounded up",
        numbers: Rows { columns: COLUMNS, rows: points.iter().map(Point::row).collect() },
        summary: None,
        findings,
        findings_say: "The runs of the paper's Table 2",
        figure: figure(&points, &subtitle, &notes),
        subtitle,
        notes,
    })
}

/// One row a noise multiplier, one column a price.
fn digest(points: &[Point]) -> Result<Table, Failure> {
    let names = Price::ALL.into_iter().map(|price| Column::number(price.name()));
    let mut table = Table::new(std::iter::once(Column::number("noise multiplier")).chain(names));
    for first in points.iter().filter(|point| point.price == Price::Claimed) {
        let noise = first.plan.noise_multiplier();
        let same = points.iter().filter(|point| point.plan.noise_multiplier() == noise);
        let cells = same.map(|point| Cell::from(number::up(point.epsilon, 4).as_str()));
        table.push(std::iter::once(Cell::Number(noise, 4)).chain(cells))?;
    }
    Ok(table)
}

fn figure(points: &[Point], subtitle: &str, notes: &[String]) -> Figure {
    let mut chart = Chart::new(TITLE).subtitle(subtitle).x(Axis::log("noise multiplier")).y(Axis::log("ε"));
    for price in Price::ALL {
        let line = points.iter().filter(|point| point.price == price);
        let line: Vec<(f64, f64)> =
            line.map(|point| (point.plan.noise_multiplier(), point.epsilon)).collect();
        let dash = if price == Price::Claimed { Dash::Dashed } else { Dash::Solid };
        chart = chart.series(Series::line_points(price.label(), line).dash(dash));
    }
    notes.iter().fold(Figure::single(chart), |figure, note| figure.note(note.clone()))
}

fn notes(records: u64) -> Vec<String> {
    let size = if records == RECORDS {
        "The number of training videos is not stated; the 9537 of the first training split of UCF-101 are taken (--records N).".to_owned()
    } else {
        format!("Computed for {records} records, as asked for.")
    };
    vec![
        size,
        "The claim counts substituted tokens as one clip norm, where they move the sum by two, and keeps the sample secret, which unclipped public gradients of the same records reveal.".to_owned(),
        "Certified numbers are upper ends of brackets; their lower ends are in the data. The claim is computed as the paper's proof has it, orders 2 to 256.".to_owned(),
    ]
}
