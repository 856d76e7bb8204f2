//! Attention between tokens in grids, with relative positions, in which the queries are added to the output.
//!
//! What relative positions add to a score is the sum of one term for each axis. So a query has only as many terms as the axes have places
//! together. The terms are made before the scores, and in the backward pass the gradients of the scores are first added up to those of the
//! terms.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
mod relative;
mod terms;
