//! What a certificate states beside its prices.

use dapple_plan::{Bracket, Relation, TargetKind, TrainingPlan, WeightSource};
use serde::{Deserialize, Serialize};

use crate::ledger::History;

/// Epsilon of a run with a whole record substituted, beside that of the region that its plan protects.
///
/// # Guarantee
/// The run is (upper end, delta)-private under this relation, by the same steps, noise and sampling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecordLevel {
    /// What is substituted.
    pub relation: Relation,
    /// Epsilon of the steps that count as taken; none before the first, and where it is too large to be told.
    pub spent: Option<Bracket>,
    /// Epsilon of the whole plan; none where it is too large to be told.
    pub planned: Option<Bracket>,
}

/// What the guarantee says of labels.
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
    /// What a plan says of the labels of its data.
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
    /// A file that the plan names. That it tells nothing about the records is the claim of whoever wrote the plan.
    File,
    /// The model's own rule, from a seed in the plan.
    Initialisation,
}

/// The weights that a run began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstWeights {
    /// SHA-256 of their values, each in four bytes, the lowest first.
    pub sha256: String,
    /// Where they come from.
    pub origin: Origin,
    /// That they are public is assumed, not checked.
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
/// Beside the clip norm, a record moves a sum by at most `rho` clip norms. Clipping bounds the very numbers that are added, and they are whole
/// multiples of one unit, which add up without rounding. What rounding to whole multiples moves, and what a projection of standardised
/// filters rounds of the whole sum, is taken off the clip norm beforehand; so `rho` is zero.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rounding {
    /// In clip norms. The price is that of a sensitivity of `C (1 + rho)`.
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
    /// By the machines that computed.
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
