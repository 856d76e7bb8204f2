//! Privacy-loss distributions: discretisation, composition, answers.

mod closed;
mod compose;
mod curve;
mod discretise;
mod exact;
mod given;
mod lattice;
mod profile;
mod solver;
mod strips;
mod tilt;
mod trade_off;
mod window;

pub use given::GivenLosses;
pub use profile::{BracketPrecision, Pld};
pub use trade_off::TradeOffCurve;
