//! Privacy-loss distributions with certified brackets, Rényi accounting, and calibration.

#![forbid(unsafe_code)]

pub mod baselines;
mod bracket;
pub mod calibrate;
mod error;
pub mod limits;
mod numerics;
mod pair;
mod pld;
pub mod rdp;

pub use bracket::Bracket;
pub use error::{AccountingError, Result};
pub use pair::{Distances, Participation, Substitution};
pub use pld::{Pld, Precision};
