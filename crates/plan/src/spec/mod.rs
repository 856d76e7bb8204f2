//! What a user writes: an unchecked plan, with every value optional.
//!
//! A key is declared in one place, its section; see `declare`.

mod data;
mod declare;
mod device;
mod image;
pub(crate) mod key;
pub mod keys;
mod layers;
mod model;
mod noise;
mod optimiser;
mod partition;
mod performance;
mod phase;
mod privacy;
pub mod reference;
mod sampling;
mod text;
mod train;
mod user;
mod values;

use crate::Relation;
use crate::check::hash;

pub use data::{DataFormat, DataSpec, PrivateThing, SplitChoice};
use declare::plan;
pub(crate) use declare::words;
pub use device::{CardList, DeviceChoice, NoSuchDevice};
pub use image::{Allowance, MixSpec, PadModeSpec, PipelineSpec, PlacementSpec, RegionSpec};
pub use model::{ModelSpec, NormSpec, PoolingSpec, TuneSpec};
pub use noise::{Bands, CoefficientKind, NoiseMeasure, NoiseSpec};
pub use optimiser::{OptimiserKind, OptimiserSpec, ScheduleKind};
pub use partition::{
    Masked, MaskedContent, MaskedPass, PartitionShare, PartitionSpec, PredictionModel, PublicGradient,
};
pub use performance::{FactorPrecision, Performance, ProgressKind};
pub use phase::PhaseSpec;
pub use privacy::{Accountant, Privacy};
pub use sampling::SamplingSpec;
pub use train::{ClassMeasure, ClippingKind, EvaluationKind, TrainSpec};
pub use user::UserSpec;
pub use values::{Delta, Interval, Pixels, SizeRange};

plan! {
    /// An unchecked plan. Sections are split by meaning: those down to `masked`, and the phases, may change what is guaranteed; `data`,
    /// `model`, `optimiser`, `user` and `train` say what is trained; `performance` changes nothing but speed and memory.
    pub struct PlanSpec {
        privacy: Privacy = "what is guaranteed, and the noise that does it";
        region: RegionSpec = "what is protected within an image";
        pipeline: PipelineSpec = "the way of an image to the model";
        mix: MixSpec = "what DP-Mix adds to the views of a record";
        sampling: SamplingSpec = "which records a step sees, and how many steps there are";
        noise: NoiseSpec = "how the noise of different steps belongs together";
        partition: PartitionSpec = "which parts of the model a record updates";
        masked: Masked = "what the `masked` relation needs";
        data: DataSpec = "where the records come from";
        model: ModelSpec = "what is trained";
        optimiser: OptimiserSpec = "what happens to the noisy gradient";
        user: UserSpec = "how a user trains in a round, for the `user` relation";
        train: TrainSpec = "how the run is carried out";
        performance: Performance = "what only changes speed and memory";
        ..
        /// Parts of the run, in order. Each changes some values of the sections above.
        pub phases: Vec<PhaseSpec>,
    }
}

impl PlanSpec {
    /// The neighbouring relation: the one given, or else `patch` if a region is given and `add-remove` if none is.
    #[must_use]
    pub fn relation(&self) -> Relation {
        let RegionSpec { patch, circle, mask, .. } = &self.region;
        let region = patch.is_some() || circle.is_some() || mask.is_some();
        self.privacy.relation.unwrap_or(if region { Relation::Patch } else { Relation::AddRemove })
    }

    /// SHA-256, in hexadecimal digits, of everything written except `[performance]`. Two specs with the same digest ask for the same run.
    /// It is stricter than [`crate::Plan::hash`], which all runs with the same guarantee share.
    #[must_use]
    pub fn digest(&self) -> String {
        let spec = Self { performance: Performance::default(), ..self.clone() };
        hash::digest(spec.to_toml().as_bytes())
    }
}

fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}

#[cfg(test)]
mod tests;
