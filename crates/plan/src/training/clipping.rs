//! How a record's gradient is bounded.

use crate::Plan;
use crate::error::PlanError;
use crate::spec::{ClippingKind, TrainSpec};

/// The bound on a record's gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GradientBound {
    /// None: the run is not private.
    Off,
    /// The whole gradient at once.
    Flat {
        /// The clip norm.
        max_norm: f64,
    },
    /// Every gradient is scaled to nearly the bound (Bu et al. 2022).
    Automatic {
        /// The clip norm.
        max_norm: f64,
        /// Added to the norm before dividing by it, so that short gradients stay short.
        stability: f64,
    },
    /// Each layer by itself, all together within the bound.
    PerLayer {
        /// The clip norm.
        max_norm: f64,
    },
    /// The parts of a split model by themselves: the part that is split, and the rest.
    Parts {
        /// The bound of the split part.
        split: f64,
        /// The bound of the rest; 0 if there is none.
        rest: f64,
    },
}

/// The stability of automatic clipping, the value of Bu et al. 2022.
const STABILITY: f64 = 0.01;

impl GradientBound {
    /// The bound that follows from a plan and its `[train]` section.
    ///
    /// # Errors
    /// A clip norm that is to follow the share of gradients within it, where no gradient is within it or outside of it as a whole; a split
    /// model whose parts are to be clipped in another way than each as a whole.
    pub fn check(plan: &Plan, spec: &TrainSpec) -> Result<Self, PlanError> {
        let max_norm = plan.clip_norm();
        if let (Some(split), true) = (plan.parts()[0].split(), spec.private.unwrap_or(true)) {
            return match spec.clipping.unwrap_or_default() {
                ClippingKind::Flat => Ok(Self::Parts {
                    split: below(split.split_norm() * max_norm),
                    rest: below(split.nonsplit_norm() * max_norm),
                }),
                ClippingKind::Automatic | ClippingKind::PerLayer => Err(PlanError::invalid(
                    "train.clipping",
                    "the parts of a split model are clipped each as a whole",
                    "use flat clipping, or leave the [partition] section out",
                )),
            };
        }
        let bound = match (spec.private.unwrap_or(true), spec.clipping.unwrap_or_default()) {
            (false, _) => Self::Off,
            (true, ClippingKind::Flat) => Self::Flat { max_norm },
            (true, ClippingKind::Automatic) => Self::Automatic { max_norm, stability: STABILITY },
            (true, ClippingKind::PerLayer) => Self::PerLayer { max_norm },
        };
        let problem = match bound {
            Self::Off | Self::Flat { .. } | Self::Parts { .. } => return Ok(bound),
            Self::Automatic { .. } => {
                "automatic clipping scales every gradient, so that none is within the clip norm"
            }
            Self::PerLayer { .. } => {
                "layers are clipped one by one, so that no gradient is within the clip norm as a whole"
            }
        };
        match plan.clip_quantile() {
            None => Ok(bound),
            Some(_) => Err(PlanError::invalid(
                "train.clipping",
                problem,
                "use flat clipping, or leave privacy.clip_quantile out",
            )),
        }
    }
}

/// A product that was rounded, moved down by as much as that may have raised it, so that no bound is above what was priced.
fn below(product: f64) -> f64 {
    if product > 0.0 { product.next_down() } else { 0.0 }
}
