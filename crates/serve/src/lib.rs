//! A page in the browser over one plan: what it costs, and what each choice in it is worth.
//!
//! The page is served on this machine alone. It holds no number of its own: every figure that it shows was answered by the accountant.

mod answer;
mod asked;
mod coverage;
mod curve;
mod error;
mod guard;
mod http;

pub use asked::Explorer;
pub use error::ServeError;
pub use http::{ServerAddress, serve};
