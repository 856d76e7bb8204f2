//! Softmax along the last axis.
//!
//! The way back reads what came out, not what went in.

mod reference;

pub(crate) use reference::{softmax, softmax_backward};
