//! The page of a run, and the pictures on it, made from what the run has released.
//!
//! [`RunPage::of`] reads the plan, the certificate and the evaluations of a run, and for its pictures public images of its test set. Of what
//! lies in the folder `private` of a run, only the name of a budget is read.

#![forbid(unsafe_code)]
// Input arrives here, and it may be anything.
#![warn(clippy::expect_used)]

mod crops;
mod error;
mod figures;
pub mod label_pictures;
mod paths;
mod promise;
mod quality;
mod run;
mod scenes;
mod test_images;

pub use crops::crop_of;
pub use error::PageError;
pub use paths::without_folders;
pub use promise::level_words;
pub use run::{RunFigure, RunPage};
