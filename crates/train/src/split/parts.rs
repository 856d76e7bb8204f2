//! The two parts of a split model's gradient: what is split, and the rest.

use std::collections::BTreeSet;

use dapple_engine::Clipping;
use dapple_graph::{Graph, ParameterId};

use crate::error::TrainError;

/// The bounds of both parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartBounds {
    pub(super) split: f64,
    /// 0 if there is no rest.
    pub(super) rest: f64,
}

/// How messages speak of the split part.
pub(super) struct PartWords {
    /// The key that says what is split.
    pub(super) key: &'static str,
    /// Says that nothing of it trains.
    pub(super) none: &'static str,
    /// What to do about that.
    pub(super) train: &'static str,
    /// What some of the trained parameters do that belong to it.
    pub(super) some: &'static str,
    /// What every trained parameter does if all belong to it.
    pub(super) every: &'static str,
}

/// How a gradient of which these parameters are split is clipped.
///
/// # Errors
/// A part that is trained but has no bound, or that has a bound and is not trained.
pub(super) fn clip_parts(
    graph: &Graph,
    own: &BTreeSet<ParameterId>,
    PartBounds { split, rest }: PartBounds,
    words: &PartWords,
) -> Result<Clipping, TrainError> {
    let trained = || graph.parameters().iter().enumerate().filter(|(_, parameter)| parameter.trainable);
    let is_split = |index: usize| own.iter().any(|id| id.index() == index);
    let groups: Vec<usize> = trained().map(|(index, _)| usize::from(!is_split(index))).collect();
    let len: usize = trained().filter(|(index, _)| is_split(*index)).map(|(_, own)| own.len()).sum();
    if len == 0 {
        return Err(TrainError::setting(words.key, words.none, words.train));
    }
    match (groups.contains(&1), rest > 0.0) {
        (true, true) => Ok(Clipping::PerGroup { groups, max_norms: vec![split, rest] }),
        (false, false) => Ok(Clipping::Flat { max_norm: split }),
        (true, false) => {
            let share = share(len as f64 / graph.trainable_len() as f64);
            Err(TrainError::setting(
                "partition.split_fraction",
                format!(
                    "only {share} of the trained parameters {}, and the rest has no clip norm",
                    words.some
                ),
                format!(
                    "set partition.split_fraction = {share}, or partition.split_norm and partition.nonsplit_norm, or freeze the rest"
                ),
            ))
        }
        (false, true) => Err(TrainError::setting(
            "partition.nonsplit_norm",
            format!("every trained parameter {}, so that there is no other part", words.every),
            "leave it and partition.split_fraction out",
        )),
    }
}

/// A share as a plan would say it.
fn share(value: f64) -> String {
    if value < 0.001 { format!("{value:.2e}") } else { format!("{value:.4}") }
}
