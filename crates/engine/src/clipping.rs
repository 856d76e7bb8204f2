//! How a sample's gradient is scaled before it joins the sum.

use crate::error::EngineError;
use crate::layout::Layout;

/// Norms are computed in single precision for large layers; every bound is lowered by this share, so that rounding never lets a clipped
/// gradient exceed it.
const SLACK: f64 = 1e-5;

/// A clipping rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Clipping {
    /// No clipping: the plain sum. Not private.
    Off,
    /// The whole gradient to at most `max_norm`.
    Flat {
        /// Bound on the norm.
        max_norm: f64,
    },
    /// Each layer on its own, to at most `max_norm / sqrt(layers)`, so that the whole stays within `max_norm`.
    PerLayer {
        /// Bound on the norm of the whole.
        max_norm: f64,
    },
    /// Each group of parameters on its own.
    PerGroup {
        /// Group of each trainable parameter, in order.
        groups: Vec<usize>,
        /// Bound of each group.
        max_norms: Vec<f64>,
    },
    /// Automatic clipping (Bu et al. 2022): `g max_norm / (|g| + stability)`, never longer than `max_norm`.
    Automatic {
        /// Length that every gradient approaches.
        max_norm: f64,
        /// Keeps short gradients short; must be positive.
        stability: f64,
    },
}

impl Clipping {
    /// The largest norm one sample can contribute; infinite without clipping.
    ///
    /// # Guarantee
    /// The contribution of any sample to a clipped sum has at most this Euclidean norm.
    pub fn sensitivity(&self) -> f64 {
        match self {
            Self::Off => f64::INFINITY,
            Self::Flat { max_norm } | Self::PerLayer { max_norm } | Self::Automatic { max_norm, .. } => {
                *max_norm
            }
            Self::PerGroup { max_norms, .. } => {
                max_norms.iter().map(|bound| bound * bound).sum::<f64>().sqrt()
            }
        }
    }

    /// Checks that the rule fits a model.
    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        let positive = |value: f64, what: &str| match value > 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(EngineError::Clipping(format!("{what} is {value}; it must be positive and finite"))),
        };
        match self {
            Self::Off => Ok(()),
            Self::Flat { max_norm } | Self::PerLayer { max_norm } => positive(*max_norm, "max_norm"),
            Self::Automatic { max_norm, stability } => {
                positive(*max_norm, "max_norm")?;
                positive(*stability, "stability")
            }
            Self::PerGroup { groups, max_norms } => {
                if groups.len() != layout.entries().len() {
                    let (found, expected) = (groups.len(), layout.entries().len());
                    return Err(EngineError::Clipping(format!(
                        "{found} groups for {expected} trainable parameters"
                    )));
                }
                if let Some(group) = groups.iter().find(|&&group| group >= max_norms.len()) {
                    return Err(EngineError::Clipping(format!("group {group} has no bound")));
                }
                max_norms.iter().try_for_each(|&bound| positive(bound, "a group's bound"))
            }
        }
    }

    /// Factor for each trainable parameter, from the squared norms of a sample's gradient.
    pub(crate) fn factors(&self, layout: &Layout, squared: &[f64], factors: &mut [f32]) {
        let total = |select: &dyn Fn(usize) -> bool| -> f64 {
            squared.iter().enumerate().filter(|(i, _)| select(*i)).map(|(_, s)| s).sum::<f64>().sqrt()
        };
        match self {
            Self::Off => factors.fill(1.0),
            Self::Flat { max_norm } => factors.fill(factor(*max_norm, total(&|_| true))),
            Self::Automatic { max_norm, stability } => {
                let norm = total(&|_| true) * (1.0 + SLACK);
                factors.fill((max_norm / (norm + stability)) as f32);
            }
            Self::PerLayer { max_norm } => {
                let bound = max_norm / (layout.layers() as f64).sqrt();
                for (i, entry) in layout.entries().iter().enumerate() {
                    factors[i] = factor(bound, total(&|j| layout.entries()[j].layer == entry.layer));
                }
            }
            Self::PerGroup { groups, max_norms } => {
                for (i, &group) in groups.iter().enumerate() {
                    factors[i] = factor(max_norms[group], total(&|j| groups[j] == group));
                }
            }
        }
    }
}

fn factor(bound: f64, norm: f64) -> f32 {
    (bound / (norm * (1.0 + SLACK))).min(1.0) as f32
}
