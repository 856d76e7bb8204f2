//! A data set in two halves, as section 4.1 of the partitioning paper has them: each has half of the images of each class, and of the first
//! half, which is public, eight of the ten classes are used.

use std::fs;
use std::path::{Path, PathBuf};

use dapple_data::scenes::{ScenePart, garments};
use dapple_data::{Dataset, Values};
use dapple_plan::{DataPlan, PlanSpec};
use dapple_train::TrainError;

use crate::error::{ReproduceError, Result};
use crate::experiment::full_path;

/// The classes of the public half.
pub(super) const PUBLIC_CLASSES: u32 = 8;

/// Images and labels in numpy files.
#[derive(Debug, Clone)]
pub(super) struct NumpyImages {
    images: PathBuf,
    labels: PathBuf,
    pub(super) records: u64,
    classes: u32,
}

impl NumpyImages {
    /// Names these images as those to train on.
    pub(super) fn train(&self, spec: &mut PlanSpec) -> Result<()> {
        spec.set("data.format", "npy")?;
        spec.data.classes = Some(self.classes);
        spec.data.train = Some(full_path(&self.images));
        spec.data.train_labels = Some(full_path(&self.labels));
        Ok(())
    }

    /// Names these images as those to test on.
    pub(super) fn test(&self, spec: &mut PlanSpec) {
        spec.data.test = Some(full_path(&self.images));
        spec.data.test_labels = Some(full_path(&self.labels));
    }
}

/// The parts of a data set.
///
/// # Guarantee
/// No image is in two of `public`, `private` and `test`.
#[derive(Debug)]
pub(super) struct HalvedImages {
    /// Eight classes of the first half.
    pub(super) public: NumpyImages,
    /// The second half.
    pub(super) private: NumpyImages,
    /// Both halves with all classes.
    pub(super) whole: NumpyImages,
    pub(super) test: NumpyImages,
}

impl HalvedImages {
    /// Writes the parts of the embedded garments into a folder.
    pub(super) fn garments(folder: &Path) -> Result<Self> {
        let part = |part| garments(part).map_err(TrainError::from);
        Self::write(folder, &part(ScenePart::Train)?, &part(ScenePart::Test)?)
    }

    /// Writes the parts of CIFAR-10 into a folder.
    pub(super) fn cifar10(folder: &Path, data: &Path) -> Result<Self> {
        let mut spec = PlanSpec::default();
        spec.set("data.format", "cifar")?;
        spec.data.classes = Some(10);
        (spec.data.train, spec.data.test) = (Some(full_path(data)), Some(full_path(data)));
        let plan = DataPlan::check(&spec).map_err(TrainError::from)?;
        let opened = dapple_data::open(&plan, Path::new("")).map_err(TrainError::from)?;
        let test = opened.test.ok_or_else(|| ReproduceError::failed("CIFAR-10 has no images to test on"))?;
        Self::write(folder, &*opened.train, &*test)
    }

    fn write(folder: &Path, train: &dyn Dataset, test: &dyn Dataset) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        let (first, second) = halves(train)?;
        let label = |&record: &usize| train.label(record).map_err(TrainError::from);
        let mut public = Vec::new();
        for record in first {
            if label(&record)? < PUBLIC_CLASSES {
                public.push(record);
            }
        }
        let all = |images: &dyn Dataset| (0..images.len()).collect::<Vec<usize>>();
        Ok(Self {
            public: write(folder, "public", (train, &public), PUBLIC_CLASSES)?,
            private: write(folder, "private", (train, &second), train.classes())?,
            whole: write(folder, "whole", (train, &all(train)), train.classes())?,
            test: write(folder, "test", (test, &all(test)), test.classes())?,
        })
    }
}

impl NumpyImages {
    /// Writes whose images these are, two of each user's one after the other, into a file beside them. Returns it with the number of users.
    pub(super) fn in_pairs(&self) -> Result<(PathBuf, u64)> {
        let path = self.images.with_extension("users.npy");
        let users: Vec<u8> =
            (0..self.records).flat_map(|record| ((record / 2) as i64).to_le_bytes()).collect();
        write_npy(&path, "<i8", &format!("{},", self.records), &users)?;
        Ok((path, self.records.div_ceil(2)))
    }
}

/// Of every class the first half of its images and the others, in their order.
fn halves(images: &dyn Dataset) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut of_class = vec![Vec::new(); images.classes() as usize];
    for record in 0..images.len() {
        of_class[images.label(record).map_err(TrainError::from)? as usize].push(record);
    }
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for records in of_class {
        let (one, other) = records.split_at(records.len() / 2);
        first.extend_from_slice(one);
        second.extend_from_slice(other);
    }
    first.sort_unstable();
    second.sort_unstable();
    Ok((first, second))
}

/// Writes some images of a data set as bytes, and their labels.
fn write(
    folder: &Path,
    name: &str,
    (images, records): (&dyn Dataset, &[usize]),
    classes: u32,
) -> Result<NumpyImages> {
    let size = images.image_size().ok_or_else(|| ReproduceError::failed("images of several sizes"))?;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for &record in records {
        match images.read(record).map_err(TrainError::from)?.values() {
            Values::Bytes(bytes) => pixels.extend_from_slice(bytes),
            _ => return Err(ReproduceError::failed("images that are not of bytes")),
        }
        labels.extend(i64::from(images.label(record).map_err(TrainError::from)?).to_le_bytes());
    }
    let shape = format!("{}, {}, {}, {}", records.len(), size.height(), size.width(), images.channels());
    let files = NumpyImages {
        images: folder.join(format!("{name}.npy")),
        labels: folder.join(format!("{name}-labels.npy")),
        records: records.len() as u64,
        classes,
    };
    write_npy(&files.images, "|u1", &shape, &pixels)?;
    write_npy(&files.labels, "<i8", &format!("{},", records.len()), &labels)?;
    Ok(files)
}

/// Writes an array in numpy's format, version 1.0: a header that ends at a multiple of 64 bytes, and the values in order.
fn write_npy(path: &Path, kind: &str, shape: &str, values: &[u8]) -> Result<()> {
    const BEFORE: usize = 10;
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let filled = (BEFORE + header.len() + 1).next_multiple_of(64);
    header.extend(std::iter::repeat_n(' ', filled - BEFORE - header.len() - 1));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(values);
    fs::write(path, bytes).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> ReproduceError {
    ReproduceError::failed(format!("{}: {error}", path.display())).with_hint("give another --out")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn halves_have_every_class_alike_and_no_image_twice() {
        let place = tempfile::tempdir().unwrap();
        let parts = HalvedImages::garments(place.path()).unwrap();
        // 350 garments of each of ten classes to train on, and 70 to test on.
        let counts = [parts.public.records, parts.private.records, parts.whole.records, parts.test.records];
        assert_eq!(counts, [8 * 175, 10 * 175, 3500, 700]);
        let images = |part: &NumpyImages| {
            let mut spec = PlanSpec::default();
            part.train(&mut spec).unwrap();
            let opened = dapple_data::open(&DataPlan::check(&spec).unwrap(), Path::new("")).unwrap().train;
            let mut of_class = vec![0; opened.classes() as usize];
            let all: BTreeSet<Vec<u8>> = (0..opened.len())
                .map(|record| {
                    of_class[opened.label(record).unwrap() as usize] += 1;
                    match opened.read(record).unwrap().values() {
                        Values::Bytes(bytes) => bytes.clone(),
                        _ => unreachable!("bytes were written"),
                    }
                })
                .collect();
            (all, of_class)
        };
        let [(public, public_classes), (private, private_classes), (test, _)] =
            [&parts.public, &parts.private, &parts.test].map(images);
        assert_eq!((public_classes, private_classes), (vec![175; 8], vec![175; 10]));
        assert!(public.is_disjoint(&private) && public.is_disjoint(&test) && private.is_disjoint(&test));
        assert_eq!(images(&parts.whole).0.len(), 3500);
    }
}
