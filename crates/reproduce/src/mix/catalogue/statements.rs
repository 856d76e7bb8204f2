//! What the mixing paper says of its accuracies.

use super::{MixMethod, MixPool};
use crate::claim::{ClaimVerdict, Statement};
use crate::error::{ReproduceError, Result};
use crate::experiment::moments;
use crate::mix::trained::TrainedAccuracy;
use crate::trained::percent;

type AccuracyStatement = Statement<[TrainedAccuracy]>;

pub(super) const PAIRS_COST: AccuracyStatement = Statement {
    says: "microbatches of two are much worse than clipping record by record, with mixup too",
    check: |trained| {
        let together = |alone: bool| {
            let own = trained.iter().filter(|row| (row.cell.method.together == 1) == alone);
            own.map(TrainedAccuracy::mean).collect::<Vec<f64>>()
        };
        let best = together(false).into_iter().fold(0.0, f64::max);
        let worst = together(true).into_iter().fold(1.0, f64::min);
        Ok((format!("at most {} in place of at least {}", percent(best), percent(worst)), best < worst))
    },
};

pub(super) const MIXTURES_HELP: AccuracyStatement = Statement {
    says: "DP-Mix_self is more accurate than any number of views alone, at every budget",
    check: |trained| all_gain(trained, is_mix_self, |_, other| other.self_mix == 0),
};

pub(super) const TUNED_MIXTURES_HELP: AccuracyStatement = Statement {
    says: "DP-Mix_self is more accurate than Mixed Ghost and Self-Aug, at every budget",
    check: MIXTURES_HELP.check,
};

pub(super) const SYNTHETIC_HELP: AccuracyStatement = Statement {
    says: "synthetic images help, with any number of views and mixtures",
    check: |trained| {
        all_gain(
            trained,
            |method| method.synthetic > 0,
            |own, other| other.synthetic == 0 && (own.views, own.self_mix) == (other.views, other.self_mix),
        )
    },
};

pub(super) const SYNTHETIC_HELP_MOST_EARLY: AccuracyStatement = Statement {
    says: "what DP-Mix_diff gains over DP-Mix_self is the most where the budget is smallest (Caltech256, ViT-B-16: 8.5 points at ε = 1)",
    check: |trained| {
        let gains = gains(trained, |method| method.synthetic > 0, |_, other| is_mix_self(other))?;
        let budgets = || gains.iter().map(|(row, _)| row.cell.epsilon);
        let (smallest, largest) =
            (budgets().fold(f64::INFINITY, f64::min), budgets().fold(0.0_f64, f64::max));
        let mean = |epsilon: f64| {
            let own: Vec<f64> =
                gains.iter().filter(|(row, _)| row.cell.epsilon == epsilon).map(|(_, gain)| *gain).collect();
            moments(&own).0
        };
        let (early, late) = (mean(smallest), mean(largest));
        let here =
            format!("{:+.1} points at ε = {smallest}, {:+.1} at {largest}", 100.0 * early, 100.0 * late);
        Ok((here, early > late))
    },
};

pub(super) const REAL_IMAGES_BOUND: AccuracyStatement = Statement {
    says: "real public images beside the records are as good as synthetic ones or none (C is an upper bound for A and B)",
    check: |trained| {
        let is_real = |method: &MixMethod| method.synthetic > 0 && method.pool == MixPool::Real;
        let gains = gains(trained, is_real, |_, other| other.pool != MixPool::Real)?;
        Ok(summed_up(&gains, |gain| gain >= 0.0))
    },
};

fn is_mix_self(method: &MixMethod) -> bool {
    method.self_mix > 0 && method.synthetic == 0
}

/// Whether every method of a kind is more accurate than the best of those that it is compared with.
fn all_gain(
    trained: &[TrainedAccuracy],
    is_one: fn(&MixMethod) -> bool,
    is_other: fn(&MixMethod, &MixMethod) -> bool,
) -> Result<ClaimVerdict> {
    Ok(summed_up(&gains(trained, is_one, is_other)?, |gain| gain > 0.0))
}

fn summed_up(gains: &[(&TrainedAccuracy, f64)], holds: fn(f64) -> bool) -> ClaimVerdict {
    let all: Vec<f64> = gains.iter().map(|(_, gain)| *gain).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let here = format!("{:+.1} points in the mean, {:+.1} at least", 100.0 * moments(&all).0, 100.0 * least);
    (here, all.iter().copied().all(holds))
}

/// What each method of a kind gains over the best of those that it is compared with, on the same images, from the same model and for the
/// same budget.
fn gains(
    trained: &[TrainedAccuracy],
    is_one: fn(&MixMethod) -> bool,
    is_other: fn(&MixMethod, &MixMethod) -> bool,
) -> Result<Vec<(&TrainedAccuracy, f64)>> {
    let gain = |one: &'_ TrainedAccuracy| {
        let beside = trained
            .iter()
            .filter(|row| row.cell.is_beside(&one.cell) && is_other(&one.cell.method, &row.cell.method));
        Some(one.mean() - beside.map(TrainedAccuracy::mean).reduce(f64::max)?)
    };
    let ones = trained.iter().filter(|row| is_one(&row.cell.method));
    let gains: Vec<(&TrainedAccuracy, f64)> =
        ones.filter_map(|one| gain(one).map(|gain| (one, gain))).collect();
    match gains.is_empty() {
        false => Ok(gains),
        true => Err(ReproduceError::failed("the methods that the paper compares were not both trained")),
    }
}
