//! How samples are shared among threads.

use super::CpuOptions;

/// How many bytes of activations and gradients one thread holds, which is enough for several samples to share every weight that is read.
const THREAD_BYTES: usize = 64 << 20;
/// How many bytes all threads together may hold in any case. With fewer, all threads would soon work on the same large sample.
pub(super) const TOTAL_BYTES: usize = 2 << 30;
/// More samples than this share no more weights than they already do.
const LARGEST_GROUP: usize = 16;

/// How many bytes the activations and gradients of a worker take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes {
    /// Bytes for the worker itself, however many samples it holds.
    pub(crate) worker: usize,
    /// Bytes for each of its samples.
    pub(crate) sample: usize,
}

/// How many workers run at once, and how many samples each of them takes together. If samples are so large that memory holds fewer of them
/// than there are threads, each runs on several threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleSharing {
    threads: usize,
    workers: usize,
    group: usize,
}

impl SampleSharing {
    pub(crate) fn new(options: &CpuOptions, bytes: Bytes) -> Self {
        let threads = options.threads.max(1);
        let sample = bytes.sample.max(1);
        let (each, total) = match options.memory {
            0 => (THREAD_BYTES, TOTAL_BYTES.max(threads * THREAD_BYTES)),
            memory => (memory / threads, memory),
        };
        let group = match options.group {
            0 => (each.saturating_sub(bytes.worker) / sample).clamp(1, LARGEST_GROUP),
            group => group,
        };
        let worker = sample.saturating_mul(group).saturating_add(bytes.worker);
        Self { threads, workers: (total / worker).clamp(1, threads), group }
    }

    /// How many samples one worker takes together.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// How many samples are worked on before their gradients are added to the sum.
    pub(crate) fn chunk(&self) -> usize {
        self.workers * self.group
    }

    /// How many bytes all workers take, each of which takes this many.
    pub(crate) fn bytes(&self, bytes: Bytes) -> usize {
        let worker = bytes.sample.saturating_mul(self.group).saturating_add(bytes.worker);
        self.workers.saturating_mul(worker)
    }

    /// How some samples, at most a chunk of them, are shared among workers.
    pub(crate) fn shares(&self, samples: usize) -> Shares {
        let each = samples.div_ceil(self.workers).max(1);
        let workers = samples.div_ceil(each);
        Shares { samples, each, workers, parallel: self.threads / workers.max(1) }
    }
}

/// How the samples of a chunk are shared among workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    samples: usize,
    /// How many samples every worker but the last takes.
    pub(crate) each: usize,
    pub(crate) workers: usize,
    /// How many threads work inside a sample.
    pub(crate) parallel: usize,
}

impl Shares {
    /// How many samples a worker takes.
    pub(crate) fn of(&self, worker: usize) -> usize {
        self.each.min(self.samples - worker * self.each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sharing(threads: usize, memory: usize, sample: usize) -> SampleSharing {
        SampleSharing::new(
            &CpuOptions { threads, memory, ..CpuOptions::default() },
            Bytes { worker: 0, sample },
        )
    }

    #[test]
    fn small_samples_fill_all_threads() {
        let shares = sharing(4, 0, 1 << 20).shares(64);
        assert_eq!((shares.workers, shares.each, shares.parallel), (4, 16, 1));
        assert_eq!(sharing(4, 0, 32 << 20).chunk(), 8);
    }

    #[test]
    fn what_a_worker_needs_anyway_leaves_less_for_its_group() {
        let options = CpuOptions { threads: 2, ..CpuOptions::default() };
        let group = |worker| SampleSharing::new(&options, Bytes { worker, sample: 8 << 20 }).group();
        assert_eq!([0, 8 << 20, 1 << 30].map(group), [8, 7, 1]);
    }

    #[test]
    fn few_samples_share_the_threads() {
        let shares = sharing(8, 0, 1 << 20).shares(3);
        assert_eq!((shares.workers, shares.each, shares.parallel), (3, 1, 2));
    }

    #[test]
    fn huge_samples_run_one_at_a_time_on_all_threads() {
        for (memory, sample) in [(0, 3 << 30), (1 << 20, 1 << 20), (1, usize::MAX)] {
            let sharing = sharing(4, memory, sample);
            assert_eq!(sharing.chunk(), 1);
            assert_eq!(sharing.shares(1).parallel, 4);
        }
        // Three gigabytes hold two samples of a little more than one, so each gets two threads.
        let sharing = sharing(4, 3 << 30, (1 << 30) + 1);
        assert_eq!((sharing.chunk(), sharing.shares(2).parallel), (2, 2));
    }

    #[test]
    fn every_sample_has_one_worker() {
        for threads in 1..6 {
            for samples in 0..20 {
                let shares = sharing(threads, 0, 1 << 20).shares(samples);
                assert_eq!((0..shares.workers).map(|worker| shares.of(worker)).sum::<usize>(), samples);
            }
        }
    }
}
