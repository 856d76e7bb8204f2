//! The accuracies that the mixing paper prints for models trained from scratch, and what it says of them.

use super::trained::{AccuracyTable, TrainedAccuracy};
use crate::claim::{ClaimVerdict, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::moments;
use crate::trained::percent;
use crate::{CatalogueEntry, Paper};

/// A data set of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MixData {
    Cifar10,
    Cifar100,
    EuroSat,
}

impl MixData {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cifar10 => "CIFAR-10",
            Self::Cifar100 => "CIFAR-100",
            Self::EuroSat => "EuroSAT",
        }
    }

    /// The folder that holds it, below the one behind `--data`.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Cifar10 => "cifar-10",
            Self::Cifar100 => "cifar-100",
            Self::EuroSat => "eurosat",
        }
    }
}

/// A way to train.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MixMethod {
    pub(super) name: &'static str,
    /// `K_base`: views of a record.
    pub(super) views: u32,
    /// `K_self`: mixtures of two of them.
    pub(super) self_mix: u32,
    /// Records clipped together.
    pub(super) together: u32,
}

impl MixMethod {
    const fn new(name: &'static str, views: u32, self_mix: u32, together: u32) -> Self {
        Self { name, views, self_mix, together }
    }

    /// A name for the folders of its runs.
    pub(super) fn key(&self) -> String {
        format!("views{}-mixed{}-together{}", self.views, self.self_mix, self.together)
    }
}

/// An accuracy that the paper prints, in percent.
#[derive(Debug, Clone, Copy)]
pub(super) struct PaperAccuracy {
    pub(super) data: MixData,
    pub(super) method: MixMethod,
    pub(super) epsilon: f64,
    pub(super) accuracy: f64,
}

const fn cell(data: MixData, method: MixMethod, epsilon: f64, accuracy: f64) -> PaperAccuracy {
    PaperAccuracy { data, method, epsilon, accuracy }
}

const PLAIN: MixMethod = MixMethod::new("DP-SGD", 1, 0, 1);
const PLAIN_PAIRS: MixMethod = MixMethod::new("DP-SGD, pairs", 1, 0, 2);
const MIXED_PAIRS: MixMethod = MixMethod::new("DP-SGD with mixup, pairs", 1, 1, 2);
const SELF_AUG: MixMethod = MixMethod::new("Self-Aug", 16, 0, 1);
const SELF_AUG_PAIRS: MixMethod = MixMethod::new("Self-Aug, pairs", 16, 0, 2);
const SELF_AUG_24: MixMethod = MixMethod::new("Self-Aug", 24, 0, 1);
const SELF_AUG_32: MixMethod = MixMethod::new("Self-Aug", 32, 0, 1);
const SELF_AUG_36: MixMethod = MixMethod::new("Self-Aug", 36, 0, 1);
const MIX_SELF: MixMethod = MixMethod::new("DP-Mix_self", 16, 16, 1);

use MixData::{Cifar10, Cifar100, EuroSat};

pub(super) static TABLES: [AccuracyTable; 4] = [
    AccuracyTable {
        entry: CatalogueEntry::new(Paper::Mixing, "mix/table1", "Accuracy of microbatches", "3"),
        cells: &[
            cell(Cifar10, PLAIN, 8.0, 72.5),
            cell(Cifar10, PLAIN_PAIRS, 8.0, 49.7),
            cell(Cifar10, MIXED_PAIRS, 8.0, 50.1),
            cell(Cifar10, SELF_AUG, 8.0, 78.7),
            cell(Cifar10, SELF_AUG_PAIRS, 8.0, 52.8),
        ],
        statements: &[Statement {
            says: "microbatches of two are much worse than clipping record by record, with mixup too",
            check: |trained| {
                let together = |alone: bool| {
                    let own = trained.iter().filter(|row| (row.cell.method.together == 1) == alone);
                    own.map(TrainedAccuracy::mean).collect::<Vec<f64>>()
                };
                let best = together(false).into_iter().fold(0.0, f64::max);
                let worst = together(true).into_iter().fold(1.0, f64::min);
                Ok((
                    format!("at most {} in place of at least {}", percent(best), percent(worst)),
                    best < worst,
                ))
            },
        }],
    },
    AccuracyTable {
        entry: CatalogueEntry::new(Paper::Mixing, "mix/table2", "Accuracy of training from scratch", "5.1"),
        cells: &[
            cell(Cifar10, SELF_AUG, 1.0, 56.8),
            cell(Cifar10, SELF_AUG, 2.0, 62.9),
            cell(Cifar10, SELF_AUG, 4.0, 69.5),
            cell(Cifar10, SELF_AUG, 8.0, 78.7),
            cell(Cifar10, MIX_SELF, 1.0, 57.2),
            cell(Cifar10, MIX_SELF, 2.0, 64.6),
            cell(Cifar10, MIX_SELF, 4.0, 70.47),
            cell(Cifar10, MIX_SELF, 8.0, 79.8),
            cell(Cifar100, SELF_AUG, 1.0, 13.3),
            cell(Cifar100, SELF_AUG, 2.0, 20.9),
            cell(Cifar100, SELF_AUG, 4.0, 31.8),
            cell(Cifar100, SELF_AUG, 8.0, 39.2),
            cell(Cifar100, MIX_SELF, 1.0, 14.1),
            cell(Cifar100, MIX_SELF, 2.0, 21.5),
            cell(Cifar100, MIX_SELF, 4.0, 33.3),
            cell(Cifar100, MIX_SELF, 8.0, 40.6),
            cell(EuroSat, SELF_AUG, 1.0, 75.4),
            cell(EuroSat, SELF_AUG, 2.0, 81.1),
            cell(EuroSat, SELF_AUG, 4.0, 85.8),
            cell(EuroSat, SELF_AUG, 8.0, 89.7),
            cell(EuroSat, MIX_SELF, 1.0, 75.7),
            cell(EuroSat, MIX_SELF, 2.0, 82.8),
            cell(EuroSat, MIX_SELF, 4.0, 87.4),
            cell(EuroSat, MIX_SELF, 8.0, 90.8),
        ],
        statements: &[MIXTURES_HELP],
    },
    AccuracyTable {
        entry: CatalogueEntry::new(Paper::Mixing, "mix/table5", "Accuracy over the number of views", "6.2"),
        cells: &[
            cell(Cifar10, SELF_AUG, 8.0, 78.8),
            cell(Cifar10, SELF_AUG_24, 8.0, 78.5),
            cell(Cifar10, SELF_AUG_32, 8.0, 78.4),
            cell(Cifar10, SELF_AUG_36, 8.0, 78.6),
            cell(Cifar10, MIX_SELF, 8.0, 79.8),
        ],
        statements: &[MIXTURES_HELP],
    },
    AccuracyTable {
        entry: CatalogueEntry::new(
            Paper::Mixing,
            "mix/table11",
            "Accuracy of training from scratch in JAX",
            "B.2",
        ),
        cells: &[
            cell(Cifar10, SELF_AUG, 1.0, 56.3),
            cell(Cifar10, SELF_AUG, 8.0, 79.4),
            cell(Cifar10, MIX_SELF, 1.0, 57.1),
            cell(Cifar10, MIX_SELF, 8.0, 80.0),
        ],
        statements: &[MIXTURES_HELP],
    },
];

const MIXTURES_HELP: Statement<[TrainedAccuracy]> = Statement {
    says: "DP-Mix_self is more accurate than any number of views alone, at every budget",
    check: mixtures_help,
};

fn mixtures_help(trained: &[TrainedAccuracy]) -> Result<ClaimVerdict> {
    let gain = |mixed: &TrainedAccuracy| {
        let like = |row: &&TrainedAccuracy| {
            row.cell.method.self_mix == 0
                && (row.cell.data, row.cell.epsilon) == (mixed.cell.data, mixed.cell.epsilon)
        };
        let best = trained.iter().filter(like).map(TrainedAccuracy::mean).reduce(f64::max)?;
        Some(mixed.mean() - best)
    };
    let gains: Vec<f64> =
        trained.iter().filter(|row| row.cell.method.self_mix > 0).filter_map(gain).collect();
    let (mean, _) = moments(&gains);
    let least = gains.iter().copied().reduce(f64::min);
    let least = least.ok_or_else(|| ReproduceError::failed("no method was trained beside DP-Mix_self"))?;
    Ok((format!("{:+.1} points in the mean, {:+.1} at least", 100.0 * mean, 100.0 * least), least > 0.0))
}
