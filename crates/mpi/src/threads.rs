//! Ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::link::{Addends, Link};

/// Where ranks meet: each brings bytes, and all leave with those of all.
struct Meeting {
    round: Mutex<Round>,
    complete: Condvar,
}

struct Round {
    number: u64,
    brought: Vec<Option<Vec<u8>>>,
    /// What the last round came to. The next one cannot end before every rank has taken this with it.
    all: Arc<Vec<Vec<u8>>>,
}

impl Meeting {
    fn gather(&self, rank: usize, own: Vec<u8>, patience: Duration) -> Option<Arc<Vec<Vec<u8>>>> {
        let mut round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        let number = round.number;
        round.brought[rank] = Some(own);
        if round.brought.iter().all(Option::is_some) {
            round.all = Arc::new(round.brought.iter_mut().filter_map(Option::take).collect());
            round.number += 1;
            self.complete.notify_all();
            return Some(Arc::clone(&round.all));
        }
        let waited = self.complete.wait_timeout_while(round, patience, |round| round.number == number);
        let (round, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (!timeout.timed_out()).then(|| Arc::clone(&round.all))
    }
}

struct ThreadLink {
    rank: usize,
    size: usize,
    meeting: Arc<Meeting>,
}

/// One link for each rank.
pub(crate) fn links(size: usize) -> Vec<Box<dyn Link>> {
    let round = Round { number: 0, brought: vec![None; size], all: Arc::new(Vec::new()) };
    let meeting = Arc::new(Meeting { round: Mutex::new(round), complete: Condvar::new() });
    let link = |rank| Box::new(ThreadLink { rank, size, meeting: Arc::clone(&meeting) }) as Box<dyn Link>;
    (0..size).map(link).collect()
}

impl ThreadLink {
    fn meet(&mut self, own: Vec<u8>, patience: Duration) -> Arc<Vec<Vec<u8>>> {
        match self.meeting.gather(self.rank, own, patience) {
            Some(all) => all,
            None => self.abort(),
        }
    }

    fn reduce<const N: usize, T: Copy>(
        &mut self,
        numbers: &mut [T],
        to_bytes: impl Fn(T) -> [u8; N],
        from_bytes: impl Fn([u8; N]) -> T,
        plus: impl Fn(T, T) -> T,
        patience: Duration,
    ) {
        let own = numbers.iter().flat_map(|&number| to_bytes(number)).collect();
        let all = self.meet(own, patience);
        for (index, number) in numbers.iter_mut().enumerate() {
            let of = |bytes: &Vec<u8>| from_bytes(bytes.as_chunks::<N>().0[index]);
            if let Some(sum) = all.iter().map(of).reduce(&plus) {
                *number = sum;
            }
        }
    }
}

impl Link for ThreadLink {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn words(&self) -> String {
        "threads of one process".to_owned()
    }

    fn broadcast(&mut self, bytes: &mut [u8], patience: Duration) {
        let all = self.meet(bytes.to_vec(), patience);
        bytes.copy_from_slice(&all[0]);
    }

    fn gather(&mut self, own: &[u8], all: &mut [u8], patience: Duration) {
        let met = self.meet(own.to_vec(), patience);
        for (to, from) in all.chunks_exact_mut(own.len().max(1)).zip(met.iter()) {
            to.copy_from_slice(from);
        }
    }

    fn add(&mut self, numbers: Addends<'_>, patience: Duration) {
        match numbers {
            Addends::Narrow(numbers) => {
                self.reduce(
                    numbers,
                    i32::to_le_bytes,
                    i32::from_le_bytes,
                    |one, other| one + other,
                    patience,
                );
            }
            Addends::Wide(numbers) => {
                self.reduce(
                    numbers,
                    i64::to_le_bytes,
                    i64::from_le_bytes,
                    |one, other| one + other,
                    patience,
                );
            }
            Addends::Plain(numbers) => {
                self.reduce(
                    numbers,
                    f32::to_le_bytes,
                    f32::from_le_bytes,
                    |one, other| one + other,
                    patience,
                );
            }
        }
    }

    /// Ends the process, of which all ranks are.
    fn abort(&mut self) -> ! {
        std::process::abort()
    }

    fn finish(&mut self, _: Duration) {}
}
