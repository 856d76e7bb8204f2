//! The figures and tables of the patch-level paper (P) that train: Figures 5 and 13 and Table 1. The others only price.

mod fig13;
mod fig5;
mod single_crop;
mod table1;
mod trade_off;

use std::path::Path;

use crate::error::{ReproduceError, Result};
use crate::registry::RegisteredReproduction;

/// Everything that trains.
pub(crate) fn all() -> [RegisteredReproduction; 3] {
    [
        RegisteredReproduction::new(fig5::FIGURE),
        RegisteredReproduction::new(fig13::FIGURE),
        RegisteredReproduction::new(table1::Digits),
    ]
}

/// The folder behind `--data`, refused where there is none.
fn existing(data: &Path) -> Result<&Path> {
    if data.is_dir() {
        return Ok(data);
    }
    Err(ReproduceError::request(
        format!("--data: there is no folder {}", data.display()),
        "give the folder that holds the data",
    ))
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}
