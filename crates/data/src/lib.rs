//! Data sets and samplers, and the code that carries out the spatial pipeline of a plan.
//!
//! [`open`] turns the `[data]` section of a plan into data sets. A [`Sampler`] draws the records of each step as the accountant assumes,
//! and names the [`SamplingEvent`] that the accountant prices. [`Views`] carries out the pipeline that the geometry priced. A [`Loader`]
//! does all of this ahead of the trainer. Randomness comes from keys ([`keys`]) and from nowhere else: everything drawn is a function of
//! (key, step, record).
//!
//! Comments cite the patch-level paper (patch-level differential privacy by random crops) and the partitioning paper (randomness in model
//! and data partitioning).

// Input arrives here, and it may be anything.
#![warn(clippy::expect_used)]
#![forbid(unsafe_code)]

mod check;
pub mod clips;
mod csv;
mod dataset;
mod decoded;
mod error;
mod file;
pub mod formats;
mod inspect;
pub mod keys;
mod limits;
mod loader;
pub mod masks;
pub mod moving;
mod open;
mod pool;
mod sampler;
pub mod scenes;
pub mod segmentation;
mod split;
#[cfg(test)]
mod statistics;
pub mod street;
mod target;
pub mod uniform;
mod users;
mod views;
mod watched;

pub use chacha20::ChaCha20Rng;
pub use chacha20::rand_core;
pub use check::{check_pool, check_records, check_test};
pub use dapple_plan::{DataLimits, DataPlan, MAX_CLASSES, TargetKind, ViewPlan};
pub use dataset::{Dataset, Subset};
pub use decoded::{Image, Values};
pub use error::DataError;
pub use inspect::{Closeness, Inspection, inspect};
pub use keys::{MasterKey, Purpose, PurposeKey, StepKey};
pub use loader::{Labels, Loader, LoaderKeys, LoaderOptions, Microbatch, SampleShare};
pub use open::{Opened, fill_in, fill_in_from, left_to_data, open};
pub use pool::Pool;
pub use sampler::{Draw, Sampler, SamplerKeys, SamplingEvent, SubmodelLaw};
pub use split::{split, stratified_split};
pub use target::{IGNORED, LabelMap, MAX_MAP_CLASSES, Target, UNLABELLED};
pub use users::{Users, decode_users, read_users};
pub use views::{FixedParts, PartGrid, RecordPart, Views, Whole};
pub use watched::{ReadingObserver, WatchedRecords};
