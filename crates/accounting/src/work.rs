//! How much work an answer may take.

use std::cell::Cell;

use crate::error::{AccountingError, Result};
use crate::pld::BracketPrecision;

/// Work that answers have taken together, and the most that they may take.
///
/// A unit is a point of a Fourier transform, which takes about a tenth of a microsecond; the laws of ratios are counted in the same unit.
/// One question alone is bounded as well: where refining takes too long, it gives the answer that it knows. Work is counted and not measured, so that the same question gets the same answer on every machine.
#[derive(Debug)]
pub struct Work {
    spent: Cell<f64>,
    limit: f64,
}

impl Work {
    /// Terms of a sum of two laws that take as long as a point of a transform.
    pub(crate) const TERMS_A_UNIT: f64 = 32.0;

    /// Allows this many units. Only the composition that passes the limit may exceed it.
    #[must_use]
    pub fn at_most(limit: f64) -> Self {
        Self { spent: Cell::new(0.0), limit }
    }

    /// Units spent so far.
    #[must_use]
    pub fn spent(&self) -> f64 {
        self.spent.get()
    }

    /// Counts work that was done.
    ///
    /// # Errors
    /// [`AccountingError::TooMuchWork`] once more is spent than may be.
    pub(crate) fn count(&self, units: f64) -> Result<()> {
        self.spent.set(self.spent.get() + units);
        if self.spent.get() > self.limit {
            return Err(AccountingError::TooMuchWork { limit: self.limit });
        }
        Ok(())
    }
}

/// How an answer is computed: how narrow its bracket must be, and what counts its work. A [`BracketPrecision`] alone counts nothing.
#[derive(Debug, Clone, Copy)]
pub struct Effort<'a> {
    precision: BracketPrecision,
    work: Option<&'a Work>,
}

impl From<BracketPrecision> for Effort<'_> {
    fn from(precision: BracketPrecision) -> Self {
        Self { precision, work: None }
    }
}

impl<'a> Effort<'a> {
    /// An answer of this precision, whose work is counted.
    #[must_use]
    pub fn counted(precision: BracketPrecision, work: &'a Work) -> Self {
        Self { precision, work: Some(work) }
    }

    pub(crate) fn precision(self) -> BracketPrecision {
        self.precision
    }

    /// Counts work that was done.
    ///
    /// # Errors
    /// As for [`Work::count`].
    pub(crate) fn count(self, units: f64) -> Result<()> {
        self.work.map_or(Ok(()), |work| work.count(units))
    }
}
