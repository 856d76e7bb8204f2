//! Work over many values, on threads only where that pays.

use rayon::prelude::*;

/// Fewer values than this are done sooner than a sleeping thread wakes up.
pub(crate) const WORTH_THREADS: usize = 1 << 16;
/// Values that a thread works on at once.
pub(crate) const PIECE: usize = 1 << 14;

/// Does each of the pieces that `values` values were cut into.
pub(crate) fn for_each<T: Send>(values: usize, pieces: Vec<T>, work: impl Fn(T) + Sync + Send) {
    match values < WORTH_THREADS {
        true => pieces.into_iter().for_each(work),
        false => pieces.into_par_iter().for_each(work),
    }
}
