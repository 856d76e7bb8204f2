//! How a card's sum becomes part of one over all processes, written so that tests can put something else in the place of a card.

use dapple_engine::{ClippingRule, EngineError, StepStats, Total};

use crate::error::StepError;
use crate::peers::Peers;

/// A card with the sum of its own part of a step.
pub(crate) trait JoinedCard {
    /// Waits until the sum is complete, and says whether it is.
    fn settle(&mut self) -> Result<(), StepError>;

    /// Brings the sum to the host.
    fn read(&mut self) -> Result<Total, StepError>;

    /// Replaces the sum by another one.
    fn write(&mut self, total: &Total) -> Result<(), StepError>;

    /// Adds to the sum those of the other processes' cards, over the links between the cards. Ends within half of the processes' patience, whatever
    /// becomes of the others.
    fn add_over_links(&mut self) -> Result<(), StepError>;
}

/// Where the sums of several cards are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinedWhere {
    /// In the hosts' memory, by the processes.
    Hosts,
    /// On the cards, over the links between them.
    Links,
}

/// Joins a card's part of a sum with those of its peers, or tells them that there is none.
///
/// # Guarantee
/// On every card, sum and report become those of all records of the step, as if one card had added them up: to the last bit where gradients are
/// clipped, because whole numbers add up without rounding and the rule's capacity holds for all records together. Nothing is joined unless every
/// process has said that its own part is complete.
///
/// # Errors
/// That of this process, that of another, or more records than a sum holds.
pub(crate) fn join(
    peers: &dyn Peers,
    own: Result<StepStats, StepError>,
    card: &mut dyn JoinedCard,
    at: JoinedWhere,
    (rule, mark): (&ClippingRule, u64),
) -> Result<StepStats, StepError> {
    let mut total = None;
    let own = own.and_then(|stats| {
        card.settle()?;
        if at == JoinedWhere::Hosts {
            total = Some(card.read()?);
        }
        Ok(stats)
    });
    let stats = peers.report(own, mark)?;
    // All processes hear of the same records, so all stop here or none.
    if rule.unit().is_some() && stats.losses.len() > rule.capacity() {
        return Err(EngineError::Sum { capacity: rule.capacity() }.into());
    }
    match total {
        Some(mut total) => {
            peers.add(total.joint());
            card.write(&total)?;
        }
        None => peers.confirm(card.add_over_links())?,
    }
    Ok(stats)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, Mutex};

    use dapple_engine::{Batch, Clipping, CpuExecutor, CpuOptions, JointNumbers, Layout, Targets};
    use dapple_graph::{Graph, Parameters, zoo};

    use super::*;

    const PROCESSES: usize = 3;
    const MARK: u64 = 7;

    /// What processes that are threads bring to each other.
    #[derive(Debug)]
    struct Meeting {
        barrier: Barrier,
        said: Mutex<Vec<Option<Result<StepStats, String>>>>,
        wide: Mutex<Vec<i64>>,
        plain: Mutex<Vec<f32>>,
        /// How often each kind of meeting was called, over all processes.
        calls: Mutex<[usize; 3]>,
    }

    impl Meeting {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                barrier: Barrier::new(PROCESSES),
                said: Mutex::new(vec![None; PROCESSES]),
                wide: Mutex::default(),
                plain: Mutex::default(),
                calls: Mutex::default(),
            })
        }

        fn called(&self, kind: usize) {
            self.calls.lock().unwrap()[kind] += 1;
        }
    }

    #[derive(Debug)]
    struct ThreadPeers {
        rank: usize,
        meeting: Arc<Meeting>,
    }

    impl ThreadPeers {
        fn exchange(&self, own: Result<StepStats, StepError>) -> Result<StepStats, StepError> {
            let said = own.as_ref().map(StepStats::clone).map_err(ToString::to_string);
            self.meeting.said.lock().unwrap()[self.rank] = Some(said);
            self.meeting.barrier.wait();
            let all = self.meeting.said.lock().unwrap().clone();
            self.meeting.barrier.wait();
            own?;
            let mut together = StepStats::default();
            for (rank, said) in all.into_iter().flatten().enumerate() {
                together.join(said.map_err(|problem| StepError::Rank { rank, problem })?);
            }
            Ok(together)
        }

        fn sum<T: Copy + Default + std::ops::AddAssign>(&self, own: &mut [T], all: &Mutex<Vec<T>>) {
            {
                let mut all = all.lock().unwrap();
                all.resize(own.len(), T::default());
                all.iter_mut().zip(&*own).for_each(|(to, from)| *to += *from);
            }
            self.meeting.barrier.wait();
            own.copy_from_slice(&all.lock().unwrap());
            self.meeting.barrier.wait();
            all.lock().unwrap().clear();
            self.meeting.barrier.wait();
        }
    }

    impl Peers for ThreadPeers {
        fn report(&self, own: Result<StepStats, StepError>, mark: u64) -> Result<StepStats, StepError> {
            assert_eq!(mark, MARK);
            self.meeting.called(0);
            self.exchange(own)
        }

        fn add(&self, numbers: JointNumbers<'_>) {
            self.meeting.called(1);
            match numbers {
                JointNumbers::Narrow(_) => panic!("cards have wide numbers"),
                JointNumbers::Wide(own) => self.sum(own, &self.meeting.wide),
                JointNumbers::Plain(own) => self.sum(own, &self.meeting.plain),
            }
        }

        fn confirm(&self, own: Result<(), StepError>) -> Result<(), StepError> {
            self.meeting.called(2);
            self.exchange(own.map(|()| StepStats::default())).map(drop)
        }
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum CardWork {
        Sum,
        Settle,
        Read,
        Write,
        Links,
    }

    /// A card whose sum the processor makes.
    struct StandIn {
        peers: ThreadPeers,
        total: Total,
        failing: Option<CardWork>,
        /// Whether another card never comes to where all add up.
        deserted: bool,
    }

    impl StandIn {
        fn begin(&self, work: CardWork) -> Result<(), StepError> {
            let problem = format!("out of memory in {work:?}");
            let failed = StepError::Device { device: "cuda:0".to_owned(), problem, hint: None };
            if self.failing == Some(work) { Err(failed) } else { Ok(()) }
        }
    }

    impl JoinedCard for StandIn {
        fn settle(&mut self) -> Result<(), StepError> {
            self.begin(CardWork::Settle)
        }

        fn read(&mut self) -> Result<Total, StepError> {
            self.begin(CardWork::Read)?;
            Ok(self.total.clone())
        }

        fn write(&mut self, total: &Total) -> Result<(), StepError> {
            self.begin(CardWork::Write)?;
            self.total = total.clone();
            Ok(())
        }

        /// A card that fails never comes to the others, which call the sum off when they have waited long enough.
        fn add_over_links(&mut self) -> Result<(), StepError> {
            self.begin(CardWork::Links)?;
            if self.deserted {
                let problem = "a card does not answer".to_owned();
                return Err(StepError::Device { device: "cuda:0".to_owned(), problem, hint: None });
            }
            match self.total.joint() {
                JointNumbers::Wide(own) => self.peers.sum(own, &self.peers.meeting.wide),
                _ => panic!("sums are clipped"),
            }
            Ok(())
        }
    }

    /// The sum of some samples, and how it went.
    fn part(graph: &Graph, rule: &ClippingRule, samples: std::ops::Range<usize>) -> (Total, StepStats) {
        let mut executor =
            CpuExecutor::new(graph, CpuOptions { threads: 1, ..CpuOptions::default() }).unwrap();
        let parameters = Parameters::init(graph, 3);
        let inputs: Vec<f32> = samples
            .clone()
            .flat_map(|sample| {
                (0..784).map(move |i| (((sample * 784 + i) * 7919) % 1013) as f32 / 506.5 - 1.0)
            })
            .collect();
        let classes: Vec<u32> = samples.map(|sample| (sample % 4) as u32).collect();
        let mut sum = executor.gradient_sum();
        let mut loaded = executor.load(&parameters).unwrap();
        let stats =
            loaded.clipped_sum(&Batch::new(&inputs, Targets::Classes(&classes)), rule, &mut sum).unwrap();
        (loaded.total(sum).unwrap(), stats)
    }

    fn graph_and_rule() -> (Graph, ClippingRule) {
        let graph = zoo::small_cnn(&[1, 28, 28], 4).unwrap();
        let rule = ClippingRule::new(&Clipping::Flat { max_norm: 0.5 }, &Layout::new(&graph)).unwrap();
        (graph, rule)
    }

    /// The samples of each process: the last has none.
    const SHARES: [std::ops::Range<usize>; PROCESSES] = [0..4, 4..9, 9..9];

    /// The sum and the report that a process comes to.
    type JoinedEnd = Result<(Vec<i64>, StepStats), StepError>;

    /// Lets all processes join, of which one may fail, and returns what each comes to and how often each kind of meeting was called.
    fn joined(at: JoinedWhere, failing: Option<(usize, CardWork)>) -> (Vec<JoinedEnd>, [usize; 3]) {
        let (graph, rule) = graph_and_rule();
        let meeting = Meeting::new();
        let process = |rank: usize| {
            let deserted = failing.is_some_and(|(_, work)| work == CardWork::Links);
            let failing = failing.filter(|(process, _)| *process == rank).map(|(_, work)| work);
            let (total, stats) = part(&graph, &rule, SHARES[rank].clone());
            let peers = |meeting: &Arc<Meeting>| ThreadPeers { rank, meeting: Arc::clone(meeting) };
            let mut card = StandIn { peers: peers(&meeting), total, failing, deserted };
            let own = card.begin(CardWork::Sum).map(|()| stats);
            let stats = join(&peers(&meeting), own, &mut card, at, (&rule, MARK))?;
            let counts = card.total.counts().map(|(counts, _)| counts.collect());
            Ok((counts.unwrap_or_default(), stats))
        };
        let ends = std::thread::scope(|scope| {
            let process = &process;
            let threads: Vec<_> = (0..PROCESSES).map(|rank| scope.spawn(move || process(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let calls = *meeting.calls.lock().unwrap();
        (ends, calls)
    }

    #[test]
    fn every_process_has_the_sum_of_all_records() {
        let (graph, rule) = graph_and_rule();
        let (total, stats) = part(&graph, &rule, 0..9);
        let expected: Vec<i64> = total.counts().unwrap().0.collect();
        for (at, calls) in [(JoinedWhere::Hosts, [3, 3, 0]), (JoinedWhere::Links, [3, 0, 3])] {
            let (ends, called) = joined(at, None);
            assert_eq!(called, calls);
            for end in ends {
                let (counts, own) = end.unwrap();
                assert_eq!((counts, own.losses), (expected.clone(), stats.losses.clone()), "{at:?}");
            }
        }
    }

    /// A process that fails before its sum is complete is heard by all, and nothing is added up. One that fails afterwards knows it, and nobody waits
    /// for it.
    #[test]
    fn a_card_that_fails_is_heard_by_all() {
        use CardWork::{Read, Settle, Sum};
        for rank in 0..PROCESSES {
            for (at, work) in [
                (JoinedWhere::Hosts, Sum),
                (JoinedWhere::Hosts, Settle),
                (JoinedWhere::Hosts, Read),
                (JoinedWhere::Links, Sum),
                (JoinedWhere::Links, Settle),
            ] {
                let (ends, called) = joined(at, Some((rank, work)));
                assert_eq!(called, [3, 0, 0], "{rank} {work:?}");
                for (other, end) in ends.into_iter().enumerate() {
                    let (error, words) = (end.unwrap_err(), format!("cuda:0: out of memory in {work:?}"));
                    let expected = if other == rank { words } else { format!("rank {rank}: {words}") };
                    assert_eq!(error.to_string(), expected);
                }
            }
            let (ends, called) = joined(JoinedWhere::Hosts, Some((rank, CardWork::Write)));
            assert_eq!(called, [3, 3, 0]);
            let failed: Vec<bool> = ends.iter().map(Result::is_err).collect();
            assert_eq!(failed, (0..PROCESSES).map(|other| other == rank).collect::<Vec<_>>());
            let (ends, called) = joined(JoinedWhere::Links, Some((rank, CardWork::Links)));
            assert_eq!(called, [3, 0, 3]);
            for (other, end) in ends.into_iter().enumerate() {
                let words = end.unwrap_err().to_string();
                assert_eq!(words.contains("out of memory in Links"), other == rank, "{words}");
            }
        }
    }
}
