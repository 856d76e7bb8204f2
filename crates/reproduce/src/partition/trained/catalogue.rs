//! The accuracies that the partitioning paper prints.

use super::statements::{
    AMPLIFICATION_HELPS, AMPLIFICATION_HELPS_USERS, SAMPLINGS_ARE_ALIKE, WHOLE_IS_BEST,
    WHOLE_IS_BEST_FOR_USERS,
};
use super::{PartitionTraining, figures::entry};

/// Where a model begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrainingStart {
    /// With random weights.
    Scratch,
    /// With weights that public images of other classes trained.
    Pretrained,
}

/// What a run of the paper does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartitionMethod {
    pub(super) name: &'static str,
    pub(super) start: TrainingStart,
    /// The number of submodels, of which a record updates one; one is the whole model.
    pub(super) submodels: u32,
    /// Whether the noise is as if everybody knew the submodels.
    pub(super) told: bool,
    /// Whether every record joins the same number of steps.
    pub(super) balanced: bool,
    /// Whether users are protected, who hold two records each and train on them before they send what they learned.
    pub(super) federated: bool,
}

impl PartitionMethod {
    /// A name for the folders of its runs.
    pub(super) fn key(&self) -> String {
        let start = match self.start {
            TrainingStart::Scratch => "scratch",
            TrainingStart::Pretrained => "tuned",
        };
        let told = if self.told { "-told" } else { "" };
        let sampling = if self.balanced { "balanced" } else { "poisson" };
        let users = if self.federated { "-users" } else { "" };
        format!("{start}-submodels{}{told}-{sampling}{users}", self.submodels)
    }
}

/// An accuracy that the paper prints: the best of three runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintedAccuracy {
    pub(super) method: PartitionMethod,
    pub(super) accuracy: f64,
}

pub(super) fn tables() -> [PartitionTraining; 3] {
    let split = |name, submodels, told, accuracy| {
        let start = TrainingStart::Pretrained;
        PrintedAccuracy {
            method: PartitionMethod { name, start, submodels, told, balanced: false, federated: false },
            accuracy,
        }
    };
    let whole = |name, start, balanced, accuracy| PrintedAccuracy {
        method: PartitionMethod { name, start, submodels: 1, told: false, balanced, federated: false },
        accuracy,
    };
    let federated = |name, submodels, told, accuracy| {
        let PrintedAccuracy { method, .. } = split(name, submodels, told, accuracy);
        PrintedAccuracy { method: PartitionMethod { federated: true, ..method }, accuracy }
    };
    let (scratch, tuned) = (TrainingStart::Scratch, TrainingStart::Pretrained);
    [
        PartitionTraining {
            entry: entry("partition/table1", "Accuracy of central training with submodels", "4.1"),
            printed: vec![
                split("baseline", 3, true, 0.7980),
                split("amplification", 3, false, 0.8243),
                split("baseline", 8, true, 0.7680),
                split("amplification", 8, false, 0.8052),
                split("relaxation", 1, false, 0.8499),
            ],
            statements: &[AMPLIFICATION_HELPS, WHOLE_IS_BEST],
        },
        PartitionTraining {
            entry: entry("partition/table2", "Accuracy of federated training with submodels", "4.1"),
            printed: vec![
                federated("baseline", 3, true, 0.7847),
                federated("amplification", 3, false, 0.8028),
                federated("baseline", 8, true, 0.7696),
                federated("amplification", 8, false, 0.7911),
                federated("relaxation", 1, false, 0.8218),
            ],
            statements: &[AMPLIFICATION_HELPS_USERS, WHOLE_IS_BEST_FOR_USERS],
        },
        PartitionTraining {
            entry: entry("partition/section4.2", "Accuracy of balanced and Poisson sampling", "4.2"),
            printed: vec![
                whole("from scratch, Poisson", scratch, false, 0.7013),
                whole("from scratch, balanced", scratch, true, 0.7021),
                whole("fine-tuned, Poisson", tuned, false, 0.8499),
                whole("fine-tuned, balanced", tuned, true, 0.8486),
            ],
            statements: &[SAMPLINGS_ARE_ALIKE],
        },
    ]
}
