//! Private training: carries out a plan step by step and records what it spends.
//!
//! [`start`] trains by a plan and leaves a run folder. [`resume`] goes on after a stop or a crash. [`certify`] tells from the ledger what
//! was spent, [`verify`] tells whether a folder is truthful, and [`evaluate`] tells how good the model is. `docs/training.md` describes
//! the step, the noise, the ledger and the folder.
//!
//! ```
//! use dapple_plan::PlanSpec;
//! use dapple_train::{Request, Silent, start};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = PlanSpec::from_toml(
//!     r#"
//!     [data]
//!     format = "fashion-scenes"
//!     size = "16x16"
//!     [model]
//!     name = "linear"
//!     [optimiser]
//!     learning_rate = 1.0
//!     [privacy]
//!     epsilon = 4.0
//!     delta = "1/n"
//!     [sampling]
//!     batch = 64
//!     steps = 3
//!     "#,
//! )?;
//! let folder = std::env::temp_dir().join(format!("dapple-train-example-{}", std::process::id()));
//! let request = Request { spec, base: ".".into(), masks: Vec::new() };
//! let outcome = start(&request, &folder, &mut Silent)?;
//! assert!(outcome.certificate.spent.is_some_and(|spent| spent.epsilon.upper <= 4.0));
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! The crate prints nothing: an [`Observer`] listens to a run and may end it.

#![forbid(unsafe_code)]

mod budget;
mod certificate;
mod checkpoint;
mod choice;
mod description;
mod device;
mod digest;
mod error;
mod evaluation;
mod features;
mod federated;
mod files;
mod folder;
mod inference;
mod ledger;
mod lines;
mod masked;
mod measure;
mod model;
mod norms;
mod observer;
mod optimiser;
mod pace;
mod predictor;
mod prepare;
mod ranks;
#[doc(hidden)]
pub mod readers;
mod recover;
mod released;
mod results;
mod run;
mod split;
mod step;
mod stop;
mod tensorboard;
mod terms;
mod verify;
mod witness;

// Tests of single modules share helpers with the tests of the whole crate.
#[cfg(test)]
extern crate self as dapple_train;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod test_data;

pub use budget::{
    BudgetError, BudgetStatement, CountedStatement, Within, add_run, budget_of_run, budgets, state_total,
};
pub use certificate::{
    FirstWeights, Known, LabelStatus, Origin, RecordLevel, Rounding, RunCertificate, Status, Warning,
};
pub use choice::{ChoiceCertificate, choose_price, draw, reserve_choice};
pub use dapple_data as data;
pub use dapple_graph::zoo::LibraryNames;
pub use dapple_mpi::{Launch, MpiError, World};
pub use dapple_onnx::OnnxError;
pub use dapple_plan::Look;
pub use dapple_private::StepError;
pub use description::{Answers, ClassDescription, ModelDescription};
pub use error::TrainError;
pub use evaluation::{Evaluation, Measure, Overlap, Score};
pub use features::FeatureShelf;
pub use federated::{
    ClientSteps, FederatedCertificate, FederatedError, FederatedModel, FederatedRun, LocalTrainer,
    certify_federated,
};
pub use ledger::{History, Ledger, LedgerEntry, LedgerError, Start, UsedMachine};
pub use measure::{FeatureExtractor, FeatureSet, KernelDistance, frechet_distance, kernel_distance};
pub use model::{ModelFacts, models};
pub use observer::{Event, Observer, Silent, StepReport};
pub use optimiser::optimiser_settings;
pub use predictor::{Prediction, Predictor};
pub use prepare::Request;
pub use ranks::RankGroup;
pub use released::ReleasedModel;
pub use results::{
    EvaluationLine, SpendingPoint, evaluations, is_held, plan_of_run, request_of_run, spending, steps_lost,
};
pub use run::{
    Completed, Estimate, Readiness, Rehearsal, RunOutcome, certify, check, complete,
    complete_without_records, estimate, evaluate, evaluate_watched, evaluate_with, follow, resume,
    resume_among, resume_beside, resume_with, resume_within, start, start_among, start_beside, start_within,
};
pub use stop::ask_to_stop;
pub use verify::{Verdict, verify};
