//! Balanced sampling: each record joins a fixed number of an epoch's steps.

use chacha20::rand_core::Rng;

use crate::uniform::subset;

/// Which records join which step of one epoch.
#[derive(Debug)]
pub(super) struct Allocation {
    /// First step of the epoch.
    epoch: u64,
    /// Where each step's records begin in `records`, and at the end where the last step's records end.
    starts: Vec<usize>,
    /// The records of each step, step after step, in growing order within a step.
    records: Vec<usize>,
}

impl Allocation {
    /// Draws which `per_record` of the epoch's steps each record joins, one record at a time.
    ///
    /// # Guarantee
    /// Records are allocated independently (partitioning paper, Remark 3.9), each to a uniform subset of the steps. How many records meet
    /// in a step is random.
    pub(super) fn draw(
        random: &mut impl Rng,
        epoch: u64,
        records: u64,
        per_record: u64,
        epoch_steps: u64,
    ) -> Self {
        let per_record = per_record.min(epoch_steps) as usize;
        let mut steps: Vec<u32> = Vec::with_capacity(records as usize * per_record);
        // The last record that joined each step.
        let mut joined = vec![u64::MAX; epoch_steps as usize];
        for record in 0..records {
            subset(random, per_record as u64, epoch_steps, |step| {
                let fresh = std::mem::replace(&mut joined[step as usize], record) != record;
                if fresh {
                    steps.push(step as u32);
                }
                fresh
            });
        }
        // A counting sort keeps the records of a step in order.
        let mut starts = vec![0; epoch_steps as usize + 1];
        for &step in &steps {
            starts[step as usize + 1] += 1;
        }
        for step in 0..epoch_steps as usize {
            starts[step + 1] += starts[step];
        }
        let mut free = starts.clone();
        let mut sorted = vec![0; steps.len()];
        for (place, &step) in steps.iter().enumerate() {
            let slot = &mut free[step as usize];
            sorted[*slot] = place / per_record.max(1);
            *slot += 1;
        }
        Self { epoch, starts, records: sorted }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The records of a step of the epoch.
    pub(super) fn at(&self, place: u64) -> Vec<usize> {
        let place = place as usize;
        match (self.starts.get(place), self.starts.get(place + 1)) {
            (Some(&first), Some(&end)) => self.records[first..end].to_vec(),
            _ => Vec::new(),
        }
    }
}
