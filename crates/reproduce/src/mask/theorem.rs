//! `mask/theorem1`: what *Masked Differential Privacy* (M) claims for its noise, and what its run costs.

use dapple_plan::masked::claimed_epsilon;
use dapple_plan::spec::{Delta, PublicGradient};
use dapple_plan::{Bracket, BracketPrecision, Plan, PlanSpec, Relation, number};
use dapple_report::paint::method;
use dapple_report::{Axis, Cell, Chart, Column, Dash, Figure, Series, Table, TableRows};

use super::trained::dash_of;
use crate::claim::Claim;
use crate::error::Result;
use crate::registry::RegisteredReproduction;
use crate::{CatalogueEntry, Digest, Paper, Reproduction, ReproductionKind, ReproductionOptions, Watch};

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
const POINTS: usize = 16;

const COLUMNS: &[&str] =
    &["price", "noise_multiplier", "records", "batch", "steps", "delta", "epsilon_lower", "epsilon"];

/// A way of pricing a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MaskPricing {
    /// M Theorem 1 prices it, as the paper claims.
    Claimed,
    /// The accountant prices it, for this kind of public gradient.
    Certified(PublicGradient),
}

impl MaskPricing {
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

    /// The colour and the dash of its line. The paper counts substituted tokens as if they were there or not.
    fn look(self) -> (usize, Dash) {
        match self {
            Self::Claimed => (method::MASKED_REMOVE, Dash::Dashed),
            Self::Certified(mode) => (method::MASKED, dash_of(mode)),
        }
    }

    fn plan(self, records: u64, noise_multiplier: f64) -> Result<Plan> {
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

struct MaskPoint {
    price: MaskPricing,
    plan: Plan,
    epsilon: Bracket,
}

impl MaskPoint {
    fn new(price: MaskPricing, records: u64, noise_multiplier: f64) -> Result<Self> {
        let plan = price.plan(records, noise_multiplier)?;
        let epsilon = match price {
            MaskPricing::Claimed => Bracket::above(claimed_epsilon(&plan)),
            MaskPricing::Certified(_) => plan.epsilon(BracketPrecision::default())?,
        };
        Ok(Self { price, plan, epsilon })
    }

    fn row(&self) -> Vec<Cell> {
        vec![
            self.price.name().into(),
            Cell::full(self.plan.noise_multiplier()),
            Cell::whole(self.plan.records()),
            Cell::whole(self.plan.batch()),
            Cell::whole(self.plan.steps()),
            Cell::full(DELTA),
            self.epsilon.lower.map(Cell::full).into(),
            Cell::full(self.epsilon.upper),
        ]
    }
}

/// The noise for which the paper claims `target`, by bisection of a falling function.
fn noise_for(target: f64, records: u64) -> Result<f64> {
    let (mut low, mut high) = (0.3f64, 1e3f64);
    while high / low > 1.0 + 1e-9 {
        let middle = (low * high).sqrt();
        let claimed = claimed_epsilon(&MaskPricing::Claimed.plan(records, middle)?);
        if claimed > target { low = middle } else { high = middle }
    }
    Ok(high)
}

/// What the paper claims for one epsilon, and what the same noise costs.
struct ClaimedTarget {
    claimed: f64,
    noise: f64,
    described: f64,
    decoupled: f64,
}

/// Everything that is computed: points to draw, and the noise of the paper's targets.
struct MaskResults {
    records: u64,
    points: Vec<MaskPoint>,
    /// One for each of [`TARGETS`].
    targets: Vec<ClaimedTarget>,
}

/// The one entry of this paper.
struct MaskTheorem;

pub(super) fn all() -> [RegisteredReproduction; 1] {
    [RegisteredReproduction::new(MaskTheorem)]
}

impl Reproduction for MaskTheorem {
    type Results = MaskResults;

    fn entry(&self) -> CatalogueEntry {
        let title = "Claimed and certified privacy of masked training";
        CatalogueEntry::new(Paper::Masked, "mask/theorem1", title, "4")
    }

    fn kind(&self) -> ReproductionKind {
        ReproductionKind::Priced { records: true }
    }

    fn compute(&self, options: &ReproductionOptions, _: &dyn Watch) -> Result<MaskResults> {
        let records = options.records.unwrap_or(RECORDS);
        let count = options.points().map_or(POINTS, |points| points.min(POINTS));
        let noises = (0..count).map(|index| {
            NOISE.0 * (NOISE.1 / NOISE.0).powf(index as f64 / count.saturating_sub(1).max(1) as f64)
        });
        let mut points = Vec::new();
        for price in MaskPricing::ALL {
            for noise in noises.clone() {
                points.push(MaskPoint::new(price, records, noise)?);
            }
        }
        let target = |&(claimed, _): &(f64, _)| {
            let noise = noise_for(claimed, records)?;
            let epsilon = |mode| {
                MaskPoint::new(MaskPricing::Certified(mode), records, noise).map(|point| point.epsilon.upper)
            };
            let (described, decoupled) =
                (epsilon(PublicGradient::Coupled)?, epsilon(PublicGradient::Decoupled)?);
            Ok(ClaimedTarget { claimed, noise, described, decoupled })
        };
        let targets = TARGETS.iter().map(target).collect::<Result<_>>()?;
        Ok(MaskResults { records, points, targets })
    }

    fn subtitle(&self, results: &MaskResults) -> String {
        format!("batch {BATCH} of {}, {EPOCHS} epochs, δ = 10⁻⁵, clip norm 1", results.records)
    }

    fn digest(&self, results: &MaskResults) -> Result<Digest> {
        Ok(Digest { table: digest(&results.points)?, says: "epsilon at delta 1e-5, rounded up" })
    }

    fn numbers(&self, results: &MaskResults) -> TableRows {
        TableRows { columns: COLUMNS, rows: results.points.iter().map(MaskPoint::row).collect() }
    }

    fn claims(&self, _: &MaskResults) -> Vec<Claim<'_, MaskResults>> {
        let claim = |(place, &(_, says)): (usize, &(f64, &'static str))| {
            Claim::new(says, move |results: &MaskResults| {
                let ClaimedTarget { claimed, noise, described, decoupled } = results.targets[place];
                let here = format!(
                    "{} as described, {} if decoupled, at noise multiplier {}",
                    number::up(described, 4),
                    number::up(decoupled, 4),
                    number::up(noise, 4)
                );
                Ok((here, described <= claimed))
            })
        };
        TARGETS.iter().enumerate().map(claim).collect()
    }

    fn claims_say(&self) -> &'static str {
        "The runs of the paper's Table 2"
    }

    fn draw(&self, results: &MaskResults, figure: Figure) -> Figure {
        let chart = Chart::new("").x(Axis::log("noise multiplier")).y(Axis::log("ε"));
        let line = |chart: Chart, price: MaskPricing| {
            let own = results.points.iter().filter(|point| point.price == price);
            let places = own.map(|point| (point.plan.noise_multiplier(), point.epsilon.upper));
            let (color, dash) = price.look();
            chart.series(Series::line_points(price.label(), places).color(color).dash(dash))
        };
        figure.subtitle(self.subtitle(results)).large(MaskPricing::ALL.into_iter().fold(chart, line))
    }

    fn notes(&self, results: &MaskResults) -> Vec<String> {
        let size = if results.records == RECORDS {
            "The number of training videos is not stated; the 9537 of the first training split of UCF-101 are taken (--records N).".to_owned()
        } else {
            format!("Computed for {} records, as asked for.", results.records)
        };
        vec![
            size,
            "The claim counts substituted tokens as one clip norm, where they move the sum by two, and keeps the sample secret, which unclipped public gradients of the same records reveal.".to_owned(),
            "Certified numbers are upper ends of brackets; their lower ends are in the data. The claim is computed as the paper's proof has it, orders 2 to 256.".to_owned(),
        ]
    }
}

/// One row a noise multiplier, one column a price.
fn digest(points: &[MaskPoint]) -> Result<Table> {
    let names = MaskPricing::ALL.into_iter().map(|price| Column::number(price.name()));
    let mut table = Table::new(std::iter::once(Column::number("noise multiplier")).chain(names));
    for first in points.iter().filter(|point| point.price == MaskPricing::Claimed) {
        let noise = first.plan.noise_multiplier();
        let same = points.iter().filter(|point| point.plan.noise_multiplier() == noise);
        let cells = same.map(|point| Cell::from(number::up(point.epsilon.upper, 4).as_str()));
        table.push(std::iter::once(Cell::Number(noise, 4)).chain(cells))?;
    }
    Ok(table)
}
