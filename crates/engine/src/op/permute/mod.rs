//! Reordered axes.
//!
//! It only moves values.

mod reference;
