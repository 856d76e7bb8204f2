//! One plan, two readers: what a run does, and what it costs in privacy.
//!
//! A [`PlanSpec`] is what a user writes: a TOML file, flags, or both. [`Plan::check`] turns it into a [`Plan`], the checked
//! type that the accountant prices and the trainer executes, so that no rate, batch size or crop is written twice. The result
//! of pricing is a [`Certificate`].
//!
//! ```
//! use dapple_plan::{BracketPrecision, Plan, PlanSpec};
//!
//! # fn main() -> Result<(), dapple_plan::PlanError> {
//! let spec = PlanSpec::from_toml(
//!     r#"
//!     [privacy]
//!     delta = 1e-5
//!     noise_multiplier = 1.0
//!
//!     [region]
//!     patch = [10, 10]
//!
//!     [pipeline]
//!     image = [1000, 1000]
//!     crop = [100, 100]
//!
//!     [sampling]
//!     scheme = "poisson"
//!     batch = 100
//!     records = 3000
//!     epochs = 100
//!     "#,
//! )?;
//! let certificate = Plan::check(&spec)?.price(BracketPrecision::default())?;
//! assert!((certificate.epsilon.upper - 0.1920).abs() < 0.001);
//! # Ok(())
//! # }
//! ```
//!
//! The crate is pure: no files, clock, randomness, threads or environment. Comments cite papers by theorem numbers: the patch-level paper
//! (patch-level differential privacy by random crops), the masked paper, in formulas M (masked differential privacy), DP-Mix, and the
//! partitioning paper (randomness in model and data partitioning).

#![forbid(unsafe_code)]

mod certificate;
mod check;
mod error;
mod pricing;
pub mod ranges;
pub mod spec;
mod training;

pub use certificate::{
    AdaptiveClipFacts, Certificate, CertificateDocument, CertificatePhase, CorrelatedNoiseFacts,
    TradeOffPoint, wrapped,
};
pub use check::{
    Averaged, BatchLimit, ClipQuantile, ClipWindow, CorrelatedNoise, MaskedTokens, PixelNoise, Plan,
    Protected, PublicTokens, Relation, Sampling, Scheme, Seen, SizeBounds, Spatial, Split, masked,
};
pub use dapple_accounting::selection::Repetitions;
pub use dapple_accounting::{AllocationBound, Bracket, BracketPrecision, Pld, TradeOffCurve};
pub use dapple_geometry::{HeatMap, Mask};
pub use dapple_number as number;
pub use error::PlanError;
pub use pricing::{
    Advice, Advised, BalancedBound, Calibrated, ComposedRuns, PrivateChoice, ProfilePoint, Promise,
    RandomnessSource, Release, Rule, SolvedUnknown, SolvedValue, Trial, Unknown, advise, baseline, calibrate,
    calibrate_watched, compose, noise_in_what_is_learned, sweep,
};
pub use spec::PlanSpec;
pub use training::{
    AdapterPlan, ClassNumbers, ClipLayout, Conduct, DataLimits, DataPlan, EvaluationPlan, GradientBound,
    HeldOut, LearningRate, ListedSplit, Look, MAX_CLASSES, MapEvaluation, MaskedPlan, ModelPlan, Momentum,
    NtuSplit, OptimiserPlan, OptimiserRule, PerformancePlan, PoolPlan, ProgramScenes, RecordFiles,
    RecordOrigin, SessionChoice, SettingError, SmarthomeSplit, StoredFormat, SubmodelPlan, TargetKind,
    TrainedPart, TrainingPlan, UserFile, UserPlan, ViewPlan, WeightSource,
};
