//! How a rank waits for others.

use std::time::{Duration, Instant};

/// The longest that one look at a clock counts. A job that was suspended as a whole, and goes on, has not been waiting.
const LONGEST_LOOK: Duration = Duration::from_millis(200);
/// The shortest and the longest nap.
const NAPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

/// A wait that ends.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Duration,
    /// How long to look without napping, because each look moves data on.
    awake: Duration,
    waited: Duration,
    last: Instant,
}

impl Patience {
    /// A wait that begins now.
    pub(crate) fn new(limit: Duration, awake: Duration) -> Self {
        Self { limit, awake, waited: Duration::ZERO, last: Instant::now() }
    }

    /// Lets others compute before the next look; `false` once the patience is at its end.
    pub(crate) fn pause(&mut self) -> bool {
        if self.waited < self.awake {
            // More ranks than cores may share a machine, and the one that is waited for needs a core.
            std::thread::yield_now();
        } else {
            std::thread::sleep((self.waited / 64).clamp(NAPS[0], NAPS[1]));
        }
        let now = Instant::now();
        self.waited += now.saturating_duration_since(self.last).min(LONGEST_LOOK);
        self.last = now;
        self.waited < self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end() {
        // However busy the machine is, a look counts no more than the longest: two of them are not the end.
        let limit = 2 * LONGEST_LOOK + Duration::from_millis(1);
        let mut patience = Patience::new(limit, Duration::from_millis(1));
        let mut looks = 0;
        while patience.pause() {
            looks += 1;
        }
        assert!(looks > 1);
        assert!(!Patience::new(Duration::ZERO, Duration::ZERO).pause());
    }

    /// A clock that jumped ahead, as after the machine slept, counts as one look.
    #[test]
    fn a_suspended_job_was_not_waiting() {
        let mut patience = Patience::new(Duration::from_secs(3600), Duration::ZERO);
        let Some(long_ago) = Instant::now().checked_sub(Duration::from_secs(7200)) else { return };
        patience.last = long_ago;
        assert!(patience.pause());
        assert!(patience.waited <= LONGEST_LOOK);
    }
}
