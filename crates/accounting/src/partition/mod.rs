//! Partitioned models and data: a record's gradient lands in one of many places, hidden by the noise of all of them.
//!
//! Splitting a model into `d` disjoint submodels, dropping half of the nodes, and spreading a record's `k` appearances over
//! `T` steps all come down to one pair: `P = (1/d) sum_j N(e_j / sigma)` against `Q = N(0)`. The partitioning paper (D) bounds its
//! Rényi divergences; here it becomes a privacy-loss distribution that composes and can be sampled.

mod allocation;
mod law;
mod lognormal;
mod ratio;
pub mod rdp;
mod split;

pub use allocation::{AllocationAnswer, AllocationBound, RandomAllocation};
pub(crate) use ratio::Ratio;
pub use split::Partition;
