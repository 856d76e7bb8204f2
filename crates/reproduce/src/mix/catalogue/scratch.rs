//! Tables 1, 2, 5 and 11 of the mixing paper: models trained from scratch.

use super::MixData::{Cifar10, Cifar100, EuroSat};
use super::statements::{MIXTURES_HELP, PAIRS_COST};
use super::{MixData, MixMethod, MixModel, PaperAccuracy, SELF_AUG};
use crate::mix::trained::AccuracyTable;
use crate::{CatalogueEntry, Paper};

const PLAIN: MixMethod = MixMethod::new("DP-SGD", 1, 0);
const PLAIN_PAIRS: MixMethod = MixMethod::new("DP-SGD, pairs", 1, 0).together(2);
const MIXED_PAIRS: MixMethod = MixMethod::new("DP-SGD with mixup, pairs", 1, 1).together(2);
const SELF_AUG_PAIRS: MixMethod = MixMethod::new("Self-Aug, pairs", 16, 0).together(2);
const SELF_AUG_24: MixMethod = MixMethod::new("Self-Aug", 24, 0);
const SELF_AUG_32: MixMethod = MixMethod::new("Self-Aug", 32, 0);
const SELF_AUG_36: MixMethod = MixMethod::new("Self-Aug", 36, 0);
const MIX_SELF: MixMethod = MixMethod::new("DP-Mix_self", 16, 16);

pub(super) fn tables() -> [AccuracyTable; 4] {
    let entry = |id, title, section| CatalogueEntry::new(Paper::Mixing, id, title, section);
    [
        AccuracyTable {
            entry: entry("mix/table1", "Accuracy of microbatches", "3"),
            cells: vec![
                cell(Cifar10, PLAIN, 8.0, 72.5),
                cell(Cifar10, PLAIN_PAIRS, 8.0, 49.7),
                cell(Cifar10, MIXED_PAIRS, 8.0, 50.1),
                cell(Cifar10, SELF_AUG, 8.0, 78.7),
                cell(Cifar10, SELF_AUG_PAIRS, 8.0, 52.8),
            ],
            statements: &[PAIRS_COST],
        },
        AccuracyTable {
            entry: entry("mix/table2", "Accuracy of training from scratch", "5.1"),
            cells: table2(),
            statements: &[MIXTURES_HELP],
        },
        AccuracyTable {
            entry: entry("mix/table5", "Accuracy over the number of views", "6.2"),
            cells: vec![
                cell(Cifar10, SELF_AUG, 8.0, 78.8),
                cell(Cifar10, SELF_AUG_24, 8.0, 78.5),
                cell(Cifar10, SELF_AUG_32, 8.0, 78.4),
                cell(Cifar10, SELF_AUG_36, 8.0, 78.6),
                cell(Cifar10, MIX_SELF, 8.0, 79.8),
            ],
            statements: &[MIXTURES_HELP],
        },
        AccuracyTable {
            entry: entry("mix/table11", "Accuracy of training from scratch in JAX", "B.2"),
            cells: vec![
                cell(Cifar10, SELF_AUG, 1.0, 56.3),
                cell(Cifar10, SELF_AUG, 8.0, 79.4),
                cell(Cifar10, MIX_SELF, 1.0, 57.1),
                cell(Cifar10, MIX_SELF, 8.0, 80.0),
            ],
            statements: &[MIXTURES_HELP],
        },
    ]
}

fn cell(data: MixData, method: MixMethod, epsilon: f64, accuracy: f64) -> PaperAccuracy {
    PaperAccuracy { data, model: MixModel::WideResNet, method, epsilon, accuracy }
}

fn table2() -> Vec<PaperAccuracy> {
    vec![
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
    ]
}
