//! What a world needs of whatever joins its ranks.

use std::time::Duration;

/// Numbers to be added across ranks, in place.
#[derive(Debug)]
pub(crate) enum Addends<'n> {
    Narrow(&'n mut [i32]),
    Wide(&'n mut [i64]),
    Plain(&'n mut [f32]),
}

/// Joins ranks. Every call is made by all of them, in the same order, and returns on each only if it did on all; if that fails, all end.
pub(crate) trait Link: Send {
    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// What joins them, in words.
    fn words(&self) -> String;

    /// Gives every rank the bytes of the first.
    fn broadcast(&mut self, bytes: &mut [u8], patience: Duration);

    /// Gives every rank the bytes of all, which are equally many: `all` is `size` times as long as `own`.
    fn gather(&mut self, own: &[u8], all: &mut [u8], patience: Duration);

    /// Adds up the numbers of all ranks.
    fn add(&mut self, numbers: Addends<'_>, patience: Duration);

    /// Ends all ranks.
    fn abort(&mut self) -> !;

    /// Takes leave, after everybody was heard of for the last time.
    fn finish(&mut self, patience: Duration);
}
