//! What the ranks of a run must have in common before its first step.

use dapple_data::{Dataset, Opened};
use dapple_plan::spec::DeviceChoice;
use dapple_private::StepError;
use serde::{Deserialize, Serialize};

use super::RankGroup;
use super::cards::{HeldCards, RankCard};
use super::shards::{DealtRecords, HeldShards};
use crate::certificate::VERSION;
use crate::device::Machine;
use crate::digest;
use crate::error::TrainError;
use crate::prepare::Prepared;

/// What a rank has, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankFacts {
    /// The version of the program.
    version: String,
    /// How the processor's kernels lay numbers out, on which the order of a sum depends.
    processor: String,
    /// Digest of the plan as this rank was given it; empty where only the first is.
    request: String,
    /// Digest of the first weights.
    weights: String,
    /// Fingerprints of the records, and of what else is read, hidden by a key.
    data: String,
    pool: Option<String>,
    test: Option<String>,
    /// What the rank has of the records to train on and to evaluate on, where they lie in shards.
    train_shards: Option<HeldShards>,
    test_shards: Option<HeldShards>,
    /// The machine, and which of its cores the rank may use; then how many these are.
    place: String,
    cores: usize,
    /// The machine alone, and the cards that the rank could use there.
    machine: String,
    cards: HeldCards,
}

impl RankFacts {
    /// The facts of this rank.
    ///
    /// # Errors
    /// Records that cannot be read.
    pub(crate) fn of(
        prepared: &Prepared,
        request: &str,
        key: &[u8],
        first: bool,
    ) -> Result<Self, TrainError> {
        let hidden = |dataset: &dyn Dataset| -> Result<String, TrainError> {
            Ok(digest::of(&[key, dataset.fingerprint()?.as_bytes()]))
        };
        let data = &prepared.data;
        Ok(Self {
            version: VERSION.to_owned(),
            processor: dapple_engine::arrangement(),
            request: request.to_owned(),
            weights: digest::of_values(prepared.parameters.values()),
            data: hidden(&*data.train)?,
            pool: data.pool.as_ref().map(|pool| hidden(&**pool)).transpose()?,
            test: data.test.as_ref().map(|test| hidden(&**test)).transpose()?,
            train_shards: HeldShards::of(&*data.train),
            test_shards: data.test.as_ref().and_then(|test| HeldShards::of(&**test)),
            place: place(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            machine: machine(),
            cards: HeldCards::of(&Machine::device_of(prepared)?, first),
        })
    }

    /// What differs from another rank's facts, in words; `None` if nothing that matters does.
    fn differs(&self, other: &Self) -> Option<&'static str> {
        // A rank that was given no plan takes the first rank's.
        let cut = |one: &Option<_>, other: &Option<_>| HeldShards::differs(one.as_ref(), other.as_ref());
        let given = !self.request.is_empty() && !other.request.is_empty();
        [
            (self.version != other.version, "the version of the program"),
            (self.processor != other.processor, "the kind of processor"),
            (given && self.request != other.request, "the plan"),
            (self.weights != other.weights, "the first weights"),
            (self.data != other.data, "the training data"),
            (self.pool != other.pool, "the pool of synthetic images"),
            (self.test != other.test, "the test data"),
            (cut(&self.train_shards, &other.train_shards), "the shards of the training data"),
            (cut(&self.test_shards, &other.test_shards), "the shards of the test data"),
        ]
        .into_iter()
        .find_map(|(differs, what)| differs.then_some(what))
    }
}

impl RankGroup {
    /// Compares what all ranks have, and returns it, rank by rank.
    ///
    /// # Errors
    /// That of this rank, that of another, or a difference.
    pub(crate) fn compare(&self, own: Result<RankFacts, TrainError>) -> Result<Vec<RankFacts>, TrainError> {
        let said = own.as_ref().map(|facts| serde_json::to_vec(facts).expect("words and numbers"));
        let all = self.exchange(said.map_err(ToString::to_string));
        own?;
        let all = all.map_err(|error| match error {
            // Nothing has begun, so there is nothing to resume.
            StepError::Rank { rank, problem } => TrainError::Ranks { rank, problem },
            other => other.into(),
        });
        let mut heard: Vec<RankFacts> = Vec::new();
        for (rank, bytes) in all?.iter().enumerate() {
            let facts: Option<RankFacts> = serde_json::from_slice(bytes).ok();
            let what = match (&facts, heard.first()) {
                (None, _) => Some("the version of the program"),
                (Some(facts), Some(first)) => first.differs(facts),
                (Some(_), None) => None,
            };
            if let Some(what) = what {
                let problem = format!("{what} differs from that of rank 0");
                return Err(TrainError::Ranks { rank, problem });
            }
            heard.extend(facts);
        }
        Ok(heard)
    }

    /// How many threads are this rank's share of the cores that it and others may use.
    pub(crate) fn threads(&self, all: &[RankFacts]) -> usize {
        let own = &all[self.rank()];
        let beside = all.iter().filter(|facts| facts.place == own.place).count();
        (own.cores / beside.max(1)).max(1)
    }

    /// The card that this rank computes on; `None` if all ranks compute on their processors.
    ///
    /// # Errors
    /// A rank that has no card where cards were asked for. All ranks find that out alike.
    pub(crate) fn choose_card(
        &self,
        device: &DeviceChoice,
        all: &[RankFacts],
    ) -> Result<Option<RankCard>, TrainError> {
        let held: Vec<(&str, &HeldCards)> =
            all.iter().map(|facts| (facts.machine.as_str(), &facts.cards)).collect();
        let card = HeldCards::card(device, &held, self.rank());
        let card = card.map_err(|(rank, problem)| {
            let hint = "ranks compute all on cards or all on processors: give --device cpu, or no more ranks than there are cards";
            TrainError::setting("performance.device", format!("rank {rank}: {problem}"), hint)
        })?;
        // Ranks are made ready once.
        let _ = self.card.set(card);
        Ok(card)
    }

    /// Deals out records that lie in shards, once it is known what all ranks have.
    ///
    /// # Errors
    /// A shard that no rank has. All ranks find that out alike.
    pub(crate) fn deal(&self, data: &Opened, all: &[RankFacts]) -> Result<(), TrainError> {
        let owners = |dataset: Option<&dyn Dataset>, held: fn(&RankFacts) -> Option<&HeldShards>| {
            let of_ranks: Option<Vec<&HeldShards>> = all.iter().map(held).collect();
            let (Some(dataset), Some(of_ranks)) = (dataset, of_ranks) else { return Ok(None) };
            HeldShards::deal(dataset, &of_ranks).map(Some)
        };
        let train = owners(Some(&*data.train), |facts| facts.train_shards.as_ref());
        let test = owners(data.test.as_deref(), |facts| facts.test_shards.as_ref());
        let refused = |problem| {
            let hint =
                "copy each shard to the machine of one rank, whole; all ranks together need all shards";
            TrainError::setting("data.train", problem, hint)
        };
        let dealt = DealtRecords { train: train.map_err(refused)?, test: test.map_err(refused)? };
        self.dealt.get_or_init(|| dealt);
        Ok(())
    }
}

/// The machine that this process is on, as far as the system tells.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let machine = ["/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname"].map(read);
    format!("{} {}", machine[0].trim(), machine[1].trim())
}

/// The machine that this process is on, and the cores that it may use, as far as the system tells. Ranks with the same words share cores.
fn place() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cores = status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap_or_default();
    format!("{} {cores}", machine())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_mpi::World;

    fn facts() -> RankFacts {
        let word = |word: &str| word.to_owned();
        RankFacts {
            version: word("1"),
            processor: word("p"),
            request: word("r"),
            weights: word("w"),
            data: word("d"),
            pool: None,
            test: Some(word("t")),
            train_shards: None,
            test_shards: None,
            place: word("here"),
            cores: 5,
            machine: word("here"),
            cards: HeldCards::default(),
        }
    }

    /// Lets each rank say its facts, and returns what each hears.
    fn compared(all: Vec<Result<RankFacts, TrainError>>) -> Vec<Result<usize, TrainError>> {
        let worlds = World::of_threads(all.len());
        std::thread::scope(|scope| {
            let ranks = worlds.into_iter().zip(all).map(|(world, own)| {
                let group = RankGroup::of(world);
                scope.spawn(move || Ok(group.threads(&group.compare(own)?)))
            });
            ranks.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_share_the_cores_of_their_machine() {
        let elsewhere = RankFacts { place: "there".to_owned(), cores: 8, ..facts() };
        let resumed = RankFacts { request: String::new(), ..facts() };
        let threads = compared(vec![Ok(facts()), Ok(elsewhere), Ok(resumed)]);
        assert_eq!(threads.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [2, 8, 2]);
    }

    #[test]
    fn what_differs_is_named_with_its_rank() {
        let change = |change: fn(&mut RankFacts)| {
            let mut changed = facts();
            change(&mut changed);
            changed
        };
        for (other, what) in [
            (change(|facts| facts.version.push('x')), "the version of the program"),
            (change(|facts| facts.processor.push('x')), "the kind of processor"),
            (change(|facts| facts.request.push('x')), "the plan"),
            (change(|facts| facts.weights.push('x')), "the first weights"),
            (change(|facts| facts.data.push('x')), "the training data"),
            (change(|facts| facts.pool = Some("x".to_owned())), "the pool of synthetic images"),
            (change(|facts| facts.test = None), "the test data"),
        ] {
            for heard in compared(vec![Ok(facts()), Ok(facts()), Ok(other.clone())]) {
                let error = heard.unwrap_err();
                assert!(
                    error.to_string().starts_with("rank 2: ") && error.to_string().contains(what),
                    "{error}"
                );
                assert!(error.hint().is_some());
            }
        }
        let failed = TrainError::NoRun { folder: "run".into() };
        let heard = compared(vec![Ok(facts()), Err(failed)]);
        assert!(matches!(heard[1], Err(TrainError::NoRun { .. })), "a rank has its own error");
        assert_eq!(heard[0].as_ref().unwrap_err().to_string(), "rank 1: run: no run in this folder");
    }
}
