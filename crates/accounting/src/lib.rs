//! Privacy-loss distributions with certified brackets, Rényi accounting, and calibration.
//!
//! A [`Pld`] is the privacy-loss distribution of a mechanism: made from one step, composed, and asked for epsilon, delta or a
//! whole profile. Each answer is a [`Bracket`]; its upper end is a guarantee.
//!
//! ```
//! use dapple_accounting::{BracketPrecision, Distances, Participation, Pld, Substitution};
//!
//! // Poisson sampling at rate g; a crop sees the private patch with probability c. An absent record contributes nothing,
//! // a present one at most the clip norm, so the distances are 1, 2 and 2.
//! let (g, c) = (100.0 / 3000.0, 0.014_635_360_143_680_533);
//! let participation = Participation { absent: 1.0 - g, unaffected: g * (1.0 - c), affected: g * c };
//! let distances = Distances { absent: 1.0, unaffected: 2.0, affected: 2.0 };
//! let step = Pld::substitution(Substitution::new(participation, distances, 1.0)?);
//! let epsilon = step.self_compose(3000).epsilon(1e-5, BracketPrecision::default())?;
//! assert!(epsilon.least() < 0.19186 && 0.19186 < epsilon.upper);
//! # Ok::<(), dapple_accounting::AccountingError>(())
//! ```
//!
//! The crate is pure: no files, clock, randomness or threads.

#![forbid(unsafe_code)]

pub mod banded;
pub mod baselines;
mod bracket;
pub mod calibrate;
mod error;
pub mod limits;
mod numerics;
mod pair;
pub mod partition;
mod pld;
pub mod rdp;
pub mod search;
pub mod selection;
mod work;

pub use bracket::Bracket;
pub use error::{AccountingError, Result};
pub use pair::{Distances, Participation, Substitution};
pub use partition::{AllocationAnswer, AllocationBound, Partition, RandomAllocation};
pub use pld::{BracketPrecision, GivenLosses, Pld, TradeOffCurve};
pub use work::{Effort, Work};

/// The README's examples are tests of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
