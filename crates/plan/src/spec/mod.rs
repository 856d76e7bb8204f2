//! What a user writes: an unchecked plan, with every value optional.

mod device;
pub mod keys;
mod layers;
mod performance;
mod text;
mod training;
mod values;

use serde::{Deserialize, Serialize};

use crate::check::hash;
use crate::{Relation, Scheme};

pub use device::{CardList, DeviceChoice, NoSuchDevice};
pub use performance::{FactorPrecision, Performance};
pub use training::{
    ClippingKind, DataFormat, DataSpec, EvaluationKind, ModelSpec, NormSpec, OptimiserKind, OptimiserSpec,
    ScheduleKind, TrainSpec,
};
pub use values::{Delta, Interval, Pixels};

/// An unchecked plan. Sections are split by meaning: those down to `masked`, and the phases, may change what is guaranteed; `data`,
/// `model`, `optimiser` and `train` say what is trained; `performance` changes nothing but speed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanSpec {
    /// What is guaranteed, and the noise that does it.
    #[serde(skip_serializing_if = "is_default")]
    pub privacy: Privacy,
    /// What is protected within an image.
    #[serde(skip_serializing_if = "is_default")]
    pub region: RegionSpec,
    /// The way of an image to the model.
    #[serde(skip_serializing_if = "is_default")]
    pub pipeline: PipelineSpec,
    /// What DP-Mix adds to the views of a record.
    #[serde(skip_serializing_if = "is_default")]
    pub mix: MixSpec,
    /// Which records a step sees, and how many steps there are.
    #[serde(skip_serializing_if = "is_default")]
    pub sampling: SamplingSpec,
    /// Which parts of the model a record updates.
    #[serde(skip_serializing_if = "is_default")]
    pub partition: Partition,
    /// What the `masked` relation needs.
    #[serde(skip_serializing_if = "is_default")]
    pub masked: Masked,
    /// Where the records come from.
    #[serde(skip_serializing_if = "is_default")]
    pub data: DataSpec,
    /// What is trained.
    #[serde(skip_serializing_if = "is_default")]
    pub model: ModelSpec,
    /// What happens to the noisy gradient.
    #[serde(skip_serializing_if = "is_default")]
    pub optimiser: OptimiserSpec,
    /// How the run is carried out.
    #[serde(skip_serializing_if = "is_default")]
    pub train: TrainSpec,
    /// What only changes speed and memory.
    #[serde(skip_serializing_if = "is_default")]
    pub performance: Performance,
    /// Parts of the run, in order; each changes some values of the sections above.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseSpec>,
}

/// `[[phases]]`: what a part of the run does differently. What it leaves out is as in the sections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseSpec {
    /// Passes over the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Records a step, in expectation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Standard deviation of the noise, in clip norms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_multiplier: Option<f64>,
    /// A crop of fixed size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<Pixels>,
    /// Views of a record averaged before clipping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub views: Option<u32>,
}

impl PlanSpec {
    /// The plan of one phase by itself.
    #[must_use]
    pub fn in_phase(&self, phase: &PhaseSpec) -> Self {
        let mut spec = Self { phases: Vec::new(), ..self.clone() };
        if phase.epochs.is_some() || phase.steps.is_some() {
            (spec.sampling.epochs, spec.sampling.steps) = (phase.epochs, phase.steps);
        }
        if phase.crop.is_some() {
            spec.pipeline.crop = phase.crop;
            (spec.pipeline.crop_scale, spec.pipeline.crop_ratio) = (None, None);
        }
        spec.sampling.batch = phase.batch.or(spec.sampling.batch);
        spec.privacy.noise_multiplier = phase.noise_multiplier.or(spec.privacy.noise_multiplier);
        spec.pipeline.views = phase.views.or(spec.pipeline.views);
        spec
    }

    /// The neighbouring relation: the one given, or `patch` where a region is and else `add-remove`.
    #[must_use]
    pub fn relation(&self) -> Relation {
        let RegionSpec { patch, circle, mask, .. } = &self.region;
        let region = patch.is_some() || circle.is_some() || mask.is_some();
        self.privacy.relation.unwrap_or(if region { Relation::Patch } else { Relation::AddRemove })
    }

    /// SHA-256, in hexadecimal digits, of everything written but `[performance]`: two specs with the same digest ask for the same
    /// run. Stricter than [`crate::Plan::hash`], which two runs of the same guarantee share.
    #[must_use]
    pub fn digest(&self) -> String {
        let spec = Self { performance: Performance::default(), ..self.clone() };
        hash::digest(spec.to_toml().as_bytes())
    }
}

fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}

/// `[privacy]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Privacy {
    /// The neighbouring relation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<Relation>,
    /// The probability with which the guarantee may fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<Delta>,
    /// The epsilon to reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Standard deviation of the noise on the sum of clipped gradients, in clip norms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise_multiplier: Option<f64>,
    /// The clip norm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_grad_norm: Option<f64>,
    /// Records averaged and clipped together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records_per_clip: Option<u64>,
    /// Which accountant answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accountant: Option<Accountant>,
}

/// Which accountant answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accountant {
    /// Privacy-loss distributions: tight, with a certified bracket.
    #[default]
    Pld,
    /// Rényi divergences: an upper bound only, as a second opinion.
    Rdp,
}

impl Accountant {
    /// Both accountants.
    pub const ALL: [Self; 2] = [Self::Pld, Self::Rdp];

    /// The name in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pld => "pld",
            Self::Rdp => "rdp",
        }
    }
}

/// `[region]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RegionSpec {
    /// A rectangle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<Pixels>,
    /// A disc of this radius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circle: Option<f64>,
    /// A picture in which white is private.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// Where the region may lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementSpec>,
}

/// Where the region may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlacementSpec {
    /// The worst of all places.
    Anywhere,
    /// Where the mask says.
    Annotated,
}

/// `[pipeline]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PipelineSpec {
    /// Size of the original image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Pixels>,
    /// Operations on the whole image before padding and crop, e.g. `"resize 512x256 bilinear"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Vec<String>>,
    /// Padding right before the crop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad: Option<Pixels>,
    /// What the padding shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad_mode: Option<PadModeSpec>,
    /// A crop of fixed size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<Pixels>,
    /// Share of the area of a random resized crop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop_scale: Option<Interval>,
    /// Width over height of a random resized crop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop_ratio: Option<Interval>,
    /// Views of a record averaged before clipping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub views: Option<u32>,
}

/// `[mix]`: `K_self` and `K_diff` of DP-Mix; `K_base` is `pipeline.views`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MixSpec {
    /// Mixtures of two of a record's own views and synthetic images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_mix: Option<u32>,
    /// Synthetic images beside each record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthetic: Option<u32>,
}

/// What the padding shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PadModeSpec {
    /// A constant.
    Zero,
    /// The image mirrored about its edge pixel.
    Reflect,
    /// The edge pixel repeated.
    Replicate,
    /// The opposite side.
    Wrap,
}

/// `[sampling]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SamplingSpec {
    /// How records are drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Scheme>,
    /// Records a step, in expectation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Records in the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Steps each record joins, for `balanced`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_record: Option<u64>,
    /// Passes over the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    /// Steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

/// `[partition]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Partition {
    /// Number of submodels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submodels: Option<u32>,
    /// Ways to split the model, of which each record draws one: `[submodels, probability]` each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixture: Option<Vec<PartitionShare>>,
    /// Share of the parameters that is split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_fraction: Option<f64>,
    /// Dropout rate that splits the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Clip norm of the split part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_norm: Option<f64>,
    /// Clip norm of the other part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonsplit_norm: Option<f64>,
}

/// A way to split the model: its number of submodels, and the probability with which a record draws it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartitionShare(pub u32, pub f64);

/// `[masked]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Masked {
    /// Where the gradient of the public tokens comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_gradient: Option<PublicGradient>,
    /// Clip norm of a record's public gradient, in private clip norms, for `coupled-clipped`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_clip: Option<f64>,
}

/// Where the gradient of the public tokens comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublicGradient {
    /// An independently drawn batch.
    Decoupled,
    /// The same records, clipped as well.
    CoupledClipped,
    /// The same records, not clipped.
    Coupled,
}

impl PublicGradient {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Decoupled, Self::CoupledClipped, Self::Coupled];

    /// The name in files and flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Decoupled => "decoupled",
            Self::CoupledClipped => "coupled-clipped",
            Self::Coupled => "coupled",
        }
    }
}
