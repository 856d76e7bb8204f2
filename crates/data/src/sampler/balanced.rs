//! Balanced sampling: each record joins a fixed number of an epoch's steps.

use std::ops::Range;

use chacha20::rand_core::Rng;

use crate::uniform::subset;

/// The most places of records in steps that are kept, unless a single step has more.
pub(super) const MOST_KEPT: u64 = 1 << 21;

/// How records are allocated to the steps of an epoch.
pub(super) struct AllocationLaw {
    pub(super) records: u64,
    /// Steps that each record joins.
    pub(super) per_record: u64,
    pub(super) epoch_steps: u64,
}

impl AllocationLaw {
    /// The steps of an epoch that are kept together with one of them: all, or as many as [`MOST_KEPT`] places hold.
    pub(super) fn window(&self, place: u64) -> Range<u64> {
        let a_step = self.records as u128 * u128::from(self.per_record) / u128::from(self.epoch_steps.max(1));
        let steps = (u128::from(MOST_KEPT) / a_step.max(1)).max(1);
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let first = place - place % steps;
        first..self.epoch_steps.min(first.saturating_add(steps))
    }
}

/// Which records join which step of one epoch, for some of its steps.
#[derive(Debug)]
pub(super) struct Allocation {
    /// First step of the epoch.
    epoch: u64,
    /// The steps whose records these are, from the epoch's first.
    window: Range<u64>,
    /// Where each step's records begin in `records`, and at the end where the last step's records end.
    starts: Vec<usize>,
    /// The records of each step, step after step, in growing order within a step.
    records: Vec<usize>,
}

impl Allocation {
    /// Draws which steps of the epoch each record joins, one record at a time, and keeps those of the window.
    ///
    /// # Guarantee
    /// Records are allocated independently (partitioning paper, Remark 3.9), each to a uniform subset of all steps of the epoch. How many records
    /// meet in a step is random. From the same random numbers every window sees the same allocation.
    pub(super) fn draw(random: &mut impl Rng, epoch: u64, law: &AllocationLaw, window: Range<u64>) -> Self {
        let per_record = law.per_record.min(law.epoch_steps);
        let mut joins: Vec<(u32, usize)> = Vec::new();
        // The last record that joined each step.
        let mut joined = vec![u64::MAX; law.epoch_steps as usize];
        for record in 0..law.records {
            subset(random, per_record, law.epoch_steps, |step| {
                let fresh = std::mem::replace(&mut joined[step as usize], record) != record;
                if fresh && window.contains(&step) {
                    joins.push(((step - window.start) as u32, record as usize));
                }
                fresh
            });
        }
        // A counting sort keeps the records of a step in order.
        let steps = (window.end - window.start) as usize;
        let mut starts = vec![0; steps + 1];
        for &(step, _) in &joins {
            starts[step as usize + 1] += 1;
        }
        for step in 0..steps {
            starts[step + 1] += starts[step];
        }
        let mut free = starts.clone();
        let mut records = vec![0; joins.len()];
        for &(step, record) in &joins {
            let slot = &mut free[step as usize];
            records[*slot] = record;
            *slot += 1;
        }
        Self { epoch, window, starts, records }
    }

    /// Whether the records of this step of this epoch are known.
    pub(super) fn holds(&self, epoch: u64, place: u64) -> bool {
        self.epoch == epoch && self.window.contains(&place)
    }

    /// The records of a step of the epoch, which must be one of the window.
    pub(super) fn at(&self, place: u64) -> Vec<usize> {
        let place = (place - self.window.start) as usize;
        self.records[self.starts[place]..self.starts[place + 1]].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{MasterKey, Purpose};

    #[test]
    fn every_window_sees_the_same_allocation() {
        for (records, per_record, epoch_steps) in [(50, 3, 7), (9, 1, 5), (20, 7, 7), (4, 2, 11), (1, 1, 1)] {
            let law = AllocationLaw { records, per_record, epoch_steps };
            let draw = |window: Range<u64>| {
                let mut random = MasterKey::from_seed(1).purpose(Purpose::Sampling).step(0).stream(0);
                Allocation::draw(&mut random, 0, &law, window)
            };
            let whole = draw(0..epoch_steps);
            for first in 0..epoch_steps {
                for end in first + 1..=epoch_steps {
                    let part = draw(first..end);
                    for place in 0..epoch_steps {
                        assert_eq!(part.holds(0, place), (first..end).contains(&place));
                        if part.holds(0, place) {
                            assert_eq!(part.at(place), whole.at(place));
                        }
                    }
                    assert!(!part.holds(1, first));
                }
            }
        }
    }

    #[test]
    fn windows_follow_each_other_and_hold_what_may_be_kept() {
        let law = |records, per_record, epoch_steps| AllocationLaw { records, per_record, epoch_steps };
        // An epoch that may be kept is one window.
        assert_eq!(law(1000, 10, 100).window(37), 0..100);
        // Of a billion records in a thousand steps, two steps at a time.
        let large = law(1_000_000_000, 1, 1000);
        assert_eq!((large.window(0), large.window(1), large.window(2)), (0..2, 0..2, 2..4));
        assert_eq!(law(1_000_000_000, 1, 1001).window(1000), 1000..1001);
        // A step is never parted, and large numbers do not overflow.
        assert_eq!(law(u64::MAX, 2, 4).window(3), 3..4);
    }
}
