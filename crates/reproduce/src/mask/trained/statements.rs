//! What the masked paper says of its accuracies.

use dapple_plan::number;
use dapple_plan::spec::{MaskedContent, PublicGradient};

use super::TrainedMask;
use super::catalogue::MaskMethod;
use crate::claim::{ClaimVerdict, Statement};

/// The statements compare private tokens that are there or not, from independent public batches, with whole clips that are there or not: what the
/// paper's noise is right for.
pub(super) const ALL: &[Statement<[TrainedMask]>] = &[
    Statement {
        says: "at the smallest budgets masked training is better than DP-SGD on the same clips",
        check: |cells| Ok(gained(cells, |gains| gains.first().is_some_and(|(_, gain)| *gain > 0.0))),
    },
    Statement {
        says: "what it gains shrinks as the budget grows: it is less sensitive to epsilon",
        check: |cells| {
            let shrinks = |gains: &[(f64, f64)]| {
                gains.first().zip(gains.last()).is_some_and(|((_, first), (_, last))| first > last)
            };
            Ok(gained(cells, shrinks))
        },
    },
];

/// The gains of each data set, in points by budget, and whether a statement holds for all of them.
fn gained(cells: &[TrainedMask], holds: impl Fn(&[(f64, f64)]) -> bool) -> ClaimVerdict {
    let mut sets: Vec<&str> = cells.iter().map(|cell| cell.set.format).collect();
    sets.dedup();
    let (mut said, mut all) = (Vec::new(), true);
    for set in sets {
        let gains = gains(cells, set);
        let points =
            gains.iter().map(|(epsilon, gain)| format!("{gain:+.1} at ε = {}", number::exact(*epsilon)));
        said.push(points.collect::<Vec<String>>().join(", "));
        all &= holds(&gains);
    }
    (format!("{} points", said.join("; ")), all)
}

/// How many points masked training of a data set gains at each budget, the smallest first.
fn gains(cells: &[TrainedMask], set: &str) -> Vec<(f64, f64)> {
    let (content, mode) = (MaskedContent::Remove, PublicGradient::Decoupled);
    let of = |method, epsilon| {
        let is_one = |cell: &&TrainedMask| {
            cell.set.format == set && cell.method == method && cell.epsilon == Some(epsilon)
        };
        cells.iter().find(is_one).map(TrainedMask::mean)
    };
    let mut budgets: Vec<f64> = cells.iter().filter_map(|cell| cell.epsilon).collect();
    budgets.sort_by(f64::total_cmp);
    budgets.dedup();
    let gain = |epsilon| {
        let masked = of(MaskMethod::Tokens(content, mode), epsilon)?;
        Some((epsilon, 100.0 * (masked - of(MaskMethod::Whole(content), epsilon)?)))
    };
    budgets.into_iter().filter_map(gain).collect()
}
