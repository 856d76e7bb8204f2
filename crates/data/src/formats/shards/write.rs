//! Lists of records in shards, and the arrays that shards of arrays consist of.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use dapple_plan::number::hexadecimal;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::super::folder::class_folders;
use super::super::npy::image_header;
use super::super::{ImageFolder, picture_size};
use super::arrays::ArrayShape;
use super::{arrays, clips, pairs, pictures};
use crate::clips::Clips;
use crate::segmentation::{ClassMap, Pairs};
use crate::split::content_hash;
use crate::{DataError, DataLimits, Dataset, Target, Values, csv, file};

/// In which shard each record of a list is to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardCut {
    /// As many shards as this, at least one, to which records are dealt in turn.
    Dealt(usize),
    /// Below the folder is one folder for each shard, and in these what would otherwise be in the folder.
    Folders,
}

/// A list of the pictures below a folder, in which each class has a folder, as [`super::ShardedImages::open`] reads it. Every file is read once.
///
/// # Errors
/// A folder that [`ImageFolder::open`] refuses, a file that cannot be read or is no picture, a name that is not text.
pub fn list_shards(root: &Path, cut: ShardCut, limits: &DataLimits) -> Result<String, DataError> {
    list(&pictures::COLUMNS, root, cut, |folder| {
        let pictures = ImageFolder::open(&root.join(folder), limits)?;
        let classes = pictures.class_names().unwrap_or_default();
        let line = |record: usize| {
            let path = PathBuf::from(pictures.place(record));
            let (size, digest) = (picture_size(&path, limits)?, digest(&path, limits)?);
            let class = csv::cell(&classes[pictures.label(record)? as usize]);
            Ok(format!("{},{class},{},{},{digest}", below(&path, root)?, size.width(), size.height()))
        };
        (0..pictures.len()).into_par_iter().map(line).collect()
    })
}

/// A list of the images and label pictures in the folders `images` and `labels` below a folder, as [`super::ShardedPairs::open`] reads it. Every file
/// is read once.
///
/// # Errors
/// Folders that [`Pairs::open`] refuses, a file that cannot be read or is no picture, a name that is not text.
pub fn list_pair_shards(root: &Path, cut: ShardCut, limits: &DataLimits) -> Result<String, DataError> {
    let [images, maps] = pairs::FOLDERS.map(|folder| root.join(folder));
    list(&pairs::COLUMNS, &images, cut, |folder| {
        // What the numbers mean is not the list's to say.
        let map = ClassMap::of_ids(&[0], &[])?;
        let pairs = Pairs::open(&images.join(folder), &maps.join(folder), map, limits)?;
        let line = |record: usize| {
            let (image, labels) = pairs.files(record)?;
            let size = picture_size(image, limits)?;
            let [name, partner] = [below(image, &images)?, below(labels, &maps)?];
            let digests = [digest(image, limits)?, digest(labels, limits)?];
            Ok(format!("{name},{partner},{},{},{}", size.width(), size.height(), digests.join(",")))
        };
        (0..pairs.len()).into_par_iter().map(line).collect()
    })
}

/// A list of the clips below a folder, in which each class has a folder, as [`super::ShardedClips::open`] reads it. Every file is read once.
///
/// # Errors
/// A folder that [`Clips::open`] refuses, a file that cannot be read, a name that is not text.
pub fn list_clip_shards(root: &Path, cut: ShardCut, limits: &DataLimits) -> Result<String, DataError> {
    list(&clips::COLUMNS, root, cut, |folder| {
        let clips = Clips::open(&root.join(folder), None, 1, limits)?;
        let classes = clips.class_names().unwrap_or_default();
        let line = |record: usize| {
            let class = csv::cell(&classes[clips.label(record)? as usize]);
            let name = below(Path::new(&clips.place(record)), root)?;
            Ok(format!("{name},{class},{}", clips.digest(record)?))
        };
        (0..clips.len()).into_par_iter().map(line).collect()
    })
}

/// Deals the images of a data set, all of one size and with one class each, to numpy arrays `STEM-0.npy`, `STEM-1.npy` and so on in a folder, and
/// returns a list of them, as [`super::ShardedArrays::open`] reads it: the records in their old order, each array a shard of its own.
///
/// # Errors
/// Records of several sizes, with label maps or frames; one that cannot be read; a file that is there already or cannot be written.
pub fn cut_arrays(
    records: &dyn Dataset,
    shards: usize,
    folder: &Path,
    stem: &str,
) -> Result<String, DataError> {
    let wrong =
        || DataError::malformed(folder, "arrays are cut from images of one size, with one class each");
    let size = records.image_size().filter(|_| records.frames().is_none()).ok_or_else(wrong)?;
    let floats = matches!(records.read(0)?.values(), Values::Floats(_));
    let shape = ArrayShape { size, channels: records.channels(), floats };
    let shards = shards.clamp(1, records.len());
    let mut lines = vec![String::new(); records.len()];
    for shard in 0..shards {
        let name = format!("{stem}-{shard}.npy");
        let path = folder.join(&name);
        let count = (records.len() - shard).div_ceil(shards);
        let mut file = BufWriter::new(File::create_new(&path).map_err(DataError::io(&path))?);
        let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(DataError::io(&path));
        write(&image_header(count as u64, size, shape.channels, floats))?;
        for (number, record) in (shard..records.len()).step_by(shards).enumerate() {
            let (Target::Class(class), image) = (records.target(record)?, records.read(record)?) else {
                return Err(wrong());
            };
            match image.values() {
                Values::Bytes(bytes) => write(bytes)?,
                Values::Floats(floats) => {
                    write(&floats.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())?;
                }
            }
            let digest = hexadecimal(&content_hash(&Target::Class(class), image.values()).finalize());
            let (width, height, channels) = (size.width(), size.height(), shape.channels);
            lines[record] = format!(
                "{},{number},{class},{width},{height},{channels},{},{digest},{shard}\n",
                csv::cell(&name),
                shape.word(),
            );
        }
        file.flush().map_err(DataError::io(&path))?;
    }
    Ok(arrays::COLUMNS.join(",") + "\n" + &lines.concat())
}

/// A list of what lies below a folder, or below each folder of a shard in it; `lines` says everything of the records in one but their shards.
fn list(
    columns: &[&str],
    root: &Path,
    cut: ShardCut,
    lines: impl Fn(&str) -> Result<Vec<String>, DataError>,
) -> Result<String, DataError> {
    let folders: Vec<String> = match cut {
        ShardCut::Folders => class_folders(root)?,
        ShardCut::Dealt(_) => vec![String::new()],
    };
    if folders.is_empty() {
        return Err(DataError::Empty { path: root.to_owned(), what: "folder of a shard" });
    }
    let mut text = columns.join(",") + "\n";
    for folder in folders {
        for (record, line) in lines(&folder)?.into_iter().enumerate() {
            let shard = match cut {
                ShardCut::Dealt(count) => (record % count.max(1)).to_string(),
                ShardCut::Folders => csv::cell(&folder),
            };
            text.push_str(&format!("{line},{shard}\n"));
        }
    }
    Ok(text)
}

/// The cell of a path below a folder.
fn below(path: &Path, root: &Path) -> Result<String, DataError> {
    let not_text = || DataError::malformed(path, "its name is not text");
    path.strip_prefix(root).ok().and_then(Path::to_str).map(csv::cell).ok_or_else(not_text)
}

fn digest(path: &Path, limits: &DataLimits) -> Result<String, DataError> {
    Ok(hexadecimal(&Sha256::digest(file::read(path, limits)?)))
}
