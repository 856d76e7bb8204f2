//! From the `[data]` section of a plan to data sets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dapple_plan::spec::{DataFormat, DataSpec};

use crate::formats::{ImageFolder, Npy, cifar, idx, named};
use crate::split::split;
use crate::{DataError, Dataset};

/// The records to train on, and those to evaluate on.
#[derive(Clone)]
pub struct Opened {
    /// Private records.
    pub train: Arc<dyn Dataset>,
    /// Records for evaluation: the test set, or those split off; none where the plan gives neither.
    pub test: Option<Arc<dyn Dataset>>,
}

/// Opens the data of a plan. Paths are relative to `base`.
///
/// # Errors
/// A missing key, a file that cannot be read, data that makes no sense.
pub fn open(spec: &DataSpec, base: &Path) -> Result<Opened, DataError> {
    let format = spec.format.ok_or_else(|| DataError::Missing {
        key: "data.format",
        why: format!("one of {}", DataFormat::ALL.map(DataFormat::name).join(", ")),
    })?;
    let source = |path: &Option<String>, labels: &Option<String>| {
        path.as_ref()
            .map(|path| Source { path: base.join(path), labels: labels.as_ref().map(|path| base.join(path)) })
    };
    let train = source(&spec.train, &spec.train_labels);
    let test = source(&spec.test, &spec.test_labels);
    let train = train.ok_or_else(|| DataError::Missing {
        key: "data.train",
        why: format!(
            "the {} to train on",
            if format == DataFormat::ImageFolder { "folder" } else { "files" }
        ),
    });
    if spec.validation.is_some() && (test.is_some() || format == DataFormat::FashionScenes) {
        let problem = "there is a test set already".to_owned();
        return Err(DataError::Setting { key: "data.validation", problem });
    }
    let (train, test) = match format {
        DataFormat::FashionScenes => {
            if spec.train.is_some() || spec.test.is_some() {
                let problem = "fashion-scenes are part of the program".to_owned();
                return Err(DataError::Setting { key: "data.train", problem });
            }
            let (train, test) = crate::scenes::fashion_scenes()?;
            (Arc::new(train) as Arc<dyn Dataset>, Some(Arc::new(test) as Arc<dyn Dataset>))
        }
        DataFormat::ImageFolder => {
            let train = ImageFolder::open(&train?.path)?;
            let like = train.class_names().unwrap_or_default();
            let test = test.map(|test| ImageFolder::open_like(&test.path, like)).transpose()?;
            (Arc::new(train) as Arc<dyn Dataset>, test.map(|test| Arc::new(test) as Arc<dyn Dataset>))
        }
        DataFormat::Idx | DataFormat::Cifar | DataFormat::Npy => {
            let train = files(format, &train?, Part::Train, spec.classes)?;
            let classes = Some(train.classes());
            let test = test.map(|test| files(format, &test, Part::Test, classes)).transpose()?;
            (train, test)
        }
    };
    if let Some(expected) = spec.classes
        && expected != train.classes()
    {
        let path = base.join(spec.train.as_deref().unwrap_or(format.name()));
        return Err(DataError::Classes { path, expected, found: train.classes() });
    }
    match spec.validation {
        None | Some(0.0) => Ok(Opened { train, test }),
        Some(share) => {
            let (train, validation) = split(&train, share, spec.split_seed.unwrap_or(0))?;
            Ok(Opened { train: Arc::new(train), test: Some(Arc::new(validation)) })
        }
    }
}

struct Source {
    path: PathBuf,
    labels: Option<PathBuf>,
}

#[derive(Clone, Copy)]
enum Part {
    Train,
    Test,
}

fn files(
    format: DataFormat,
    source: &Source,
    part: Part,
    classes: Option<u32>,
) -> Result<Arc<dyn Dataset>, DataError> {
    let path = &source.path;
    let labels = || {
        let key = match part {
            Part::Train => "data.train_labels",
            Part::Test => "data.test_labels",
        };
        let why = format!("the labels of {}", path.display());
        source.labels.clone().ok_or(DataError::Missing { key, why })
    };
    match format {
        DataFormat::Idx if path.is_dir() => {
            let prefix = match part {
                Part::Train => "train",
                Part::Test => "t10k",
            };
            let find = |kind: &str| {
                let name = format!("{prefix}-{kind}-ubyte");
                named(path, &name)
                    .ok_or_else(|| DataError::malformed(path, format!("no {name} or {name}.gz in it")))
            };
            Ok(Arc::new(idx(&find("images-idx3")?, &find("labels-idx1")?, classes)?))
        }
        DataFormat::Idx => Ok(Arc::new(idx(path, &labels()?, classes)?)),
        DataFormat::Cifar => Ok(Arc::new(cifar(&cifar_files(path, part)?, classes)?)),
        _ => Ok(Arc::new(Npy::open(path, &labels()?, classes)?)),
    }
}

/// The files of one part of CIFAR: the path itself, or the usual names in a folder.
fn cifar_files(path: &Path, part: Part) -> Result<Vec<PathBuf>, DataError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let batches: Vec<String> = (1..=5).map(|number| format!("data_batch_{number}.bin")).collect();
    let candidates = match part {
        Part::Train => [batches, vec!["train.bin".to_owned()]],
        Part::Test => [vec!["test_batch.bin".to_owned()], vec!["test.bin".to_owned()]],
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
