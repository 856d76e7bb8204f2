//! From the `[data]` section of a plan to data sets.

mod files;
mod maps;

use std::path::Path;
use std::sync::Arc;

use dapple_plan::spec::{DataFormat, PlanSpec};

use crate::formats::ImageFolder;
use crate::split::split;
use crate::{DataError, Dataset, Limits, MAX_CLASSES};
use files::{Part, Source, files};

/// The records to train on, and those to evaluate on.
#[derive(Clone)]
pub struct Opened {
    /// Private records.
    pub train: Arc<dyn Dataset>,
    /// Records for evaluation: the test set, or those split off; none where the plan gives neither.
    pub test: Option<Arc<dyn Dataset>>,
}

/// Opens the data of a plan, whose relation decides how records are split off. Paths are relative to `base`.
///
/// # Errors
/// A missing key, a file that cannot be read, data that makes no sense.
pub fn open(plan: &PlanSpec, base: &Path) -> Result<Opened, DataError> {
    let spec = &plan.data;
    let limits = &Limits::of(spec);
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
    maps::refuse_keys(spec, format)?;
    if let Some(classes) = spec.classes.filter(|classes| !(1..=MAX_CLASSES).contains(classes)) {
        let problem = format!("{classes} classes, but from 1 to {MAX_CLASSES} are told apart");
        return Err(DataError::Setting { key: "data.classes", problem });
    }
    let composed = match format {
        DataFormat::FashionScenes => Some("fashion-scenes are part of the program"),
        DataFormat::StreetScenes => Some("street-scenes are drawn by the program"),
        _ => None,
    };
    if let Some(problem) = composed
        && (train.is_some() || test.is_some())
    {
        return Err(DataError::Setting { key: "data.train", problem: problem.to_owned() });
    }
    if spec.validation.is_some() && (test.is_some() || composed.is_some()) {
        let problem = "there is a test set already".to_owned();
        return Err(DataError::Setting { key: "data.validation", problem });
    }
    let train = train.ok_or_else(|| {
        let files = matches!(format, DataFormat::Idx | DataFormat::Cifar | DataFormat::Npy);
        let why = format!("the {} to train on", if files { "files" } else { "folder" });
        DataError::Missing { key: "data.train", why }
    });
    let (train, test) = match format {
        DataFormat::FashionScenes => {
            let (train, test) = crate::scenes::fashion_scenes()?;
            both(train, Some(test))
        }
        DataFormat::StreetScenes => {
            let (train, test) = crate::street::street_scenes()?;
            both(train, Some(test))
        }
        DataFormat::ImageFolder => {
            let train = ImageFolder::open(&train?.path, limits)?;
            let like = train.class_names().unwrap_or_default();
            let test = test.map(|test| ImageFolder::open_like(&test.path, like, limits)).transpose()?;
            both(train, test)
        }
        DataFormat::Idx | DataFormat::Cifar | DataFormat::Npy => {
            let train = files(format, &train?, Part::Train, spec.classes, limits)?;
            let classes = Some(train.classes());
            let test = test.map(|test| files(format, &test, Part::Test, classes, limits)).transpose()?;
            (train, test)
        }
        DataFormat::ImagePairs | DataFormat::Cityscapes | DataFormat::A2d2 => {
            let train = maps::pairs(format, &train?, Part::Train, spec)?;
            let test = test.map(|test| maps::pairs(format, &test, Part::Test, spec)).transpose()?;
            both(train, test)
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
            let (train, validation) = split(&train, share, spec.split_seed.unwrap_or(0), plan.relation())?;
            Ok(Opened { train: Arc::new(train), test: Some(Arc::new(validation)) })
        }
    }
}

fn both<T: Dataset + 'static>(train: T, test: Option<T>) -> (Arc<dyn Dataset>, Option<Arc<dyn Dataset>>) {
    (Arc::new(train), test.map(|test| Arc::new(test) as Arc<dyn Dataset>))
}
