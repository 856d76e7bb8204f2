//! A page in the browser: what a plan costs and what each choice in it is worth, and the runs that train by it.
//!
//! The page is served on this machine alone. It holds no number of its own: every figure that it shows was answered by the accountant, or
//! released by a run.

mod answer;
mod asked;
mod coverage;
mod curve;
mod error;
mod guard;
mod http;
mod run_routes;
mod runs;

pub use asked::Explorer;
pub use error::ServeError;
pub use http::{ServerAddress, serve};
pub use runs::{RunDesk, RunSettings};
