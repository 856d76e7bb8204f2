//! Model splitting: a record updates one submodel that is drawn at random.

use std::sync::{Arc, OnceLock};

use dapple_accounting::{Partition, Pld};

use crate::error::PlanError;
use crate::spec::{PartitionShare, PartitionSpec};
use crate::{Averaged, Sampling, number};

/// The most submodels. More are a slip of the pen.
const MAX_SUBMODELS: u32 = 1 << 20;
/// The most partitions, because each needs a law of its own.
const MAX_PARTITIONS: usize = 16;
/// The dropout rate at which a set of kept nodes and its complement are equally likely.
const EVEN: f64 = 0.5;
/// Allowed norms of the parts, in clip norms. Smaller ones move nothing, and larger ones drown the other part.
const NORMS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Which parts of the model a record updates; a checked value.
///
/// The split parameters form disjoint submodels, of which each record updates one in each step, drawn uniformly and in secret. All
/// records update the rest. There may be several ways to form submodels, of which a record draws one first. The two parts are clipped
/// separately.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    partitions: Vec<Partition>,
    by_dropout: bool,
    split_norm: f64,
    nonsplit_norm: f64,
    known: KnownStep,
}

/// The distribution of one step at the noise multiplier for which it was first asked. All copies of a split share it, so that a search
/// over batches or steps computes its law once. It follows from the other fields, so all values count as equal.
#[derive(Debug, Clone, Default)]
struct KnownStep(Arc<OnceLock<(f64, Pld)>>);

impl PartialEq for KnownStep {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Split {
    /// The ways to form submodels, each with its probability and number of submodels.
    #[must_use]
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    /// `d`: the least number of submodels among which a record's update is hidden.
    #[must_use]
    pub fn submodels(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.submodels).min().unwrap_or(1)
    }

    /// Whether dropout at a rate of one half makes the submodels.
    #[must_use]
    pub fn by_dropout(&self) -> bool {
        self.by_dropout
    }

    /// The rate of the dropout that makes the submodels, if dropout does.
    #[must_use]
    pub fn dropout_rate(&self) -> Option<f64> {
        self.by_dropout.then_some(EVEN)
    }

    /// The clip norm of the split part, in clip norms.
    #[must_use]
    pub fn split_norm(&self) -> f64 {
        self.split_norm
    }

    /// The clip norm of the part that all records update, in clip norms; 0 if there is no such part.
    #[must_use]
    pub fn nonsplit_norm(&self) -> f64 {
        self.nonsplit_norm
    }

    /// How far a record moves the sum of gradients, in clip norms.
    #[must_use]
    pub fn norm(&self) -> f64 {
        self.split_norm.hypot(self.nonsplit_norm)
    }

    /// Whether every parameter is split.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.nonsplit_norm == 0.0
    }

    /// The same split if the submodel of each record were known.
    pub(crate) fn revealed(&self) -> Self {
        Self { partitions: vec![one(1)], known: KnownStep::default(), ..self.clone() }
    }

    /// The distribution of one step that every record joins, at this noise multiplier.
    ///
    /// # Guarantee
    /// That of [`Pld::split_mixture`].
    pub(crate) fn pld(&self, noise_multiplier: f64) -> Result<Pld, PlanError> {
        if let Some((at, pld)) = self.known.0.get()
            && *at == noise_multiplier
        {
            return Ok(pld.clone());
        }
        let pld =
            Pld::split_mixture(&self.partitions, self.split_norm, self.nonsplit_norm, noise_multiplier)?;
        // If the step is known for another noise multiplier, that one stays.
        self.known.0.get_or_init(|| (noise_multiplier, pld.clone()));
        Ok(pld)
    }

    /// Checks the `[partition]` section; `None` if nothing is split, or only into one part.
    pub(crate) fn check(
        spec: &PartitionSpec,
        averaged: Averaged,
        sampling: Sampling,
    ) -> Result<Option<Self>, PlanError> {
        let (partitions, by_dropout) = match (spec.submodels, &spec.mixture, spec.dropout) {
            (None, None, None) => return unsplit(spec),
            (Some(count), None, None) => (vec![one(submodels("partition.submodels", count)?)], false),
            (None, Some(mixture), None) => (partitions(mixture)?, false),
            (None, None, Some(rate)) => (vec![one(even(rate)?)], true),
            (_, Some(_), _) => {
                return Err(PlanError::invalid(
                    "partition.mixture",
                    "submodels or dropout are given as well",
                    "give --submodels, --dropout 0.5 or a mixture of partitions",
                ));
            }
            (Some(_), None, Some(_)) => {
                return Err(PlanError::invalid(
                    "partition.dropout",
                    "submodels are given as well",
                    "dropout of one half makes two submodels by itself: give --submodels or --dropout",
                ));
            }
        };
        let (split_norm, nonsplit_norm) = norms(spec)?;
        let split = Self { partitions, by_dropout, split_norm, nonsplit_norm, known: KnownStep::default() };
        if averaged.shares_clip() {
            return Err(PlanError::NoTheorem {
                combination: "split models with microbatches".to_owned(),
                reason: "the records of a microbatch update different submodels, so their mean hides none of them",
                hint: "use --records-per-clip 1",
            });
        }
        let single = split.is_whole() && split.partitions.len() == 1;
        if !single && matches!(sampling, Sampling::Balanced { .. }) {
            return Err(PlanError::NoTheorem {
                combination: "partly split models and mixtures of partitions with balanced sampling"
                    .to_owned(),
                reason: "only an update hidden in one of equally many submodels in each step is priced there",
                hint: "use --sampling poisson, or split all parameters one way",
            });
        }
        // One submodel that contains everything is the model itself.
        let is_model = single && split.submodels() == 1 && split.norm() == 1.0;
        Ok(Some(split).filter(|_| !is_model))
    }
}

/// A single way to form submodels.
fn one(submodels: u64) -> Partition {
    Partition { probability: 1.0, submodels }
}

/// Several ways to form submodels. Ways with the same number of submodels count as one.
fn partitions(mixture: &[PartitionShare]) -> Result<Vec<Partition>, PlanError> {
    let key = "partition.mixture";
    let hint = "give each partition's number of submodels and probability, e.g. [[2, 0.5], [4, 0.5]]";
    let mut merged: Vec<Partition> = Vec::new();
    for &PartitionShare(count, probability) in mixture {
        let submodels = submodels(key, count)?;
        if !(probability > 0.0 && probability <= 1.0) {
            let problem = format!("{} is no probability in (0, 1]", number::exact(probability));
            return Err(PlanError::invalid(key, problem, hint));
        }
        match merged.iter_mut().find(|other| other.submodels == submodels) {
            Some(same) => same.probability += probability,
            None => merged.push(Partition { probability, submodels }),
        }
    }
    let sum = merged.iter().fold(0.0, |sum, partition| sum + partition.probability);
    // Probabilities are written with a few digits, so 0.1 + 0.2 + 0.7 must count as 1.
    if (sum - 1.0).abs() > 1e-12 || merged.len() > MAX_PARTITIONS {
        let problem = format!("{} partitions whose probabilities add up to {sum}", merged.len());
        return Err(PlanError::invalid(key, problem, hint));
    }
    Ok(merged)
}

/// Refuses the other keys of the section, which mean nothing if nothing is split.
fn unsplit(spec: &PartitionSpec) -> Result<Option<Split>, PlanError> {
    let alone = [
        ("partition.split_fraction", spec.split_fraction),
        ("partition.split_norm", spec.split_norm),
        ("partition.nonsplit_norm", spec.nonsplit_norm),
    ];
    match alone.iter().find(|(_, value)| value.is_some()) {
        None => Ok(None),
        Some((key, _)) => Err(PlanError::invalid(
            key,
            "has no meaning for a model that is not split",
            "give --submodels, or --dropout 0.5, or leave it out",
        )),
    }
}

fn submodels(key: &'static str, count: u32) -> Result<u64, PlanError> {
    if count == 0 || count > MAX_SUBMODELS {
        return Err(PlanError::invalid(
            key,
            format!("{count} submodels"),
            format!("give 1, which splits nothing, or at most {MAX_SUBMODELS}"),
        ));
    }
    Ok(count.into())
}

fn even(rate: f64) -> Result<u64, PlanError> {
    if rate != EVEN {
        return Err(PlanError::invalid(
            "partition.dropout",
            format!(
                "{} is not 0.5: only there are a set of kept nodes and its complement equally likely",
                number::exact(rate)
            ),
            "use --dropout 0.5; dropout at other rates is priced as no splitting: leave the flag out",
        ));
    }
    Ok(2)
}

/// The clip norms of both parts, in clip norms.
fn norms(spec: &PartitionSpec) -> Result<(f64, f64), PlanError> {
    let (split, nonsplit) = match (spec.split_norm, spec.nonsplit_norm, spec.split_fraction) {
        (None, None, None) => return Ok((1.0, 0.0)),
        (None, None, Some(share)) if share > 0.0 && share <= 1.0 => {
            // The squared clip norm is divided like the parameters, so that the squares add up to 1.
            return Ok((share.sqrt(), (1.0 - share).sqrt()));
        }
        (None, None, Some(share)) => {
            return Err(PlanError::invalid(
                "partition.split_fraction",
                format!("{} is no share in (0, 1]", number::exact(share)),
                "give the parameters that are split over all that are trained, e.g. 0.5",
            ));
        }
        (_, _, Some(_)) => {
            return Err(PlanError::invalid(
                "partition.split_fraction",
                "clip norms of the parts are given as well",
                "give --split-norm and --nonsplit-norm, or --split-fraction, which sets both",
            ));
        }
        (Some(split), Some(nonsplit), None) => (split, nonsplit),
        (None, Some(_), None) => {
            return Err(PlanError::Missing {
                key: "partition.split_norm",
                why: "the two parts are clipped apart",
            });
        }
        (Some(_), None, None) => {
            return Err(PlanError::Missing {
                key: "partition.nonsplit_norm",
                why: "the two parts are clipped apart",
            });
        }
    };
    for (key, norm, least) in [
        ("partition.split_norm", split, "[0.001, 1000]"),
        ("partition.nonsplit_norm", nonsplit, "0 or [0.001, 1000]"),
    ] {
        let nothing = norm == 0.0 && key == "partition.nonsplit_norm";
        if !nothing && !NORMS.contains(&norm) {
            return Err(PlanError::invalid(
                key,
                format!("{} is outside {least}", number::exact(norm)),
                "give the clip norm of the part in units of the noise multiplier's clip norm, e.g. 1",
            ));
        }
    }
    Ok((split, nonsplit))
}
