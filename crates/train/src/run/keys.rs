//! The keys of a process's part of a run.

use dapple_data::{MasterKey, Purpose, PurposeKey};
use dapple_plan::Sampling;

use crate::error::TrainError;
use crate::files;
use crate::folder::Folder;
use crate::prepare::Prepared;
use crate::step::StepKeys;

/// Fresh from the operating system in every process, so that noise is never drawn twice; or a function of the seed.
pub(super) struct Keys {
    pub(super) sampling: PurposeKey,
    pub(super) views: PurposeKey,
    pub(super) step: StepKeys,
}

impl Keys {
    /// The keys of a run in a folder.
    pub(super) fn new(prepared: &Prepared, folder: &Folder) -> Result<Self, TrainError> {
        let mut keys = Self::fresh(prepared)?;
        // Which steps of an epoch a record joins is drawn once, and must be the same after a crash.
        let balanced =
            prepared.parts().iter().any(|part| matches!(part.sampling(), Sampling::Balanced { .. }));
        if balanced && !prepared.deterministic() {
            keys.sampling = kept(folder, keys.sampling)?;
        }
        Ok(keys)
    }

    /// Keys that nothing else was drawn from.
    pub(super) fn fresh(prepared: &Prepared) -> Result<Self, TrainError> {
        let master = match prepared.spec.train.seed {
            Some(seed) => MasterKey::from_seed(seed),
            None => MasterKey::from_os()?,
        };
        Ok(Self {
            sampling: master.purpose(Purpose::Sampling),
            views: master.purpose(Purpose::Views),
            step: StepKeys {
                noise: master.purpose(Purpose::Noise),
                dropout: master.purpose(Purpose::Dropout),
            },
        })
    }
}

/// The key in the folder, or this one, which then is.
fn kept(folder: &Folder, fresh: PurposeKey) -> Result<PurposeKey, TrainError> {
    let path = folder.sampling_key();
    if !path.exists() {
        files::write_atomic(&path, &fresh.to_bytes())?;
        return Ok(fresh);
    }
    let bytes = files::read(&path)?;
    let key = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| TrainError::Changed {
        folder: folder.root().to_owned(),
        what: "key of balanced sampling",
    })?;
    Ok(PurposeKey::from_bytes(key))
}
