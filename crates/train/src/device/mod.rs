//! Where a run computes.

mod executor;

pub(crate) use executor::Executor;
