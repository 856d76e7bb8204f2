//! Every reader of files as a function of bytes, with valid files to begin from and ways to damage them.
//!
//! `tests/readers.rs` runs all of them: a few thousand damaged files each in every test run, or as many as `DAPPLE_FUZZ` says. The
//! folder `fuzz` beside the crates gives the same functions to a fuzzer that looks for new paths through the program.

#![forbid(unsafe_code)]

mod corpus;
mod damage;
mod readers;

pub use damage::Damage;
pub use readers::{READERS, Reader, Refusal};
