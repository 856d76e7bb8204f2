//! Attention of tokens in grids, with relative positions and the queries added to what they find.
//!
//! What a query receives for a key's place is a sum of one term an axis, so that all terms of a query are as many as the places along
//! the axes together: they are made before the scores, and on the way back the scores' gradients are first added up to theirs.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod reference;
mod relative;
mod terms;
