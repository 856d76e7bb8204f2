//! Formats that keep images and classes in files: IDX, CIFAR, numpy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dapple_plan::DataLimits;

use crate::formats::{Npy, cifar, idx, named};
use crate::{DataError, Dataset};

/// Where the records of one part are.
pub(super) struct RecordPaths {
    pub(super) path: PathBuf,
    pub(super) labels: Option<PathBuf>,
}

/// Which records are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataPart {
    Train,
    Test,
}

/// Formats that store each part in files rather than in folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClassFiles {
    Idx,
    Cifar,
    Npy,
}

impl ClassFiles {
    /// Opens the records of one part.
    pub(super) fn open(
        self,
        source: &RecordPaths,
        part: DataPart,
        classes: Option<u32>,
        limits: &DataLimits,
    ) -> Result<Arc<dyn Dataset>, DataError> {
        let path = &source.path;
        let labels = || {
            let key = match part {
                DataPart::Train => "data.train_labels",
                DataPart::Test => "data.test_labels",
            };
            let why = format!("the labels of {}", path.display());
            source.labels.clone().ok_or(DataError::missing(key, why))
        };
        match self {
            Self::Idx if path.is_dir() => {
                let prefix = match part {
                    DataPart::Train => "train",
                    DataPart::Test => "t10k",
                };
                let find = |kind: &str| {
                    let name = format!("{prefix}-{kind}-ubyte");
                    named(path, &name)
                        .ok_or_else(|| DataError::malformed(path, format!("no {name} or {name}.gz in it")))
                };
                Ok(Arc::new(idx(&find("images-idx3")?, &find("labels-idx1")?, classes, limits)?))
            }
            Self::Idx => Ok(Arc::new(idx(path, &labels()?, classes, limits)?)),
            Self::Cifar => Ok(Arc::new(cifar(&cifar_files(path, part)?, classes, limits)?)),
            Self::Npy => Ok(Arc::new(Npy::open(path, &labels()?, classes, limits)?)),
        }
    }
}

/// The files of one part of CIFAR: the path itself, or the usual names in a folder.
fn cifar_files(path: &Path, part: DataPart) -> Result<Vec<PathBuf>, DataError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let batches: Vec<String> = (1..=5).map(|number| format!("data_batch_{number}.bin")).collect();
    let candidates = match part {
        DataPart::Train => [batches, vec!["train.bin".to_owned()]],
        DataPart::Test => [vec!["test_batch.bin".to_owned()], vec!["test.bin".to_owned()]],
    };
    for names in &candidates {
        let found: Vec<PathBuf> = names.iter().filter_map(|name| named(path, name)).collect();
        if found.len() == names.len() {
            return Ok(found);
        }
    }
    let names = candidates.map(|names| names.join(", ")).join(" or ");
    Err(DataError::malformed(path, format!("neither {names} in it")))
}
