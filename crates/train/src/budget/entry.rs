//! The lines of a budget.

use dapple_geometry::{Mask, Size};
use dapple_plan::{Promise, Repetitions};
use serde::{Deserialize, Serialize};

use crate::ledger::chain;

/// What a budget is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Open {
    /// The version of the file format.
    pub(super) format: u32,
    /// The key that hides the fingerprint of the records, in hexadecimal digits.
    pub(super) key: String,
    /// The fingerprint under the key.
    pub(super) data: String,
    pub(super) records: u64,
    /// The neighbours that every run is priced for, which are those of the first run.
    pub(super) promise: Promise,
    /// The masks that its region names.
    pub(super) masks: Vec<Runs>,
    /// The delta that everything is priced at.
    pub(super) delta: f64,
}

/// A plan as it was reserved: everything that is needed to price it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reserved {
    /// The completed plan, in TOML.
    pub(super) spec: String,
    /// The masks that its region names.
    pub(super) masks: Vec<Runs>,
    /// The hash of the plan.
    pub(super) plan: String,
    /// Whether every random number follows from a seed.
    pub(super) seeded: bool,
}

/// One line of a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum BudgetEntry {
    /// The first line.
    Open(Open),
    /// The most that all entries together may cost from here on.
    Total { epsilon: f64 },
    /// A run may begin, or a copy of one may go its own way. Its whole plan counts.
    Run { run: String, copy: bool, reserved: Reserved },
    /// A run goes on. Its whole plan counts again.
    Again { entry: String },
    /// A process has ended its part of a run in order: this many steps are spent, by a ledger that ended with this line.
    Settled { entry: String, steps: u64, lines: usize, head: String },
    /// Of several runs the best one is released, and nothing about the others.
    Choice { candidates: Vec<Reserved>, law: StoredLaw },
}

impl BudgetEntry {
    /// The line after one with the hash `previous`, with its own hash.
    pub(super) fn to_line(&self, previous: &str) -> (String, String) {
        // Every entry has a JSON form.
        chain::line(&serde_json::to_string(self).expect("numbers, words and lists of them"), previous)
    }
}

/// A law of repetitions as its parameters. A truncated negative binomial law has a shape, a Poisson law has none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredLaw {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shape: Option<f64>,
    /// `gamma`, or the mean of a Poisson law.
    parameter: f64,
}

impl From<Repetitions> for StoredLaw {
    fn from(law: Repetitions) -> Self {
        match law {
            Repetitions::NegativeBinomial { shape, gamma } => Self { shape: Some(shape), parameter: gamma },
            Repetitions::Poisson { mean } => Self { shape: None, parameter: mean },
        }
    }
}

impl From<StoredLaw> for Repetitions {
    fn from(law: StoredLaw) -> Self {
        match law.shape {
            Some(shape) => Self::NegativeBinomial { shape, gamma: law.parameter },
            None => Self::Poisson { mean: law.parameter },
        }
    }
}

/// A mask as the lengths of its runs of equal pixels. The first run is public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runs {
    width: u32,
    height: u32,
    runs: Vec<u64>,
}

impl From<&Mask> for Runs {
    fn from(mask: &Mask) -> Self {
        let (mut runs, mut private) = (vec![0], false);
        for &pixel in mask.bytes() {
            if (pixel != 0) != private {
                private = !private;
                runs.push(0);
            }
            if let Some(last) = runs.last_mut() {
                *last += 1;
            }
        }
        Self { width: mask.size().width(), height: mask.size().height(), runs }
    }
}

impl Runs {
    /// The mask; `None` if the runs do not fill it exactly.
    pub(super) fn mask(&self) -> Option<Mask> {
        let size = Size::named("mask", self.width, self.height).ok()?;
        let pixels = u64::from(self.width) * u64::from(self.height);
        let sum = self.runs.iter().try_fold(0u64, |sum, run| sum.checked_add(*run))?;
        if sum != pixels {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(pixels).ok()?);
        for (index, &run) in self.runs.iter().enumerate() {
            bytes.resize(bytes.len() + usize::try_from(run).ok()?, u8::from(index % 2 == 1));
        }
        Mask::from_bytes(size, bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masks_and_laws_are_read_back(width in 1..9u32, height in 1..9u32, bits: u64, a in 0.0..1.0f64, b in -0.9..9.0f64) {
            let size = Size::named("mask", width, height).unwrap();
            let mask = Mask::from_fn(size, |x, y| bits >> ((y * 8 + x) % 64) & 1 == 1).unwrap();
            prop_assert_eq!(Runs::from(&mask).mask(), Some(mask));
            for law in [Repetitions::NegativeBinomial { shape: b, gamma: a }, Repetitions::Poisson { mean: a }] {
                let entry = BudgetEntry::Choice { candidates: Vec::new(), law: law.into() };
                let text = serde_json::to_string(&entry).unwrap();
                let BudgetEntry::Choice { law: again, .. } = serde_json::from_str(&text).unwrap() else { panic!() };
                prop_assert_eq!(Repetitions::from(again), law);
            }
        }
    }

    #[test]
    fn runs_that_do_not_fill_a_mask_are_none() {
        for runs in [vec![], vec![3], vec![5], vec![u64::MAX, 5]] {
            assert_eq!(Runs { width: 2, height: 2, runs }.mask(), None);
        }
    }
}
