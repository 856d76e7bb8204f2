//! How many steps the ledger promises at once.

use std::time::Duration;

/// The most steps of one promise, and so the most that a crash makes the ledger count too many (beside those that a checkpoint lost).
pub(crate) const LARGEST_BLOCK: u64 = 128;
/// Steps of a promise take about this long, which makes the wait for the disk a small share of it.
const TARGET: Duration = Duration::from_millis(500);

/// Sizes blocks by how long steps take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    block: u64,
}

impl Pace {
    /// Begins with single steps.
    pub(crate) fn new() -> Self {
        Self { block: 1 }
    }

    /// The next block, at most `most`.
    pub(crate) fn block(&self, most: u64) -> u64 {
        self.block.min(most).max(1)
    }

    /// Learns from a block that was carried out.
    pub(crate) fn learn(&mut self, steps: u64, took: Duration) {
        let fits = TARGET.as_secs_f64() / (took.as_secs_f64() / steps.max(1) as f64).max(1e-9);
        // Twice as many at most, so that one quick step does not promise the world.
        self.block = (fits as u64).clamp(1, 2 * self.block).min(LARGEST_BLOCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_fast_steps_and_shrink_with_slow_ones() {
        let mut pace = Pace::new();
        assert_eq!(pace.block(10), 1);
        for _ in 0..10 {
            let block = pace.block(1000);
            pace.learn(block, Duration::from_millis(block));
        }
        assert_eq!(pace.block(1000), LARGEST_BLOCK);
        assert_eq!(pace.block(5), 5);
        pace.learn(5, Duration::from_secs(5));
        assert_eq!(pace.block(1000), 1);
    }
}
