//! Privacy-loss distributions: discretisation, composition, answers.

mod compose;
mod curve;
mod discretise;
mod lattice;
mod profile;
mod solver;
mod tilt;
mod window;

pub use profile::{Pld, Precision};
