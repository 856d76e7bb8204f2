//! How long gradients were before they were clipped, for whoever may see the records.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::error::TrainError;
use crate::files::Access;
use crate::lines::{Lines, json_line};

/// Bins of the histogram for each doubling of the norm.
const BINS_A_DOUBLING: f64 = 4.0;

/// What the first line of the file says.
const WARNING: &str = "Straight from the private records and covered by no guarantee: show this to nobody who may not see them.";

/// A file with a histogram of gradient norms for each step. Bin `b` counts norms from `2^(b / 4)` to `2^((b + 1) / 4)`. If steps are taken
/// again with the same seed, so are their lines, and the last one counts.
#[derive(Debug)]
pub(crate) struct NormHistograms {
    lines: Lines,
}

impl NormHistograms {
    /// Opens the file, or begins it with a line that says what it is.
    pub(crate) fn open(path: &Path) -> Result<Self, TrainError> {
        #[derive(Serialize)]
        struct NormsHeading {
            private: &'static str,
            bins_a_doubling: f64,
        }
        let mut lines = Lines::open(path, Access::Owner)?;
        if lines.is_empty() {
            lines.add(&json_line(&NormsHeading { private: WARNING, bins_a_doubling: BINS_A_DOUBLING }))?;
        }
        Ok(Self { lines })
    }

    /// Adds the norms of a step's contributions.
    pub(crate) fn add(&mut self, step: u64, norms: &[f32]) -> Result<(), TrainError> {
        #[derive(Serialize)]
        struct NormHistogram {
            step: u64,
            zero: u64,
            not_finite: u64,
            bins: BTreeMap<i32, u64>,
        }
        let mut histogram = NormHistogram { step, zero: 0, not_finite: 0, bins: BTreeMap::new() };
        for &norm in norms {
            match norm {
                0.0 => histogram.zero += 1,
                norm if norm.is_finite() => *histogram.bins.entry(bin(norm)).or_default() += 1,
                _ => histogram.not_finite += 1,
            }
        }
        self.lines.add(&json_line(&histogram))
    }
}

fn bin(norm: f32) -> i32 {
    (f64::from(norm).log2() * BINS_A_DOUBLING).floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_quarters_of_a_doubling() {
        for (norm, expected) in
            [(1.0, 0), (1.18, 0), (1.2, 1), (2.0, 4), (0.99, -1), (f32::MIN_POSITIVE, -504)]
        {
            assert_eq!(bin(norm), expected, "{norm}");
        }
    }

    #[test]
    fn a_file_says_what_it_is_once_and_counts_every_norm() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("norms.jsonl");
        NormHistograms::open(&path).unwrap().add(1, &[1.0, 1.1, 3.0, 0.0]).unwrap();
        NormHistograms::open(&path).unwrap().add(2, &[f32::INFINITY, f32::NAN]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("covered by no guarantee"));
        let counts = [
            r#"{"step":1,"zero":1,"not_finite":0,"bins":{"0":2,"6":1}}"#,
            r#"{"step":2,"zero":0,"not_finite":2,"bins":{}}"#,
        ];
        assert_eq!(lines[1..], counts);
    }
}
