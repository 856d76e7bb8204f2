//! The figures of the partitioning paper (D): their panels, lines and settings.

use dapple_accounting::partition::rdp::Bound;
use dapple_report::Dash;

use super::claims;
use super::compute::PartitionResults;
use super::price::{self, ModelSplit, PartitionPricing, RecordSampling};
use crate::claim::Statement;
use crate::{CatalogueEntry, Paper};

/// A figure of D.
pub(super) struct PartitionFigure {
    pub(super) entry: CatalogueEntry,
    pub(super) panels: Vec<PartitionPanel>,
    pub(super) lines: Vec<PartitionLine>,
    pub(super) claims: &'static [Statement<PartitionResults>],
    /// What the paper leaves open, and what is drawn here.
    pub(super) open: &'static [&'static str],
}

/// What one panel of a figure shows.
#[derive(Clone)]
pub(super) struct PartitionPanel {
    pub(super) title: &'static str,
    pub(super) question: PanelQuestion,
    pub(super) values: Vec<f64>,
    /// What the paper's lines share: a sample rate, or the share of steps a record takes part in.
    pub(super) rate: f64,
}

/// What a panel shows, and over what.
#[derive(Debug, Clone, Copy)]
pub(super) enum PanelQuestion {
    EpsilonOverNoise { steps: u64, delta: f64 },
    NoiseOverSteps { epsilon: f64, delta: f64 },
    DivergenceOverOrder { steps: u64, noise_multiplier: f64 },
    DeltaOverSteps { noise_multiplier: f64, epsilon: f64 },
}

impl PanelQuestion {
    pub(super) fn x(self) -> &'static str {
        match self {
            Self::EpsilonOverNoise { .. } => "noise multiplier",
            Self::NoiseOverSteps { .. } | Self::DeltaOverSteps { .. } => "steps",
            Self::DivergenceOverOrder { .. } => "order α",
        }
    }

    pub(super) fn y(self) -> &'static str {
        match self {
            Self::EpsilonOverNoise { .. } => "ε",
            Self::NoiseOverSteps { .. } => "noise multiplier",
            Self::DeltaOverSteps { .. } => "δ",
            Self::DivergenceOverOrder { .. } => "Rényi ε(α)",
        }
    }
}

/// One line of every panel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PartitionLine {
    pub(super) label: &'static str,
    pub(super) price: PartitionPricing,
    who: LineSampling,
    pub(super) color: usize,
    pub(super) dash: Dash,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LineSampling {
    Submodels(u64),
    Balanced,
    Epochs,
}

impl PartitionLine {
    /// How a record takes part, in a panel of this rate.
    pub(super) fn sampling(&self, rate: f64) -> RecordSampling {
        match self.who {
            LineSampling::Submodels(submodels) => {
                RecordSampling::Poisson { rate, model: ModelSplit::split(submodels) }
            }
            LineSampling::Balanced => RecordSampling::Balanced { share: rate },
            // D Figure 4: 4 of each 10 steps.
            LineSampling::Epochs => RecordSampling::Epochs { length: 10, per_record: 4 },
        }
    }

    /// How many submodels, where records are sampled by coins.
    pub(super) fn submodels(&self) -> Option<u64> {
        match self.who {
            LineSampling::Submodels(submodels) => Some(submodels),
            _ => None,
        }
    }
}

/// The entry of a figure or table of D.
pub(super) fn entry(id: &'static str, title: &'static str, section: &'static str) -> CatalogueEntry {
    CatalogueEntry::new(Paper::Partitioning, id, title, section)
}

const TWO: PartitionPricing = PartitionPricing::Published(Bound::Exact);
const THREE: PartitionPricing = PartitionPricing::Published(Bound::Convexity);

fn line(label: &'static str, price: PartitionPricing, who: LineSampling, color: usize) -> PartitionLine {
    let dash = match price {
        PartitionPricing::Certified => Dash::Solid,
        TWO => Dash::Dotted,
        _ => Dash::Dashed,
    };
    PartitionLine { label, price, who, color, dash }
}

/// The baseline and 2 to 8 submodels, by the paper's bound and certified.
fn splits() -> Vec<PartitionLine> {
    let labels = [
        (1, "paper, baseline", "certified, baseline"),
        (2, "paper, 2 submodels", "certified, 2 submodels"),
        (4, "paper, 4 submodels", "certified, 4 submodels"),
        (6, "paper, 6 submodels", "certified, 6 submodels"),
        (8, "paper, 8 submodels", "certified, 8 submodels"),
    ];
    let of = |price: PartitionPricing| {
        labels.into_iter().enumerate().map(move |(color, (submodels, paper, certified))| {
            let label = if price == PartitionPricing::Certified { certified } else { paper };
            PartitionLine {
                dash: if price == PartitionPricing::Certified { Dash::Solid } else { Dash::Dashed },
                ..line(label, price, LineSampling::Submodels(submodels), color)
            }
        })
    };
    of(TWO).chain(of(PartitionPricing::Certified)).collect()
}

/// Leaves out certified lines that lie between others: each of their points is a search.
fn is_cheap(line: &PartitionLine) -> bool {
    line.price != PartitionPricing::Certified || !matches!(line.who, LineSampling::Submodels(4 | 6))
}

/// Poisson sampling and the two forms of the theorem.
fn divergences() -> Vec<PartitionLine> {
    vec![
        line("Poisson", TWO, LineSampling::Submodels(1), 1),
        line("balanced, eq. (3)", THREE, LineSampling::Balanced, 0),
        line("balanced, eq. (2)", TWO, LineSampling::Balanced, 2),
    ]
}

/// Poisson and balanced sampling, by the paper's bound and certified.
fn samplings() -> Vec<PartitionLine> {
    vec![
        PartitionLine { dash: Dash::Dashed, ..line("paper, Poisson", TWO, LineSampling::Submodels(1), 1) },
        line("paper, balanced", THREE, LineSampling::Balanced, 0),
        line("certified, Poisson", PartitionPricing::Certified, LineSampling::Submodels(1), 1),
        line("certified, balanced", PartitionPricing::Certified, LineSampling::Balanced, 0),
    ]
}

fn noise(title: &'static str, rate: f64, steps: u64, delta: f64, values: &[f64]) -> PartitionPanel {
    PartitionPanel {
        title,
        question: PanelQuestion::EpsilonOverNoise { steps, delta },
        values: values.to_vec(),
        rate,
    }
}

fn iterations(title: &'static str, rate: f64, epsilon: f64, delta: f64) -> PartitionPanel {
    let values = vec![500.0, 1000.0, 2000.0];
    PartitionPanel { title, question: PanelQuestion::NoiseOverSteps { epsilon, delta }, values, rate }
}

fn orders(title: &'static str, steps: u64, rate: f64, noise_multiplier: f64) -> PartitionPanel {
    let question = PanelQuestion::DivergenceOverOrder { steps, noise_multiplier };
    PartitionPanel { title, question, values: price::orders(), rate }
}

const NOISES: &[f64] = &[1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
const AXES: &str = "The ranges of the axes are not stated in the text; the values drawn are in the data.";
const SIGMA: &str = "The paper's standard deviation is a noise multiplier, at clip norm 1.";
const EQUATION: &str = "The paper's lines are equation (2) of its Theorem 3.1, sampled by its Theorem 3.11, orders 2 to 100 and the classic conversion; certified lines are privacy-loss distributions.";
const BALANCED: &str = "The paper's lines are equation (3) of its Theorem 3.1 and its Theorem 3.11, orders 2 to 100 and the classic conversion; certified lines are the best bound known for the allocation, and the privacy-loss distribution of Poisson sampling.";
const REACH: &str = "Equation (2) is drawn at the orders at which it can be computed.";
pub(super) const REVERSE: &str = "The second term of the paper's Theorem 3.1 (Corollary 3.19) is no bound on the reverse divergence (two places, σ = 1, α = 2: 0.5502 printed, 0.5690 by integration). The theorem holds without it, since the forward divergence is the larger one at every order.";

/// Every figure, in the paper's order.
pub(super) fn all() -> Vec<PartitionFigure> {
    let split = &[claims::AMPLIFIES, claims::MORE_SUBMODELS][..];
    let split_open = &[EQUATION, SIGMA, AXES, REVERSE][..];
    vec![
        PartitionFigure {
            entry: entry("partition/fig1", "Noise and privacy of split models", "3.2.1"),
            panels: vec![noise("1200 steps at rate 0.1", 0.1, 1200, 1e-5, NOISES)],
            lines: splits(),
            claims: split,
            open: split_open,
        },
        PartitionFigure {
            entry: entry(
                "partition/fig2",
                "Rényi privacy of balanced and Poisson sampling, many steps",
                "3.3",
            ),
            panels: vec![orders("100 of 1000 steps, σ = 2", 1000, 0.1, 2.0)],
            lines: divergences(),
            claims: &[claims::NEARLY_THE_SAME, claims::EXACT_BELOW_POISSON],
            open: &[REACH, SIGMA, REVERSE],
        },
        PartitionFigure {
            entry: entry(
                "partition/fig3",
                "Rényi privacy of balanced and Poisson sampling, few steps",
                "3.3",
            ),
            panels: vec![orders("4 of 10 steps, σ = 2", 10, 0.4, 2.0)],
            lines: divergences(),
            claims: &[
                claims::MUCH_BETTER_AT_LARGE_ORDERS,
                claims::EXACT_BELOW_POISSON,
                claims::BOUND_BELOW_POISSON,
            ],
            open: &[REACH, SIGMA, REVERSE],
        },
        PartitionFigure {
            entry: entry("partition/fig4", "Delta over the number of steps", "3.3"),
            panels: vec![PartitionPanel {
                title: "ε = 10, rate 0.4, σ = 2",
                question: PanelQuestion::DeltaOverSteps { noise_multiplier: 2.0, epsilon: 10.0 },
                values: (2..=10).map(|tens| 10.0 * f64::from(tens)).collect(),
                rate: 0.4,
            }],
            lines: [
                samplings(),
                vec![
                    line("paper, balanced composed", THREE, LineSampling::Epochs, 2),
                    line(
                        "certified, balanced composed",
                        PartitionPricing::Certified,
                        LineSampling::Epochs,
                        2,
                    ),
                ],
            ]
            .concat(),
            claims: &[claims::TEN_MORE_STEPS, claims::BELOW_EXACT_POISSON, claims::COMPOSED_COSTS_MORE],
            open: &[BALANCED, SIGMA, REVERSE],
        },
        PartitionFigure {
            entry: entry("partition/fig5", "Noise and privacy of split models, further settings", "B"),
            panels: vec![
                noise("(a) 400 steps at rate 0.1, δ = 1e-5", 0.1, 400, 1e-5, &[1.0, 1.5, 2.0, 3.0, 5.0]),
                noise("(b) 2000 steps at rate 0.1, δ = 1e-5", 0.1, 2000, 1e-5, &[1.5, 2.0, 3.0, 5.0, 8.0]),
                noise("(c) 1500 steps at rate 0.08, δ = 1e-6", 0.08, 1500, 1e-6, &[1.5, 2.0, 3.0, 5.0, 8.0]),
                noise("(d) 600 steps at rate 0.15, δ = 1e-5", 0.15, 600, 1e-5, &[1.5, 2.0, 3.0, 5.0, 8.0]),
            ],
            lines: splits(),
            claims: split,
            open: split_open,
        },
        PartitionFigure {
            entry: entry("partition/fig6", "Noise that split models need, over the number of steps", "B"),
            panels: vec![
                iterations("(a) rate 0.1, ε = 1, δ = 1e-5", 0.1, 1.0, 1e-5),
                iterations("(b) rate 0.1, ε = 3, δ = 1e-5", 0.1, 3.0, 1e-5),
                iterations("(c) rate 0.15, ε = 5, δ = 1e-6", 0.15, 5.0, 1e-6),
                iterations("(d) rate 0.3, ε = 8, δ = 1e-6", 0.3, 8.0, 1e-6),
            ],
            lines: splits().into_iter().filter(is_cheap).collect(),
            claims: split,
            open: split_open,
        },
        PartitionFigure {
            entry: entry(
                "partition/fig7",
                "Rényi privacy of balanced and Poisson sampling, further settings",
                "B",
            ),
            panels: vec![
                orders("(a) 100 of 1000 steps, σ = 2", 1000, 0.1, 2.0),
                orders("(b) 100 of 200 steps, σ = 4", 200, 0.5, 4.0),
            ],
            lines: divergences(),
            claims: &[claims::NEARLY_THE_SAME, claims::EXACT_BELOW_POISSON, claims::BOUND_BELOW_POISSON],
            open: &[REACH, SIGMA, REVERSE],
        },
        PartitionFigure {
            entry: entry("partition/fig8", "Noise and privacy of balanced and Poisson sampling", "B"),
            panels: vec![
                noise("(a) 5 of 10 steps, δ = 1e-6", 0.5, 10, 1e-6, &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0]),
                noise("(b) 120 of 1500 steps, δ = 1e-4", 0.08, 1500, 1e-4, &[1.0, 1.5, 2.0, 3.0, 4.0, 6.0]),
            ],
            lines: samplings(),
            claims: &[claims::LESS_NOISE_FOR_FEW_STEPS, claims::IDENTICAL_FOR_MANY_STEPS],
            open: &[BALANCED, SIGMA, AXES, REVERSE],
        },
    ]
}
