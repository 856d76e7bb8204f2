//! Opens the data sets that a plan names.

mod files;
mod fill;
mod maps;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dapple_plan::spec::DataFormat;
use dapple_plan::{DataPlan, HeldOut, ProgramScenes, RecordFiles, RecordOrigin, StoredFormat};

use crate::clips::{Clips, SplitPlan};
use crate::formats::{ImageFolder, ShardedArrays, ShardedClips, ShardedImages, ShardedPairs};
use crate::masks::MaskedRecords;
use crate::split::{split, split_users, stratified_split};
use crate::users::{UserRecords, Users, read_users};
use crate::{DataError, Dataset, Pool};
pub(crate) use files::DataPart;
use files::{ClassFiles, RecordPaths};
pub use fill::{fill_in, fill_in_from, left_to_data};
use maps::{MapFolders, class_map};

/// The records to train on, those to evaluate on, and synthetic images.
#[derive(Clone)]
pub struct Opened {
    /// Private records.
    pub train: Arc<dyn Dataset>,
    /// Records for evaluation: the test set, or those that were split off. There are none if the plan gives neither.
    pub test: Option<Arc<dyn Dataset>>,
    /// Synthetic images to show beside the records, if the plan names any.
    pub pool: Option<Arc<dyn Dataset>>,
}

/// Opens the data of a plan. Paths are relative to `base`.
///
/// # Errors
/// A plan that names no data, a file that cannot be read, data that makes no sense.
pub fn open(plan: &DataPlan, base: &Path) -> Result<Opened, DataError> {
    let (opened, named) = match &plan.origin {
        RecordOrigin::Caller => {
            let formats = DataFormat::ALL.map(DataFormat::name).join(", ");
            return Err(DataError::missing("data.format", format!("one of {formats}")));
        }
        RecordOrigin::Program(ProgramScenes::Fashion) => {
            let (train, test) = crate::scenes::fashion_scenes()?;
            (both(train, Some(test)), DataFormat::FashionScenes.name())
        }
        RecordOrigin::Program(ProgramScenes::Street) => {
            let (train, test) = crate::street::street_scenes()?;
            (both(train, Some(test)), DataFormat::StreetScenes.name())
        }
        RecordOrigin::Program(ProgramScenes::MovingShapes { frames, private }) => {
            let (train, test) = crate::moving::moving_shapes(*frames as usize, *private)?;
            (both(train, Some(test)), DataFormat::MovingShapes.name())
        }
        RecordOrigin::Stored { format, train, held_out } => {
            (stored(plan, base, (format, train, held_out))?, train.path.as_str())
        }
    };
    if let Some(expected) = plan.classes
        && expected != opened.train.classes()
    {
        let path = base.join(named);
        return Err(DataError::Classes { path, expected, found: opened.train.classes() });
    }
    let opened = match &plan.masks {
        // Clips find their masks by themselves.
        Some(masks) if opened.train.frames().is_none() => {
            let train = MaskedRecords::open(opened.train, &base.join(masks), &plan.limits)?;
            Opened { train: Arc::new(train), ..opened }
        }
        _ => opened,
    };
    let pool = plan.pool.as_ref().map(|pool| Pool::open(pool, base, &*opened.train, &plan.limits));
    let pool = pool.transpose()?.map(|pool| Arc::new(pool) as Arc<dyn Dataset>);
    if let Some(file) = &plan.users {
        let users = read_users(&base.join(&file.path), &*opened.train, &plan.limits)?;
        return with_users(plan, Opened { pool, ..opened }, users.with_most(file.max_records));
    }
    match plan.origin {
        RecordOrigin::Stored { held_out: HeldOut::Share { share, seed, relation, stratified }, .. } => {
            let (train, validation) = match stratified {
                true => stratified_split(&opened.train, share, seed)?,
                false => split(&opened.train, share, seed, relation)?,
            };
            Ok(Opened { train: Arc::new(train), test: Some(Arc::new(validation)), pool })
        }
        _ => Ok(Opened { pool, ..opened }),
    }
}

/// The same with the users of the records to train on. Users that are split off are split off with all of their records.
fn with_users(plan: &DataPlan, opened: Opened, users: Users) -> Result<Opened, DataError> {
    let (train, users, test) = match plan.origin {
        RecordOrigin::Stored { held_out: HeldOut::Share { share, seed, .. }, .. } => {
            let (train, users, validation) = split_users(&opened.train, &users, share, seed)?;
            (Arc::new(train) as Arc<dyn Dataset>, users, Some(Arc::new(validation) as Arc<dyn Dataset>))
        }
        _ => (opened.train, users, opened.test),
    };
    Ok(Opened { train: Arc::new(UserRecords::new(train, users)), test, pool: opened.pool })
}

/// Opens what lies on disk: the records to train on, before any are split off, and the test set if it has files of its own.
fn stored(
    plan: &DataPlan,
    base: &Path,
    (format, train, held_out): (&StoredFormat, &RecordFiles, &HeldOut),
) -> Result<Opened, DataError> {
    let source = |files: &RecordFiles| RecordPaths {
        path: base.join(&files.path),
        labels: files.labels.as_ref().map(|path| base.join(path)),
    };
    let train = source(train);
    let test = match held_out {
        HeldOut::Files(files) => Some(source(files)),
        HeldOut::Nothing | HeldOut::Share { .. } => None,
    };
    for (key, files) in [("data.train", Some(&train)), ("data.test", test.as_ref())] {
        if let Some(RecordPaths { path, .. }) = files.filter(|files| !files.path.exists()) {
            return Err(DataError::Absent { key, path: path.clone() });
        }
    }
    let limits = &plan.limits;
    let of_files = |format: ClassFiles| {
        let train = format.open(&train, DataPart::Train, plan.classes, limits)?;
        let classes = Some(train.classes());
        let test =
            test.as_ref().map(|test| format.open(test, DataPart::Test, classes, limits)).transpose()?;
        Ok(Opened { train, test, pool: None })
    };
    let of_maps = |format: MapFolders<'_>| {
        let train = format.open(&train, DataPart::Train, limits)?;
        let test = test.as_ref().map(|test| format.open(test, DataPart::Test, limits)).transpose()?;
        Ok(both(train, test))
    };
    match format {
        StoredFormat::ImageFolder => {
            let train = ImageFolder::open(&train.path, limits)?;
            let like = train.class_names().unwrap_or_default();
            let test = test.map(|test| ImageFolder::open_like(&test.path, like, limits)).transpose()?;
            Ok(both(train, test))
        }
        StoredFormat::ImageList => {
            let list = |paths: &RecordPaths, key| {
                let why = format!("the list of pictures below {}", paths.path.display());
                paths.labels.clone().ok_or_else(|| DataError::missing(key, why))
            };
            let train_list = list(&train, "data.train_labels")?;
            let train = ImageFolder::open_list(&train.path, &train_list, limits)?;
            let like = train.class_names().unwrap_or_default();
            let test = test.map(|test| {
                let test_list = list(&test, "data.test_labels")?;
                ImageFolder::open_list_like(&test.path, &test_list, like, limits)
            });
            Ok(both(train, test.transpose()?))
        }
        StoredFormat::ImageShards => {
            let train = ShardedImages::open(&train.path, &listed(&train, TRAIN_LIST)?, limits)?;
            let like = train.class_names().unwrap_or_default();
            let test = test
                .map(|test| ShardedImages::open_like(&test.path, &listed(&test, TEST_LIST)?, like, limits));
            Ok(both(train, test.transpose()?))
        }
        StoredFormat::PairShards(classes) => {
            let map = class_map(classes)?;
            let open = |paths: &RecordPaths, key| {
                ShardedPairs::open(&paths.path, &listed(paths, key)?, map.clone(), limits)
            };
            let test = test.map(|test| open(&test, TEST_LIST)).transpose()?;
            Ok(both(open(&train, TRAIN_LIST)?, test))
        }
        StoredFormat::ArrayShards => {
            let open = |paths: &RecordPaths, key, classes| {
                ShardedArrays::open(&paths.path, &listed(paths, key)?, classes, limits)
            };
            let train = open(&train, TRAIN_LIST, plan.classes)?;
            let test = test.map(|test| open(&test, TEST_LIST, Some(train.classes()))).transpose()?;
            Ok(both(train, test))
        }
        StoredFormat::ClipShards { frames } => {
            let open = |paths: &RecordPaths, key, like| {
                ShardedClips::open(&paths.path, &listed(paths, key)?, like, *frames as usize, limits)
            };
            let train = open(&train, TRAIN_LIST, None)?;
            let test = test.map(|test| open(&test, TEST_LIST, train.class_names())).transpose()?;
            let train = match &plan.masks {
                Some(masks) => train.with_masks(&base.join(masks))?,
                None => train,
            };
            Ok(both(train, test))
        }
        StoredFormat::Clips { layout, frames } => {
            let split = SplitPlan { layout: *layout, lists: train.labels.as_deref(), classes: plan.classes };
            let clips = |root: &Path, part, like| match split.part(root, part, limits)? {
                None => Clips::open(root, like, *frames as usize, limits),
                Some(part) => Clips::open_split(root, part, *frames as usize, limits),
            };
            let train = clips(&train.path, DataPart::Train, None)?;
            let test = test.map(|test| clips(&test.path, DataPart::Test, train.class_names())).transpose()?;
            if let Some(test) = &test
                && test.class_names() != train.class_names()
            {
                let what = "its classes are not those that are trained on".to_owned();
                return Err(DataError::setting("data.test", what));
            }
            let train = match &plan.masks {
                Some(masks) => train.with_masks(&base.join(masks))?,
                None => train,
            };
            Ok(both(train, test))
        }
        StoredFormat::Idx => of_files(ClassFiles::Idx),
        StoredFormat::Cifar => of_files(ClassFiles::Cifar),
        StoredFormat::Npy => of_files(ClassFiles::Npy),
        StoredFormat::ImagePairs(classes) => of_maps(MapFolders::Pairs(classes)),
        StoredFormat::Cityscapes => of_maps(MapFolders::Cityscapes),
        StoredFormat::A2d2 { train, test } => of_maps(MapFolders::A2d2 { train, test }),
    }
}

/// The keys of the lists of records in shards.
const TRAIN_LIST: &str = "data.train_labels";
const TEST_LIST: &str = "data.test_labels";

/// The list of records in shards.
fn listed(paths: &RecordPaths, key: &'static str) -> Result<PathBuf, DataError> {
    let why = format!("the list of the records below {} (`dapple data list`)", paths.path.display());
    paths.labels.clone().ok_or(DataError::missing(key, why))
}

fn both<T: Dataset + 'static>(train: T, test: Option<T>) -> Opened {
    let test = test.map(|test| Arc::new(test) as Arc<dyn Dataset>);
    Opened { train: Arc::new(train), test, pool: None }
}
