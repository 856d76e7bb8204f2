//! What papers show, computed again under their settings and beside what is certified here.
//!
//! A [`Reproduction`] is a figure or a table of a paper: what it shows, how it is computed, what the paper says about it, how it is
//! drawn. The [`registry()`] holds all of them, and each becomes an [`Outcome`] in the same way: numbers for machines, a digest for
//! people, the paper's statements beside what came out, a figure and notes.
//!
//! Those that train are made of [`experiment`]: several runs in one folder, compared over budgets and seeds.

#![forbid(unsafe_code)]

mod claim;
mod error;
pub mod experiment;
mod grid;
mod mask;
mod mix;
mod options;
mod outcome;
mod paper;
mod partition;
mod patch;
mod registry;
mod reproduction;
mod trained;
mod watch;

pub use claim::{Claim, ClaimVerdict, Finding};
pub use error::ReproduceError;
pub use options::ReproductionOptions;
pub use outcome::{Digest, Outcome};
pub use paper::Paper;
pub use registry::{RegisteredReproduction, find, registry};
pub use reproduction::{CatalogueEntry, Reproduction, ReproductionKind};
pub use watch::Watch;
