//! The keys that one process uses for its part of a run.

use dapple_data::{LoaderKeys, MasterKey, Purpose, PurposeKey, SamplerKeys};
use dapple_plan::{Plan, Sampling};

use crate::digest;
use crate::error::TrainError;
use crate::files::{self, Access};
use crate::folder::Folder;
use crate::ledger::Start;
use crate::prepare::Prepared;
use crate::step::StepKeys;

/// Keys that come fresh from the operating system in every process, so that noise is never drawn twice, or that follow from the seed.
pub(super) struct Keys {
    master: MasterKey,
    pub(super) sampling: SamplerKeys,
    pub(super) loader: LoaderKeys,
    /// Which records a step sees the public part of, and how, if they are not those of the private parts.
    pub(super) public_sampling: SamplerKeys,
    pub(super) public_loader: LoaderKeys,
    pub(super) step: StepKeys,
}

impl Keys {
    /// The keys of a new run in a folder, and the digest of the one that is kept: which steps a record may join is drawn once and must be the
    /// same after a crash.
    pub(super) fn begin(prepared: &Prepared, folder: &Folder) -> Result<(Self, Option<String>), TrainError> {
        let mut keys = Self::fresh(prepared)?;
        let Some(kept) = keys.kept(prepared) else { return Ok((keys, None)) };
        let bytes = kept.to_bytes();
        files::write_for(&folder.sampling_key(), &bytes, Access::Owner)?;
        let digest = digest::of(&[&bytes]);
        Ok((keys, Some(digest)))
    }

    /// The keys of a run that goes on. The kept key is never replaced, because other allocations or groups would let a record join more steps
    /// than were priced.
    pub(super) fn again(prepared: &Prepared, folder: &Folder, start: &Start) -> Result<Self, TrainError> {
        let mut keys = Self::fresh(prepared)?;
        if let Some(kept) = keys.kept(prepared) {
            let changed = || TrainError::Changed { folder: folder.root().to_owned(), what: "sampling key" };
            let bytes = files::read(&folder.sampling_key()).map_err(|_| changed())?;
            if start.sampling_key.as_ref().is_some_and(|expected| digest::of(&[&bytes]) != *expected) {
                return Err(changed());
            }
            let bytes = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| changed())?;
            *kept = PurposeKey::from_bytes(bytes);
        }
        Ok(keys)
    }

    /// Keys from which nothing has been drawn before, unless a seed decides.
    pub(super) fn fresh(prepared: &Prepared) -> Result<Self, TrainError> {
        Ok(Self::of(match prepared.training.conduct.seed {
            Some(seed) => MasterKey::from_seed(seed),
            None => MasterKey::from_os()?,
        }))
    }

    /// The keys that follow from a master key.
    fn of(master: MasterKey) -> Self {
        Self {
            sampling: SamplerKeys::of(&master),
            loader: LoaderKeys::of(&master),
            public_sampling: SamplerKeys {
                draws: master.purpose(Purpose::PublicSampling),
                ..SamplerKeys::of(&master)
            },
            public_loader: LoaderKeys {
                views: master.purpose(Purpose::PublicViews),
                ..LoaderKeys::of(&master)
            },
            step: StepKeys::of(&master),
            master,
        }
    }

    /// What the processes that share a run must have in common.
    pub(super) fn to_bytes(&self) -> [u8; 96] {
        let SamplerKeys { draws, groups } = &self.sampling;
        let keys = [self.master.to_bytes(), draws.to_bytes(), groups.to_bytes()];
        std::array::from_fn(|at| keys[at / 32][at % 32])
    }

    /// The keys of bytes that [`Keys::to_bytes`] gave.
    pub(super) fn from_bytes(bytes: &[u8; 96]) -> Self {
        let [master, draws, groups] =
            std::array::from_fn(|key| std::array::from_fn(|at| bytes[32 * key + at]));
        let [draws, groups] = [draws, groups].map(PurposeKey::from_bytes);
        Self { sampling: SamplerKeys { draws, groups }, ..Self::of(MasterKey::from_bytes(master)) }
    }

    /// The key that must survive the process: that of allocations, or of the groups that steps draw from in turn. Draws from a group have
    /// fresh keys in every process, as all coins have.
    fn kept(&mut self, prepared: &Prepared) -> Option<&mut PurposeKey> {
        let any = |kept: fn(&Plan) -> bool| !prepared.deterministic() && prepared.parts().iter().any(kept);
        match () {
            () if any(|part| matches!(part.sampling(), Sampling::Balanced { .. })) => {
                Some(&mut self.sampling.draws)
            }
            () if any(|part| part.groups() > 1) => Some(&mut self.sampling.groups),
            () => None,
        }
    }
}
