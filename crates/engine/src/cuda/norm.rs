//! Decides how blocks of threads share the work of a group norm, and how much they keep in shared memory.

use super::launch::LaunchGrid;

/// The most threads of a block, the same as in the kernels.
const MOST_THREADS: usize = 1024;
/// How many bytes of shared memory the hardware and the kernels take for each block.
const RESERVED: usize = 2 << 10;

/// A group of a norm: the number of its channels, and of the positions of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NormGroup {
    pub(crate) size: usize,
    pub(crate) inner: usize,
}

impl NormGroup {
    /// As many threads as have enough to do, which is eight vectors of four values each. Many small blocks fill each other's waits better
    /// than a few large ones.
    fn threads(self) -> usize {
        (self.size * self.inner / 32).next_power_of_two().clamp(64, MOST_THREADS)
    }

    /// How many bytes a group takes if it is aligned as in its tensor, with up to three values before it.
    fn room(self) -> usize {
        (self.size * self.inner + 7) / 4 * 16
    }

    /// The blocks of the forward pass, one for each of `count` groups, and whether each holds its group in shared memory. `shared` is how
    /// much a block may ask for.
    pub(crate) fn forward(self, count: usize, stored: bool, shared: usize) -> (LaunchGrid, bool) {
        let holds = !stored && self.room() <= shared;
        let bytes = if holds { self.room() } else { 0 };
        (LaunchGrid { shared: bytes, ..LaunchGrid::blocks(count, self.threads()) }, holds)
    }

    /// The blocks of the backward pass, and whether they hold both values and gradients (2), values alone (1) or neither (0). It is better to
    /// read gradients twice, the second time from the cache, than to leave a multiprocessor with one block, which would wait at every
    /// barrier.
    pub(crate) fn backward(self, count: usize, shared: usize) -> (LaunchGrid, usize) {
        let warps = self.threads() / 32;
        let warps = if self.size < warps { warps / self.size * self.size } else { warps };
        let sums = 16 * self.size;
        let fits = |held: usize, limit: usize| sums + held * self.room() <= limit;
        let half = (shared / 2).saturating_sub(RESERVED);
        let holds = match () {
            () if fits(2, half) => 2,
            () if fits(1, shared) => 1,
            () => 0,
        };
        let bytes = sums + holds * self.room();
        (LaunchGrid { shared: bytes, ..LaunchGrid::blocks(count, 32 * warps) }, holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_keep_to_their_limits(size in 1usize..6000, inner in 1usize..20_000, shared in 101_376usize..231_424) {
            let group = NormGroup { size, inner };
            let (forward, holds) = group.forward(7, false, shared);
            prop_assert!(forward.shared <= shared && forward.threads.is_multiple_of(32));
            prop_assert!(forward.threads <= MOST_THREADS && (!holds || forward.shared >= 4 * (size * inner + 3)));
            let (backward, holds) = group.backward(7, shared);
            prop_assert!(backward.shared <= shared && backward.threads.is_multiple_of(32));
            prop_assert!(backward.threads >= 32 && backward.threads <= MOST_THREADS);
            prop_assert!(backward.shared >= 16 * size + holds * 4 * (size * inner + 3));
            // If there are fewer channels than warps, each channel has a team of its own and no warp is idle.
            let warps = backward.threads / 32;
            prop_assert!(size >= warps || warps.is_multiple_of(size));
        }
    }
}
