//! What the partitioning paper says of its accuracies.

use super::TrainedPartition;
use super::catalogue::PartitionMethod;
use crate::claim::{ClaimVerdict, Statement};

type PartitionStatement = Statement<[TrainedPartition]>;

pub(super) const AMPLIFICATION_HELPS: PartitionStatement = Statement {
    says: "counting the hidden submodels improves accuracy, for either number of them (2.6 and 3.7 points)",
    check: |trained| Ok(amplification_helps(trained)),
};

pub(super) const AMPLIFICATION_HELPS_USERS: PartitionStatement = Statement {
    says: "counting the hidden submodels improves accuracy, for either number of them (1.8 and 2.2 points)",
    check: |trained| Ok(amplification_helps(trained)),
};

pub(super) const WHOLE_IS_BEST: PartitionStatement = Statement {
    says: "splitting the model decreases accuracy: without it the model is at 84.99%",
    check: |trained| Ok(whole_is_best(trained)),
};

pub(super) const WHOLE_IS_BEST_FOR_USERS: PartitionStatement = Statement {
    says: "splitting the model decreases accuracy: without it the model is at 82.18%",
    check: |trained| Ok(whole_is_best(trained)),
};

pub(super) const SAMPLINGS_ARE_ALIKE: PartitionStatement = Statement {
    says: "balanced and Poisson sampling show little difference (0.08 and -0.13 points; less than one here)",
    check: |trained| {
        let pairs = gains(
            trained,
            |method| !method.balanced,
            |poisson, other| other.balanced && other.start == poisson.start,
        );
        Ok(summed_up(&pairs, |gain| gain.abs() < 0.01))
    },
};

fn amplification_helps(trained: &[TrainedPartition]) -> ClaimVerdict {
    let same =
        |told: &PartitionMethod, other: &PartitionMethod| !other.told && other.submodels == told.submodels;
    summed_up(&gains(trained, |method| method.told, same), |gain| gain > 0.0)
}

fn whole_is_best(trained: &[TrainedPartition]) -> ClaimVerdict {
    let pairs = gains(trained, |method| method.submodels > 1, |_, other| other.submodels == 1);
    summed_up(&pairs, |gain| gain > 0.0)
}

/// How much more accurate others are than each of some methods.
fn gains(
    trained: &[TrainedPartition],
    is_one: impl Fn(&PartitionMethod) -> bool,
    is_beside: impl Fn(&PartitionMethod, &PartitionMethod) -> bool,
) -> Vec<f64> {
    let own = trained.iter().filter(|row| is_one(&row.printed.method));
    own.flat_map(|row| {
        let others = trained.iter().filter(|other| is_beside(&row.printed.method, &other.printed.method));
        others.map(|other| other.mean() - row.mean()).collect::<Vec<f64>>()
    })
    .collect()
}

fn summed_up(gains: &[f64], holds: impl Fn(f64) -> bool) -> ClaimVerdict {
    let points: Vec<String> = gains.iter().map(|gain| format!("{:+.1}", 100.0 * gain)).collect();
    (format!("{} points", points.join(", ")), gains.iter().all(|&gain| holds(gain)))
}
