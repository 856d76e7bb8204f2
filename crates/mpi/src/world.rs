//! Ranks that work together.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::calls;
use crate::error::MpiError;
use crate::launch::Launch;
use crate::link::{Addends, Link};
use crate::threads;

/// How long a rank waits for the others if nobody says.
const PATIENCE: Duration = Duration::from_secs(300);
/// Bytes that are sent at once, so that no count exceeds what MPI can say and the patience is for a piece and not for the whole.
const PIECE: usize = 1 << 26;

/// All ranks of a launch, seen from one of them. What one rank asks for, all must ask for, in the same order.
///
/// Every call returns once all ranks have made it, or ends all of them; see the crate's documentation.
pub struct World {
    link: Mutex<Box<dyn Link>>,
    rank: usize,
    size: usize,
    words: String,
    /// In milliseconds.
    patience: AtomicU64,
}

impl World {
    /// Joins the other processes of the launcher that started this one; `None` if it was started alone. Failures that end all ranks are told
    /// to `told` first. Only the thread that joins may use the world.
    ///
    /// # Errors
    /// No library, one that cannot be used, or one for which this process is the only one although its launcher started several: each would
    /// do on its own what they were to do together.
    pub fn join(told: fn(&MpiError)) -> Result<Option<Self>, MpiError> {
        let Some(launch) = Launch::detect() else { return Ok(None) };
        let world = Self::of(calls::join(launch, told, PATIENCE)?);
        if world.size == 1 && launch.tells_of_others() {
            return Err(MpiError::Alone { size: launch.size, library: world.words.clone() });
        }
        // A launcher may not tell that it started one process only.
        Ok(Some(world).filter(|world| world.size > 1))
    }

    /// Ranks that are threads of this process, for tests of what ranks do together where there is no MPI.
    #[must_use]
    pub fn of_threads(size: usize) -> Vec<Self> {
        threads::links(size).into_iter().map(Self::of).collect()
    }

    fn of(link: Box<dyn Link>) -> Self {
        let (rank, size, words) = (link.rank(), link.size(), link.words());
        let patience = AtomicU64::new(PATIENCE.as_millis() as u64);
        Self { link: Mutex::new(link), rank, size, words, patience }
    }

    /// The number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// What joins the ranks, in words: the library and its version.
    #[must_use]
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Changes how long this rank waits for the others.
    pub fn set_patience(&self, patience: Duration) {
        self.patience.store(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Gives every rank the bytes of the first; what the others had is replaced.
    pub fn broadcast(&self, bytes: &mut Vec<u8>) {
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.with(|link, patience| {
            link.broadcast(&mut length, patience);
            bytes.resize(usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX), 0);
            bytes.chunks_mut(PIECE).for_each(|piece| link.broadcast(piece, patience));
        });
    }

    /// Gives every rank the bytes of all, in the order of ranks.
    #[must_use]
    pub fn gather(&self, own: &[u8]) -> Vec<Vec<u8>> {
        self.with(|link, patience| {
            let mut lengths = vec![0; 8 * self.size];
            link.gather(&(own.len() as u64).to_le_bytes(), &mut lengths, patience);
            let lengths = lengths.as_chunks::<8>().0.iter();
            let lengths: Vec<usize> = lengths
                .map(|bytes| usize::try_from(u64::from_le_bytes(*bytes)).unwrap_or(usize::MAX))
                .collect();
            let longest = lengths.iter().copied().max().unwrap_or(0);
            let mut all: Vec<Vec<u8>> = lengths.iter().map(|&length| Vec::with_capacity(length)).collect();
            let mut start = 0;
            while start < longest {
                let piece = (longest - start).min(PIECE);
                let mut padded = vec![0; piece];
                let mine = &own[start.min(own.len())..own.len().min(start + piece)];
                padded[..mine.len()].copy_from_slice(mine);
                let mut pieces = vec![0; piece * self.size];
                link.gather(&padded, &mut pieces, patience);
                for ((all, &length), bytes) in all.iter_mut().zip(&lengths).zip(pieces.chunks_exact(piece)) {
                    all.extend_from_slice(&bytes[..length.saturating_sub(start).min(piece)]);
                }
                start += piece;
            }
            all
        })
    }

    /// Replaces each number by the sum of those of all ranks at its place.
    ///
    /// # Guarantee
    /// Whole numbers are added without rounding, so every rank has the same bits whatever the order; they must not overflow in any order.
    pub fn add_narrow(&self, numbers: &mut [i32]) {
        self.with(|link, patience| {
            numbers.chunks_mut(PIECE / 4).for_each(|piece| link.add(Addends::Narrow(piece), patience));
        });
    }

    /// As [`World::add_narrow`], with wide numbers.
    pub fn add_wide(&self, numbers: &mut [i64]) {
        self.with(|link, patience| {
            numbers.chunks_mut(PIECE / 8).for_each(|piece| link.add(Addends::Wide(piece), patience));
        });
    }

    /// Adds up numbers in single precision. The library chooses an order, so the result is known to rounding only, and two ranks may differ
    /// in it.
    pub fn add_plain(&self, numbers: &mut [f32]) {
        self.with(|link, patience| {
            numbers.chunks_mut(PIECE / 4).for_each(|piece| link.add(Addends::Plain(piece), patience));
        });
    }

    /// Ends all ranks at once, because this one cannot go on and the others would wait for it.
    pub fn abort(&self) -> ! {
        self.locked().abort()
    }

    fn with<T>(&self, ask: impl FnOnce(&mut dyn Link, Duration) -> T) -> T {
        let patience = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        ask(&mut **self.locked(), patience)
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Box<dyn Link>> {
        // A thread that panicked amid a call left the ranks out of step, which the library or their patience finds out.
        self.link.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "World(rank {} of {})", self.rank, self.size)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let patience = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        let link = self.link.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if std::thread::panicking() {
            // The others wait for what this rank will never say.
            link.abort();
        }
        link.finish(patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets every rank do the same, each as a thread, and returns what they come to.
    fn all<T: Send>(size: usize, work: impl Fn(&World) -> T + Sync) -> Vec<T> {
        let worlds = World::of_threads(size);
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = worlds.into_iter().map(|world| scope.spawn(move || work(&world))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn every_rank_hears_all_of_them() {
        for size in [1, 2, 5] {
            let heard = all(size, |world| {
                let own = vec![world.rank() as u8 + 1; world.rank() * 3];
                let mut first = vec![world.rank() as u8; 4 - world.rank().min(3)];
                world.broadcast(&mut first);
                (world.gather(&own), first, world.gather(&[]))
            });
            let expected: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8 + 1; rank * 3]).collect();
            assert!(heard.iter().all(|(gathered, first, nothing)| {
                *gathered == expected && *first == [0; 4] && *nothing == vec![Vec::new(); size]
            }));
        }
    }

    #[test]
    fn numbers_add_up_in_place() {
        let sums = all(3, |world| {
            let rank = world.rank() as i64;
            let (mut narrow, mut wide, mut plain) = ([rank as i32, -7], [rank << 40, i64::MIN / 4], [0.5]);
            world.add_narrow(&mut narrow);
            world.add_wide(&mut wide);
            world.add_plain(&mut plain);
            (narrow, wide, plain)
        });
        let expected = ([3, -21], [3 << 40, i64::MIN / 4 * 3], [1.5]);
        assert!(sums.iter().all(|sum| *sum == expected), "{sums:?}");
    }
}
