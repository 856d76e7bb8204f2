//! Several processes that share a run: the ranks of a launcher, on one machine or on many.
//!
//! The first rank has the run: its folder, its ledger, its keys. It tells the others what to do, step by step ([`RankOrder`]), and a step
//! is ordered only after it was promised. Each rank shows its executor a part of the step's records; the sums of all become one, which every
//! rank noises and uses alike. So all ranks hold the same parameters, and none but the first writes anything.

mod cards;
mod facts;
mod order;
mod peers;
mod shards;

use std::fmt::Display;
#[cfg(feature = "cuda")]
use std::sync::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dapple_data::{Dataset, SampleShare, Subset};
#[cfg(feature = "cuda")]
use dapple_engine::cuda::CudaLink;
use dapple_mpi::{MpiError, World};
#[cfg(feature = "cuda")]
use dapple_private::PeerCards;
use dapple_private::StepError;

use crate::error::TrainError;
pub(crate) use cards::RankCard;
pub(crate) use facts::RankFacts;
pub(crate) use order::RankOrder;
pub(crate) use shards::DealtRecords;

/// The last byte of what a rank says, which tells whether it can go on.
const FINE: u8 = 1;
const FAILED: u8 = 0;

/// All ranks of a run, seen from one of them. What one asks of the others, all ask, in the same order.
#[derive(Debug)]
pub struct RankGroup {
    world: World,
    /// How records are dealt out, once that is known.
    dealt: OnceLock<DealtRecords>,
    /// The card that this rank computes on, once that is known.
    card: OnceLock<Option<RankCard>>,
    /// The link between that card and those of the other ranks.
    #[cfg(feature = "cuda")]
    link: OnceLock<Arc<Mutex<CudaLink>>>,
}

impl RankGroup {
    /// Joins the other processes of the launcher that started this one; `None` if it was started alone. What ends all ranks at once is told
    /// to `told` first.
    ///
    /// # Errors
    /// No MPI library, or one that cannot be used.
    pub fn join(told: fn(&MpiError)) -> Result<Option<Arc<Self>>, TrainError> {
        Ok(World::join(told)?.map(Self::of))
    }

    /// The ranks of a world.
    #[must_use]
    pub fn of(world: World) -> Arc<Self> {
        Arc::new(Self {
            world,
            dealt: OnceLock::new(),
            card: OnceLock::new(),
            #[cfg(feature = "cuda")]
            link: OnceLock::new(),
        })
    }

    /// Whether this is the rank that has the run.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.world.rank() == 0
    }

    /// The number of this rank, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Tells all ranks whether this one can begin.
    ///
    /// # Errors
    /// The failure of one of the ranks, which may be this one.
    pub fn agree<T, E: Display>(&self, own: &Result<T, E>) -> Result<(), TrainError> {
        let own = own.as_ref().map(|_| Vec::new()).map_err(ToString::to_string);
        match self.exchange(own) {
            Ok(_) => Ok(()),
            Err(StepError::Rank { rank, problem }) => Err(TrainError::Ranks { rank, problem }),
            Err(other) => Err(other.into()),
        }
    }

    /// Which samples of every step this rank shows.
    pub(crate) fn share(&self) -> SampleShare {
        let owners = self.dealt.get().and_then(|dealt| dealt.train.clone());
        SampleShare { process: self.rank(), processes: self.size(), owners }
    }

    /// Whether records to train on lie in shards, of which not every rank has all.
    pub(crate) fn have_shards(&self) -> bool {
        self.dealt.get().is_some_and(|dealt| dealt.train.is_some())
    }

    /// The rank that evaluates a record; of records in shards none beyond the last.
    pub(crate) fn evaluator_of(&self, record: usize) -> Option<usize> {
        match self.dealt.get().and_then(|dealt| dealt.test.as_ref()) {
            Some(owners) => owners.get(record).copied(),
            None => Some(record % self.size()),
        }
    }

    /// What of some records this rank reads: all of it, or the shards that were dealt to it.
    pub(crate) fn own_shards(
        &self,
        dataset: &Arc<dyn Dataset>,
        which: fn(&DealtRecords) -> Option<&Arc<[usize]>>,
    ) -> Result<Arc<dyn Dataset>, TrainError> {
        let Some(owners) = self.dealt.get().and_then(which) else { return Ok(Arc::clone(dataset)) };
        let own = (0..dataset.len()).filter(|&record| owners[record] == self.rank()).collect();
        Ok(Arc::new(Subset::new(Arc::clone(dataset), own)?))
    }

    /// How the sums of this rank's card and of the others' are added up.
    #[cfg(feature = "cuda")]
    pub(crate) fn peer_cards(&self, patience: Duration) -> PeerCards {
        let Some(identifier) = self.card.get().copied().flatten().and_then(|card| card.identifier) else {
            return PeerCards::OnHosts;
        };
        let link = self.link.get_or_init(|| {
            let mut link = CudaLink::new(identifier, self.rank(), self.size());
            // Whoever waits for a card in vain must be able to say so before the patience of the others ends.
            link.set_patience(patience / 2);
            Arc::new(Mutex::new(link))
        });
        PeerCards::Linked(Arc::clone(link))
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        self.world.set_patience(patience);
    }

    /// Gives every rank what all have to say, or the failure of one of them.
    ///
    /// # Errors
    /// The failure of the first rank that says that it failed.
    pub(crate) fn exchange(&self, own: Result<Vec<u8>, String>) -> Result<Vec<Vec<u8>>, StepError> {
        let (mut bytes, end) =
            own.map_or_else(|problem| (problem.into_bytes(), FAILED), |bytes| (bytes, FINE));
        bytes.push(end);
        let mut all = self.world.gather(&bytes);
        for (rank, bytes) in all.iter_mut().enumerate() {
            if bytes.pop() != Some(FINE) {
                let problem = String::from_utf8_lossy(bytes).into_owned();
                return Err(StepError::Rank { rank, problem });
            }
        }
        Ok(all)
    }

    /// Gives every rank what the first has to say; what the others bring is ignored.
    pub(crate) fn tell(&self, bytes: Vec<u8>) -> Vec<u8> {
        let mut bytes = bytes;
        self.world.broadcast(&mut bytes);
        bytes
    }

    /// What the first rank wants of all, itself included.
    pub(crate) fn order(&self, order: RankOrder) {
        self.tell(order.to_bytes().to_vec());
    }

    /// Waits for the next order of the first rank.
    pub(crate) fn next_order(&self) -> RankOrder {
        RankOrder::from_bytes(&self.tell(Vec::new()))
    }
}
