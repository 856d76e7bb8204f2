//! How a record's gradient is bounded.

use crate::Plan;
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
}

/// The stability of automatic clipping, the value of Bu et al. 2022.
const STABILITY: f64 = 0.01;

impl GradientBound {
    /// The bound that follows from a plan and its `[train]` section.
    #[must_use]
    pub fn of(plan: &Plan, spec: &TrainSpec) -> Self {
        let max_norm = plan.clip_norm();
        match (spec.private.unwrap_or(true), spec.clipping.unwrap_or_default()) {
            (false, _) => Self::Off,
            (true, ClippingKind::Flat) => Self::Flat { max_norm },
            (true, ClippingKind::Automatic) => Self::Automatic { max_norm, stability: STABILITY },
            (true, ClippingKind::PerLayer) => Self::PerLayer { max_norm },
        }
    }
}
