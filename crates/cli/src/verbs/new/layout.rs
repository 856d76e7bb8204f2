//! How a folder of photographs is arranged.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use dapple_plan::DataLimits;
use dapple_plan::spec::{DataFormat, DataSpec};
use dapple_train::data::formats::ImageFolder;
use dapple_train::data::segmentation::read_ids;
use dapple_train::data::{DataError, Dataset};

use crate::failure::Failure;

/// The number that label maps usually show where a pixel has no class.
const NO_LABEL: u8 = 255;
/// Where parts of a data set usually lie.
const TRAIN: [&str; 2] = ["train", "training"];
const TEST: [&str; 5] = ["test", "val", "valid", "validation", "testing"];
/// Endings of pictures.
const PICTURES: [&str; 8] = ["png", "jpg", "jpeg", "webp", "ppm", "pgm", "pbm", "pnm"];

/// What lies in a folder, as a plan says it. Paths are those that were typed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PhotoLayout {
    pub(super) format: DataFormat,
    pub(super) train: PathBuf,
    pub(super) test: Option<PathBuf>,
    /// Of label maps: the number of classes, and which numbers count for nothing.
    pub(super) classes: Option<u32>,
    pub(super) ignore: Vec<u32>,
}

impl PhotoLayout {
    /// Looks into a folder.
    pub(super) fn of(folder: &Path) -> Result<Self, Failure> {
        if !folder.is_dir() {
            return Err(DataError::Absent { key: "data.train", path: folder.to_owned() }.into());
        }
        let whole = |format| Self {
            format,
            train: folder.to_owned(),
            test: Some(folder.to_owned()),
            classes: None,
            ignore: Vec::new(),
        };
        let holds = |name: &str| folder.join(name).exists();
        if holds("leftImg8bit") && holds("gtFine") {
            return Ok(whole(DataFormat::Cityscapes));
        }
        if ["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"].into_iter().any(holds) {
            return Ok(whole(DataFormat::Idx));
        }
        if ["data_batch_1.bin", "train.bin"].into_iter().any(holds) {
            return Ok(whole(DataFormat::Cifar));
        }
        let part = |names: &[&str]| names.iter().map(|name| folder.join(name)).find(|path| path.is_dir());
        let train = part(&TRAIN);
        let test = train.as_ref().and_then(|_| part(&TEST));
        let train = train.unwrap_or_else(|| folder.to_owned());
        if train.join("images").is_dir() && train.join("labels").is_dir() {
            return pairs(train, test);
        }
        if let Some(found) = has_pictures(&train)? {
            return Err(Failure::request(
                format!("{} lies in no folder of a class, so nothing says what it shows", found.display()),
                format!(
                    "make a folder for each class ({0}/cat, {0}/dog) and put the pictures there; or put pictures in {0}/images and label maps of the same names in {0}/labels",
                    train.display()
                ),
            ));
        }
        // Whatever is wrong with the folders is said by the reader that will read them.
        let like = ImageFolder::open(&train, &DataLimits::default())?;
        if let Some(test) = &test {
            let classes = like.class_names().unwrap_or_default();
            ImageFolder::open_like(test, classes, &DataLimits::default())?;
        }
        Ok(Self { format: DataFormat::ImageFolder, train, test, classes: None, ignore: Vec::new() })
    }

    /// The `[data]` section without what does not follow from the folder.
    pub(super) fn data(&self) -> DataSpec {
        let text = |path: &PathBuf| path.display().to_string();
        DataSpec {
            format: Some(self.format),
            train: Some(text(&self.train)),
            test: self.test.as_ref().map(text),
            classes: self.classes,
            ignore: (!self.ignore.is_empty()).then(|| self.ignore.clone()),
            ..DataSpec::default()
        }
    }

    /// Whether every pixel has a class.
    pub(super) fn labels_pixels(&self) -> bool {
        matches!(self.format, DataFormat::ImagePairs | DataFormat::Cityscapes)
    }
}

/// The first picture that lies in a folder itself rather than in a folder of it.
fn has_pictures(folder: &Path) -> Result<Option<PathBuf>, Failure> {
    let entries = fs::read_dir(folder)
        .map_err(|source| Failure::from(DataError::Io { path: folder.to_owned(), source }))?;
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_picture(path)).collect();
    found.sort();
    Ok(found.into_iter().next())
}

fn is_picture(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    path.is_file() && ending.is_some_and(|ending| PICTURES.contains(&ending.as_str()))
}

/// Images with label maps. Their classes are the numbers that the maps show.
fn pairs(train: PathBuf, test: Option<PathBuf>) -> Result<PhotoLayout, Failure> {
    let labels = train.join("labels");
    let limits = DataLimits::default();
    let maps = ImageFolder::open_as(&labels, &["map".to_owned()], 0, &limits)?;
    let mut shown = BTreeSet::new();
    for map in 0..maps.len() {
        shown.extend(read_ids(Path::new(&maps.place(map)), &limits)?.1);
    }
    let ignored = shown.remove(&NO_LABEL);
    let classes = shown.last().map_or(1, |last| u32::from(*last) + 1);
    Ok(PhotoLayout {
        format: DataFormat::ImagePairs,
        train,
        test,
        classes: Some(classes),
        ignore: if ignored { vec![u32::from(NO_LABEL)] } else { Vec::new() },
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use image::{GrayImage, Luma, RgbImage};

    fn picture(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        RgbImage::new(4, 3).save(path).unwrap();
    }

    #[test]
    fn common_arrangements_are_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(PhotoLayout::of(&root.join("nowhere")).is_err());
        picture(&root.join("flat/1.jpg"));
        assert!(matches!(PhotoLayout::of(&root.join("flat")), Err(Failure::Request { .. })));
        picture(&root.join("classes/cat/1.png"));
        picture(&root.join("classes/dog/1.png"));
        let classes = PhotoLayout::of(&root.join("classes")).unwrap();
        assert_eq!((classes.format, classes.test), (DataFormat::ImageFolder, None));
        picture(&root.join("parts/train/cat/1.png"));
        picture(&root.join("parts/val/cat/1.png"));
        let parts = PhotoLayout::of(&root.join("parts")).unwrap();
        assert_eq!(parts.train, root.join("parts/train"));
        assert_eq!(parts.test, Some(root.join("parts/val")));
        picture(&root.join("maps/images/1.png"));
        fs::create_dir_all(root.join("maps/labels")).unwrap();
        let map = GrayImage::from_fn(4, 3, |x, y| Luma([[0, 4, 2, 255][((x + y) % 4) as usize]]));
        map.save(root.join("maps/labels/1.png")).unwrap();
        let maps = PhotoLayout::of(&root.join("maps")).unwrap();
        assert_eq!((maps.format, maps.classes, maps.ignore), (DataFormat::ImagePairs, Some(5), vec![255]));
    }
}
