//! The sample, where it enters the graph.
//!
//! It has no gradient.

mod cpu;
mod reference;
