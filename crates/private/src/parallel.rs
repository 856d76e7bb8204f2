//! Work over many values, on threads only where that pays.

use rayon::prelude::*;

/// Work on fewer values than this is done before a sleeping thread would have woken up.
pub(crate) const WORTH_THREADS: usize = 1 << 16;
/// How many values a thread works on at once.
pub(crate) const PIECE: usize = 1 << 14;

/// Does the work on every piece, on threads if the `values` values that were cut into pieces are enough to be worth it.
pub(crate) fn for_each<T: Send>(values: usize, pieces: Vec<T>, work: impl Fn(T) + Sync + Send) {
    match values < WORTH_THREADS {
        true => pieces.into_iter().for_each(work),
        false => pieces.into_par_iter().for_each(work),
    }
}
