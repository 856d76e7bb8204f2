//! The state of a run on disk, which is either complete or not there.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use dapple_graph::Parameters;
use dapple_private::{Learned, OptimiserState, ScaleState};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};

use crate::digest;
use crate::error::{TrainError, one_line};
use crate::files;

/// The most bytes of a checkpoint's header, which names four tensors and a place.
const LARGEST_HEAD: u64 = 1 << 20;
/// How many checkpoints are kept.
const KEPT: usize = 2;
const BEFORE_CHECKSUM: &[u8] = b"\"checksum\":\"";
const NO_CHECKSUM: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Everything that a run needs to go on, apart from what its folder says elsewhere. It holds released values only: no key, no noise, no
/// record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) place: CheckpointPlace,
    pub(crate) parameters: Vec<f32>,
    pub(crate) optimiser: OptimiserState,
    pub(crate) mean: Option<Vec<f32>>,
}

/// Where in the run a checkpoint was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointPlace {
    /// The next step of the plan.
    pub(crate) step: u64,
    /// Updates of the optimiser. They are fewer than steps if a crash lost some.
    pub(crate) optimiser_updates: u64,
    /// The noise's part of the optimiser's second moments, where it takes one off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) optimiser_noise: Option<f64>,
    /// The clip norm of the next step, where it follows a quantile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clip_norm: Option<f64>,
    /// What the scales of gradients follow from, where there are any: a running mean for each parameter, and what noise leaves in doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gradient_scales: Option<[Vec<f64>; 2]>,
    /// Digest of the plan.
    pub(crate) spec: String,
    /// Number of lines of the ledger at that time; the hash of the last line follows.
    pub(crate) ledger_lines: usize,
    pub(crate) ledger_hash: String,
}

impl Checkpoint {
    /// The checkpoint of a run at this place.
    ///
    /// # Errors
    /// A weight that is not finite.
    pub(crate) fn of(learned: &Learned, place: CheckpointPlace) -> Result<Self, TrainError> {
        learned.check()?;
        Ok(Self {
            place,
            parameters: learned.parameters.values().to_vec(),
            optimiser: learned.optimiser.state().clone(),
            mean: learned.mean.as_ref().map(|mean| mean.parameters().values().to_vec()),
        })
    }

    /// Restores what was learned; `false` if it does not fit the model.
    pub(crate) fn restore(self, learned: &mut Learned) -> bool {
        let mean_fits = match (&mut learned.mean, &self.mean) {
            (Some(mean), Some(values)) => Self::fill(values, mean.parameters_mut()),
            (None, None) => true,
            _ => false,
        };
        let clip_fits = match (&mut learned.clip, self.place.clip_norm) {
            (Some(clip), Some(norm)) => clip.restore(norm),
            (None, None) => true,
            _ => false,
        };
        let scales_fit = match (&mut learned.scales, &self.place.gradient_scales) {
            (Some(scales), Some([moments, doubts])) => {
                scales.restore(&ScaleState { moments: moments.clone(), doubts: doubts.clone() })
            }
            (None, None) => true,
            _ => false,
        };
        mean_fits
            && clip_fits
            && scales_fit
            && Self::fill(&self.parameters, &mut learned.parameters)
            && learned.optimiser.restore(self.optimiser)
    }

    /// The bytes of a safetensors file that contains its own checksum: SHA-256 of the file with zeros in place of the checksum.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let tensors = [
            ("parameters", Some(&self.parameters)),
            ("optimiser.first", Some(&self.optimiser.first)),
            ("optimiser.second", Some(&self.optimiser.second)),
            ("mean", self.mean.as_ref()),
        ];
        let encoded: Vec<(&str, Vec<u8>, usize)> = tensors
            .into_iter()
            .filter_map(|(name, values)| {
                let values = values?;
                Some((name, values.iter().flat_map(|value| value.to_le_bytes()).collect(), values.len()))
            })
            .collect();
        let views: Vec<(&str, TensorView<'_>)> = encoded
            .iter()
            .map(|(name, bytes, len)| Ok((*name, TensorView::new(Dtype::F32, vec![*len], bytes)?)))
            .collect::<Result<_, safetensors::SafeTensorError>>()
            .map_err(|error| error.to_string())?;
        let place = serde_json::to_string(&self.place).map_err(|error| error.to_string())?;
        let metadata = [("checksum", NO_CHECKSUM), ("place", &place)];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect();
        let mut bytes = safetensors::serialize(views, Some(metadata)).map_err(|error| error.to_string())?;
        if !seal(&mut bytes) {
            return Err("it has no checksum".to_owned());
        }
        Ok(bytes)
    }

    /// Reads the bytes of a checkpoint. Its checksum covers every one of them.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let at = checksum_place(bytes).ok_or("it is no checkpoint")?;
        let (before, rest) = bytes.split_at(at);
        let (stored, after) = rest.split_at(NO_CHECKSUM.len());
        if digest::of(&[before, NO_CHECKSUM.as_bytes(), after]).as_bytes() != stored {
            return Err("it is damaged: its checksum does not match".to_owned());
        }
        let words = |error: safetensors::SafeTensorError| one_line(error);
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(words)?;
        let place = metadata
            .metadata()
            .as_ref()
            .and_then(|map| map.get("place"))
            .ok_or("it has no place in a run")?;
        let place: CheckpointPlace = serde_json::from_str(place).map_err(one_line)?;
        let file = SafeTensors::deserialize(bytes).map_err(words)?;
        let values = |name: &str| -> Result<Vec<f32>, String> {
            let tensor = file.tensor(name).map_err(words)?;
            Ok(tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        };
        let has_mean = file.names().contains(&"mean");
        Ok(Self {
            parameters: values("parameters")?,
            optimiser: OptimiserState {
                updates: place.optimiser_updates,
                first: values("optimiser.first")?,
                second: values("optimiser.second")?,
                noise: place.optimiser_noise.unwrap_or(0.0),
            },
            mean: if has_mean { Some(values("mean")?) } else { None },
            place,
        })
    }

    /// Writes the checkpoint into a folder and removes older ones that are no longer needed.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), TrainError> {
        let path = folder.join(format!("step-{:010}.safetensors", self.place.step));
        let bytes =
            self.to_bytes().map_err(|problem| TrainError::Checkpoint { path: path.clone(), problem })?;
        files::write_atomic(&path, &bytes)?;
        let old = list(folder)?;
        for path in old.iter().rev().skip(KEPT) {
            // An old checkpoint that stays only takes room.
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// The newest intact checkpoint of a folder, with the errors of newer ones; `None` if none was ever written.
    pub(crate) fn newest(folder: &Path) -> Result<Option<(Self, Vec<TrainError>)>, TrainError> {
        let mut damaged = Vec::new();
        for path in list(folder)?.into_iter().rev() {
            match Self::from_bytes(&files::read(&path)?) {
                Ok(checkpoint) => return Ok(Some((checkpoint, damaged))),
                Err(problem) => damaged.push(TrainError::Checkpoint { path, problem }),
            }
        }
        damaged.into_iter().next().map_or(Ok(None), Err)
    }

    /// Where in the run a checkpoint was taken, read from its header alone. That is cheap, but not covered by the checksum. `None` if the
    /// file is not a checkpoint.
    pub(crate) fn place_of(path: &Path) -> Option<CheckpointPlace> {
        let mut file = fs::File::open(path).ok()?;
        let mut length = [0; 8];
        file.read_exact(&mut length).ok()?;
        let length = u64::from_le_bytes(length);
        let mut head = Vec::new();
        if length > LARGEST_HEAD || file.take(length).read_to_end(&mut head).ok()? as u64 != length {
            return None;
        }
        let head: serde_json::Value = serde_json::from_slice(&head).ok()?;
        serde_json::from_str(head["__metadata__"]["place"].as_str()?).ok()
    }

    /// Refuses a folder in which a checkpoint is damaged.
    pub(crate) fn check_all(folder: &Path) -> Result<(), TrainError> {
        for path in list(folder)? {
            Self::from_bytes(&files::read(&path)?)
                .map_err(|problem| TrainError::Checkpoint { path, problem })?;
        }
        Ok(())
    }

    /// The weights to evaluate and to keep: the running mean if there is one.
    pub(crate) fn weights(&self) -> &[f32] {
        self.mean.as_ref().unwrap_or(&self.parameters)
    }

    /// The error of a checkpoint that does not fit the model.
    pub(crate) fn misfit(folder: PathBuf) -> TrainError {
        TrainError::Checkpoint { path: folder, problem: "it does not fit the model of the plan".to_owned() }
    }

    /// Puts stored values into parameters; `false` if they do not fit.
    pub(crate) fn fill(values: &[f32], parameters: &mut Parameters) -> bool {
        let fits = values.len() == parameters.values().len();
        if fits {
            parameters.values_mut().copy_from_slice(values);
        }
        fits
    }
}

/// Computes the checksum of the bytes and writes it into them; `false` if they have no place for it.
pub(crate) fn seal(bytes: &mut [u8]) -> bool {
    let Some(at) = checksum_place(bytes) else { return false };
    let place = at..at + NO_CHECKSUM.len();
    bytes[place.clone()].copy_from_slice(NO_CHECKSUM.as_bytes());
    let checksum = digest::of(&[bytes]);
    bytes[place].copy_from_slice(checksum.as_bytes());
    true
}

/// Where the digits of the checksum begin.
fn checksum_place(bytes: &[u8]) -> Option<usize> {
    let found = bytes.windows(BEFORE_CHECKSUM.len()).position(|window| window == BEFORE_CHECKSUM)?;
    let at = found + BEFORE_CHECKSUM.len();
    (at + NO_CHECKSUM.len() <= bytes.len()).then_some(at)
}

/// The checkpoints of a folder, oldest first; an empty list if there is no folder.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let failed = |source| TrainError::file(folder, source);
    let mut paths = Vec::new();
    if !folder.exists() {
        return Ok(paths);
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checkpoint(step: u64, mean: bool) -> Checkpoint {
        let values = |n: usize, scale: f32| (0..n).map(|i| i as f32 * scale).collect::<Vec<f32>>();
        Checkpoint {
            place: CheckpointPlace {
                step,
                optimiser_updates: step,
                optimiser_noise: mean.then_some(0.1 + 0.2),
                clip_norm: mean.then_some(0.7 / 3.0),
                gradient_scales: mean.then(|| [vec![0.1 + 0.2, -1e-300], vec![0.7 / 3.0, 0.0]]),
                spec: "spec".into(),
                ledger_lines: 3,
                ledger_hash: "hash".into(),
            },
            parameters: values(7, 0.1),
            optimiser: OptimiserState {
                updates: step,
                first: values(5, 0.2),
                second: Vec::new(),
                noise: if mean { 0.1 + 0.2 } else { 0.0 },
            },
            mean: mean.then(|| values(7, 0.3)),
        }
    }

    #[test]
    fn what_is_written_is_read_and_the_last_two_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Checkpoint::newest(folder.path()).unwrap().is_none());
        for step in [1, 20, 300, 4000] {
            checkpoint(step, step > 100).write(folder.path()).unwrap();
        }
        assert_eq!(list(folder.path()).unwrap().len(), 2);
        let (newest, damaged) = Checkpoint::newest(folder.path()).unwrap().unwrap();
        assert_eq!((newest, damaged.len()), (checkpoint(4000, true), 0));
        let paths = list(folder.path()).unwrap();
        assert_eq!(Checkpoint::place_of(&paths[1]), Some(checkpoint(4000, true).place));
        Checkpoint::check_all(folder.path()).unwrap();
    }

    #[test]
    fn a_damaged_checkpoint_gives_way_to_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        checkpoint(1, false).write(folder.path()).unwrap();
        checkpoint(2, false).write(folder.path()).unwrap();
        let paths = list(folder.path()).unwrap();
        let bytes = fs::read(&paths[1]).unwrap();
        fs::write(&paths[1], &bytes[..bytes.len() - 3]).unwrap();
        let (newest, damaged) = Checkpoint::newest(folder.path()).unwrap().unwrap();
        assert_eq!((newest.place.step, damaged.len()), (1, 1));
        assert!(Checkpoint::check_all(folder.path()).is_err());
        fs::write(&paths[0], b"").unwrap();
        assert!(Checkpoint::newest(folder.path()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn every_flipped_bit_and_every_cut_is_noticed(place in any::<prop::sample::Index>(), bit in 0u8..8, mean: bool) {
            let bytes = checkpoint(9, mean).to_bytes().unwrap();
            let at = place.index(bytes.len());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            prop_assert!(Checkpoint::from_bytes(&flipped).is_err());
            prop_assert!(Checkpoint::from_bytes(&bytes[..at]).is_err());
            prop_assert_eq!(Checkpoint::from_bytes(&bytes).unwrap(), checkpoint(9, mean));
        }

        #[test]
        fn every_number_is_read_back_to_its_bits(bits in prop::collection::vec(any::<u32>(), 7)) {
            let mut written = checkpoint(3, true);
            written.parameters = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
            let read = Checkpoint::from_bytes(&written.to_bytes().unwrap()).unwrap();
            prop_assert_eq!(read.parameters.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits);
        }

        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Checkpoint::from_bytes(&bytes).is_err());
        }
    }
}
