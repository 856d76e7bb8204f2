//! Reordered axes.
//!
//! It only moves values.

mod cpu;
mod reference;
