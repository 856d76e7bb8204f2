//! Turns a checked plan into its privacy loss, and answers everything that follows: prices, profiles, searches, sums of runs.

mod advise;
pub mod baseline;
mod calibrate;
mod choice;
mod composition;
pub(crate) mod loss;
mod part;
mod price;
mod profile;
mod promise;
mod settle;
mod substituted;
pub mod sweep;
pub(crate) mod theorem;
mod worth;

pub use advise::{Advice, Advised, advise, noise_in_what_is_learned};
pub use calibrate::{Calibrated, SolvedUnknown, SolvedValue, Trial, Unknown, calibrate, calibrate_watched};
pub use choice::PrivateChoice;
pub use composition::{ComposedRuns, Release, Rule, compose};
pub use loss::BalancedBound;
pub use profile::ProfilePoint;
pub use promise::Promise;
pub use worth::RandomnessSource;
