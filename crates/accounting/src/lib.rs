//! Privacy-loss distributions with certified brackets, Rényi accounting, and calibration.

#![forbid(unsafe_code)]

mod bracket;
mod error;
pub mod limits;
mod numerics;
mod pair;
mod pld;

pub use bracket::Bracket;
pub use error::{AccountingError, Result};
pub use pair::{Distances, Participation, Substitution};
pub use pld::{Pld, Precision};
