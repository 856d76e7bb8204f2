//! Several processes that work on one thing, on one machine or on many, by whatever MPI is installed.
//!
//! Nothing of MPI is needed to build. A process that was started by a launcher ([`Launch`]: `mpirun`, `mpiexec`, `srun --mpi=pmix`) loads the
//! library that belongs to it when it joins its [`World`]; every other process never looks for one. One binary drives Open MPI, MPICH and what
//! is compatible with it, and libraries of the standard's own binary interface (MPI 5).
//!
//! # A failure is everybody's
//! Ranks that wait for one which died would wait for ever. So every wait here has an end: beyond the patience of a world, and after any error of
//! the library, the failure is told and **all ranks are ended**. Calls of a [`World`] therefore return what they promise, or not at all.

#[allow(unsafe_code, reason = "calls into a library that is loaded at run time")]
mod calls;
mod error;
mod launch;
mod library;
mod link;
mod patience;
mod threads;
mod world;

pub use error::MpiError;
pub use launch::{Launch, MpiFamily};
pub use world::World;
