//! The keys that one process uses for its part of a run.

use dapple_data::{LoaderKeys, MasterKey, Purpose, PurposeKey};
use dapple_plan::Sampling;

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
    pub(super) sampling: PurposeKey,
    pub(super) loader: LoaderKeys,
    /// Which records a step sees the public part of, and how, if they are not those of the private parts.
    pub(super) public_sampling: PurposeKey,
    pub(super) public_loader: LoaderKeys,
    pub(super) step: StepKeys,
}

impl Keys {
    /// The keys of a new run in a folder, and the digest of the one that is kept: which steps of an epoch a record joins is drawn once
    /// and must be the same after a crash.
    pub(super) fn begin(prepared: &Prepared, folder: &Folder) -> Result<(Self, Option<String>), TrainError> {
        let keys = Self::fresh(prepared)?;
        if !is_kept(prepared) {
            return Ok((keys, None));
        }
        let bytes = keys.sampling.to_bytes();
        files::write_for(&folder.sampling_key(), &bytes, Access::Owner)?;
        let digest = digest::of(&[&bytes]);
        Ok((keys, Some(digest)))
    }

    /// The keys of a run that goes on. The kept key is never replaced, because another allocation would let a record join more steps than
    /// were priced.
    pub(super) fn again(prepared: &Prepared, folder: &Folder, start: &Start) -> Result<Self, TrainError> {
        let mut keys = Self::fresh(prepared)?;
        if is_kept(prepared) {
            let changed =
                || TrainError::Changed { folder: folder.root().to_owned(), what: "key of balanced sampling" };
            let bytes = files::read(&folder.sampling_key()).map_err(|_| changed())?;
            if start.sampling_key.as_ref().is_some_and(|expected| digest::of(&[&bytes]) != *expected) {
                return Err(changed());
            }
            let bytes = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| changed())?;
            keys.sampling = PurposeKey::from_bytes(bytes);
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
            sampling: master.purpose(Purpose::Sampling),
            loader: LoaderKeys::of(&master),
            public_sampling: master.purpose(Purpose::PublicSampling),
            public_loader: LoaderKeys {
                views: master.purpose(Purpose::PublicViews),
                ..LoaderKeys::of(&master)
            },
            step: StepKeys::of(&master),
            master,
        }
    }

    /// What the processes that share a run must have in common.
    pub(super) fn to_bytes(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&self.master.to_bytes());
        bytes[32..].copy_from_slice(&self.sampling.to_bytes());
        bytes
    }

    /// The keys of bytes that [`Keys::to_bytes`] gave.
    pub(super) fn from_bytes(bytes: &[u8; 64]) -> Self {
        let [mut master, mut sampling] = [[0; 32]; 2];
        master.copy_from_slice(&bytes[..32]);
        sampling.copy_from_slice(&bytes[32..]);
        Self { sampling: PurposeKey::from_bytes(sampling), ..Self::of(MasterKey::from_bytes(master)) }
    }
}

/// Whether the sampling key must survive the process.
pub(super) fn is_kept(prepared: &Prepared) -> bool {
    let balanced = prepared.parts().iter().any(|part| matches!(part.sampling(), Sampling::Balanced { .. }));
    balanced && !prepared.deterministic()
}
