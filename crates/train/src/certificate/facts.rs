//! Facts that a certificate states beside its prices.

use dapple_plan::{Bracket, Relation, TargetKind, TrainingPlan, WeightSource};
use serde::{Deserialize, Serialize};

use crate::ledger::History;

/// Epsilon of a run if a whole record is substituted, beside that of the region that its plan protects.
///
/// # Guarantee
/// The run is (upper end, delta)-private under this relation, by the same steps, noise and sampling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecordLevel {
    /// What is substituted.
    pub relation: Relation,
    /// Epsilon of the steps that count as taken; `None` before the first step, or if it is too large to report.
    pub spent: Option<Bracket>,
    /// Epsilon of the whole plan; `None` if it is too large to report.
    pub planned: Option<Bracket>,
}

/// What the guarantee says about labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelStatus {
    /// An image has one class, which is taken as public: a region of the image is protected, its class is not.
    ClassPublic,
    /// An image has one class, which is protected with the rest of its record.
    ClassProtected,
    /// Every pixel has a class, which is protected where the pixel is.
    PixelsProtected,
}

impl LabelStatus {
    /// What the guarantee of a plan says about the labels of its data.
    pub(super) fn of(training: &TrainingPlan) -> Option<Self> {
        Some(match (training.data.origin.targets()?, training.privacy.relation()) {
            (TargetKind::LabelMap, _) => Self::PixelsProtected,
            (TargetKind::Class, Relation::Patch | Relation::Masked) => Self::ClassPublic,
            (TargetKind::Class, Relation::AddRemove | Relation::Replace | Relation::User) => {
                Self::ClassProtected
            }
        })
    }
}

/// Where the first weights come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// A file that the plan names. Whoever wrote the plan claims that it tells nothing about the records.
    File,
    /// The model's own rule, from a seed in the plan.
    Initialisation,
}

/// The weights that a run began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstWeights {
    /// SHA-256 of their values, each as four bytes in little-endian order.
    pub sha256: String,
    /// Where they come from.
    pub origin: Origin,
    /// Whether it is assumed, and not checked, that they are public.
    pub assumed_public: bool,
}

impl FirstWeights {
    pub(super) fn of(training: &TrainingPlan, history: &History) -> Self {
        let origin = match training.model.first_weights {
            WeightSource::File(_) | WeightSource::Backbone(_) => Origin::File,
            WeightSource::Seed => Origin::Initialisation,
        };
        Self { sha256: history.start().weights.clone(), origin, assumed_public: true }
    }
}

/// What rounding adds to the distance between the sums of two neighbours.
///
/// # Guarantee
/// Beside the clip norm, a record moves a sum by at most `rho` clip norms. Clipping bounds the very numbers that are added, and these are
/// whole multiples of one unit, which add up without rounding. What rounding to whole multiples moves, and what a projection of
/// standardised filters rounds in the whole sum, is taken off the clip norm beforehand. So `rho` is zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rounding {
    /// The bound in clip norms. The price is that of a sensitivity of `C (1 + rho)`.
    pub rho: f64,
    /// How this is known.
    pub known: Known,
    /// What it rests on, in words.
    pub because: String,
}

/// How something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// It follows from how the program computes.
    Proved,
    /// It follows from what libraries or a device are assumed to do, which was measured.
    Assumed,
}

impl Rounding {
    /// What is known of rounding on the machines that computed the run.
    pub(super) fn of(history: &History) -> Self {
        let gpu = history.machines().iter().any(|used| used.machine.starts_with("cuda"));
        let (known, because) = match gpu {
            false => (
                Known::Proved,
                "norms bound the very numbers that are added, and whole numbers add up without rounding",
            ),
            true => (
                Known::Assumed,
                "as on a processor, and the GPU's libraries are assumed to give a record's gradient the same bits whatever records \
                 share its batch, and its tensor cores to err no more than was measured",
            ),
        };
        Self { rho: 0.0, known, because: because.to_owned() }
    }
}
