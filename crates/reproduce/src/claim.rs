//! What a paper says, checked against what is computed here.

use serde::Serialize;

use crate::error::Result;

/// What comes out here, in words, and whether the statement holds.
pub type ClaimVerdict = (String, bool);

type ClaimCheck<'a, R> = dyn Fn(&R) -> Result<ClaimVerdict> + 'a;

/// A statement of a paper and how it is checked against the results of a reproduction. Its source is the section of the paper
/// that the reproduction's [`CatalogueEntry`](crate::CatalogueEntry) names.
pub struct Claim<'a, R> {
    says: &'static str,
    check: Box<ClaimCheck<'a, R>>,
}

impl<'a, R> Claim<'a, R> {
    pub(crate) fn new(says: &'static str, check: impl Fn(&R) -> Result<ClaimVerdict> + 'a) -> Self {
        Self { says, check: Box::new(check) }
    }

    pub(crate) fn find(&self, results: &R) -> Result<Finding> {
        let (here, holds) = (self.check)(results)?;
        Ok(Finding { paper: self.says, here, holds })
    }
}

/// A statement of a paper about what is computed, or about a part of it, written down once for all figures that it is about.
pub(crate) struct Statement<T: ?Sized> {
    pub(crate) says: &'static str,
    pub(crate) check: fn(&T) -> Result<ClaimVerdict>,
}

impl<R: 'static> Statement<R> {
    /// The statement as a claim about the whole of the results.
    pub(crate) fn claim(&self) -> Claim<'static, R> {
        Claim::new(self.says, self.check)
    }
}

/// A statement beside what was found.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The statement, in our words.
    pub paper: &'static str,
    /// What comes out here.
    pub here: String,
    /// Whether it holds here.
    pub holds: bool,
}
