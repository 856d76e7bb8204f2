//! Tables 3, 9 and 10 of the mixing paper: the last layers of pretrained models, trained beside synthetic images.

use super::MixData::{Caltech256, Cifar10, Cifar100, EuroSat, OxfordPet, Sun397};
use super::MixModel::{ConvNext, VisionTransformer};
use super::statements::{REAL_IMAGES_BOUND, SYNTHETIC_HELP, SYNTHETIC_HELP_MOST_EARLY, TUNED_MIXTURES_HELP};
use super::{MixData, MixMethod, MixPool, PaperAccuracy, SELF_AUG};
use crate::mix::trained::AccuracyTable;
use crate::{CatalogueEntry, Paper};

/// Clipped by a faster rule, of which nothing but the clip norm and the single view shows in an accuracy.
const MIXED_GHOST: MixMethod = MixMethod { whole: true, ..MixMethod::new("Mixed Ghost", 1, 0) };
/// Section 6.5: 18 mixtures and 2 synthetic images in most cases.
const MIX_SELF: MixMethod = MixMethod::new("DP-Mix_self", 16, 18);
const MIX_DIFF: MixMethod = MixMethod::new("DP-Mix_diff", 16, 18).beside(2, MixPool::Synthetic);
const METHOD_A: MixMethod = MixMethod { name: "A: DP-Mix_self", ..MIX_SELF };
const METHOD_B: MixMethod = MixMethod { name: "B: DP-Mix_diff", ..MIX_DIFF };
const METHOD_C: MixMethod =
    MixMethod { name: "C: real images in the pool", ..MIX_SELF.beside(2, MixPool::Real) };

pub(super) fn tables() -> [AccuracyTable; 3] {
    let entry = |id, title, section| CatalogueEntry::new(Paper::Mixing, id, title, section);
    [
        AccuracyTable {
            entry: entry("mix/table3", "Accuracy of fine-tuning", "5.2"),
            cells: table3(),
            statements: &[TUNED_MIXTURES_HELP, SYNTHETIC_HELP_MOST_EARLY],
        },
        AccuracyTable {
            entry: entry("mix/table9", "Accuracy over views, mixtures and synthetic images", "6.5"),
            cells: table9(),
            statements: &[SYNTHETIC_HELP],
        },
        AccuracyTable {
            entry: entry("mix/table10", "Accuracy beside synthetic and beside real images", "B.1"),
            cells: table10(),
            statements: &[REAL_IMAGES_BOUND],
        },
    ]
}

/// A data set, a method, and the accuracies of ViT-B-16 and of ConvNeXt at each of [`EPSILONS`].
type Table3Line = (MixData, MixMethod, [f64; 4], [f64; 4]);

const EPSILONS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

const TABLE_3: [Table3Line; 24] = [
    (Cifar10, MIXED_GHOST, [95.0, 95.0, 95.3, 95.3], [94.6, 94.6, 94.7, 94.7]),
    (Cifar10, SELF_AUG, [96.5, 97.0, 97.1, 97.2], [95.9, 96.4, 96.5, 96.5]),
    (Cifar10, MIX_SELF, [97.2, 97.4, 97.4, 97.6], [96.8, 96.9, 96.9, 97.3]),
    (Cifar10, MIX_DIFF, [97.0, 97.1, 97.2, 97.3], [96.3, 96.5, 96.6, 96.7]),
    (Cifar100, MIXED_GHOST, [78.2, 78.5, 78.4, 78.4], [74.9, 75.1, 75.5, 75.8]),
    (Cifar100, SELF_AUG, [79.3, 83.2, 83.5, 84.2], [75.8, 80.0, 81.4, 82.2]),
    (Cifar100, MIX_SELF, [81.8, 83.5, 84.5, 84.6], [78.2, 80.9, 82.3, 82.3]),
    (Cifar100, MIX_DIFF, [82.0, 83.8, 84.0, 84.3], [79.4, 81.4, 81.6, 81.8]),
    (EuroSat, MIXED_GHOST, [84.0, 84.8, 84.9, 85.0], [85.5, 86.9, 87.0, 87.6]),
    (EuroSat, SELF_AUG, [93.3, 94.1, 95.4, 95.5], [93.5, 94.5, 95.2, 95.2]),
    (EuroSat, MIX_SELF, [94.3, 94.9, 95.6, 95.6], [94.6, 94.7, 95.4, 95.5]),
    (EuroSat, MIX_DIFF, [92.6, 93.4, 93.9, 93.9], [92.8, 93.2, 93.6, 93.8]),
    (Caltech256, MIXED_GHOST, [79.7, 88.2, 91.4, 92.3], [79.2, 87.4, 88.0, 88.2]),
    (Caltech256, SELF_AUG, [80.4, 89.7, 92.0, 93.2], [80.0, 88.2, 91.0, 92.2]),
    (Caltech256, MIX_SELF, [81.2, 90.1, 92.2, 93.4], [81.0, 88.7, 91.3, 92.4]),
    (Caltech256, MIX_DIFF, [89.7, 91.8, 92.9, 93.9], [88.7, 91.8, 92.6, 93.3]),
    (Sun397, MIXED_GHOST, [70.7, 71.2, 72.2, 72.5], [64.3, 65.0, 65.3, 65.3]),
    (Sun397, SELF_AUG, [72.7, 76.0, 78.0, 79.6], [72.2, 76.5, 78.0, 78.9]),
    (Sun397, MIX_SELF, [73.2, 76.5, 78.7, 79.6], [72.5, 76.8, 78.5, 79.5]),
    (Sun397, MIX_DIFF, [75.1, 77.8, 79.5, 80.6], [75.0, 77.5, 79.3, 80.0]),
    (OxfordPet, MIXED_GHOST, [71.2, 79.1, 80.4, 81.0], [65.2, 78.2, 79.1, 79.9]),
    (OxfordPet, SELF_AUG, [72.2, 82.1, 85.8, 88.2], [68.1, 81.3, 85.5, 87.0]),
    (OxfordPet, MIX_SELF, [72.5, 82.5, 86.8, 88.7], [68.8, 81.7, 86.3, 87.7]),
    (OxfordPet, MIX_DIFF, [83.2, 86.3, 88.3, 89.4], [80.5, 86.2, 88.2, 88.8]),
];

fn table3() -> Vec<PaperAccuracy> {
    let mut cells = Vec::new();
    for model in [VisionTransformer, ConvNext] {
        for (data, method, transformer, convnext) in TABLE_3 {
            let printed = if model == VisionTransformer { transformer } else { convnext };
            let cell = |(epsilon, accuracy)| PaperAccuracy { data, model, method, epsilon, accuracy };
            cells.extend(EPSILONS.into_iter().zip(printed).map(cell));
        }
    }
    cells
}

/// `K_base`, `K_self`, and the accuracies with 0, 2 and 4 synthetic images.
const TABLE_9: [(u32, u32, [f64; 3]); 9] = [
    (8, 8, [80.4, 85.0, 87.2]),
    (8, 16, [77.1, 84.5, 87.2]),
    (8, 24, [77.2, 84.2, 86.4]),
    (16, 8, [77.7, 84.2, 86.7]),
    (16, 16, [81.2, 83.8, 86.3]),
    (16, 24, [77.3, 82.6, 85.8]),
    (24, 8, [77.9, 82.7, 85.5]),
    (24, 16, [77.9, 82.1, 85.1]),
    (24, 24, [80.1, 81.5, 84.5]),
];

fn table9() -> Vec<PaperAccuracy> {
    let mut cells = Vec::new();
    for (views, self_mix, printed) in TABLE_9 {
        for (synthetic, accuracy) in [0, 2, 4].into_iter().zip(printed) {
            let name = if synthetic == 0 { "DP-Mix_self" } else { "DP-Mix_diff" };
            let method = MixMethod::new(name, views, self_mix).beside(synthetic, MixPool::Synthetic);
            let (data, model) = (Caltech256, VisionTransformer);
            cells.push(PaperAccuracy { data, model, method, epsilon: 1.0, accuracy });
        }
    }
    cells
}

/// A data set, and the accuracies of methods A, B and C with ViT-B-16 and with ConvNeXt.
const TABLE_10: [(MixData, [f64; 3], [f64; 3]); 6] = [
    (Cifar10, [96.9, 96.9, 97.0], [96.2, 96.1, 96.2]),
    (Cifar100, [81.3, 82.0, 82.1], [76.7, 78.0, 78.4]),
    (EuroSat, [93.7, 91.4, 93.9], [93.8, 92.3, 93.9]),
    (Caltech256, [76.0, 81.9, 82.3], [76.4, 81.1, 81.6]),
    (Sun397, [70.8, 72.4, 73.8], [70.1, 72.3, 73.6]),
    (OxfordPet, [65.1, 68.3, 68.3], [64.6, 66.0, 68.1]),
];

fn table10() -> Vec<PaperAccuracy> {
    let mut cells = Vec::new();
    for (data, transformer, convnext) in TABLE_10 {
        for (model, printed) in [(VisionTransformer, transformer), (ConvNext, convnext)] {
            let methods = [METHOD_A, METHOD_B, METHOD_C].into_iter().zip(printed);
            let cell = |(method, accuracy)| PaperAccuracy { data, model, method, epsilon: 2.0, accuracy };
            cells.extend(methods.map(cell));
        }
    }
    cells
}
