//! The embedded garments as folders of pictures: public, private and test ones, and two pools.

use std::fs;
use std::path::{Path, PathBuf};

use dapple_data::rand_core::Rng;
use dapple_data::scenes::{CLASS_NAMES, GARMENT_SIDE, ScenePart, garments};
use dapple_data::{Dataset, MasterKey, Purpose, Values};
use dapple_train::TrainError;

use crate::error::{ReproduceError, Result};
use crate::mix::catalogue::MixPool;

/// Of the 350 garments that each class has for training, the first so many are public.
const PUBLIC: usize = 100;
/// So many of the next are private, and the rest are the real images of a pool.
const PRIVATE: usize = 170;
/// Synthetic images of each class.
const SYNTHETIC: usize = 100;

/// Folders of garments, no two of which show the same one.
///
/// # Guarantee
/// Public, private, test and real garments are disjoint parts of the embedded ones. Synthetic garments are computed from the public ones
/// alone.
pub(in crate::mix) struct GarmentFolders {
    root: PathBuf,
}

impl GarmentFolders {
    /// Writes all pictures below a folder. They are always the same.
    pub(super) fn write(root: &Path) -> Result<Self> {
        let folders = Self { root: root.to_owned() };
        let classes = CLASS_NAMES.iter().zip(by_class(ScenePart::Train)?).zip(by_class(ScenePart::Test)?);
        for (number, ((class, train), test)) in classes.enumerate() {
            let (public, rest) = train.split_at(PUBLIC.min(train.len()));
            let (private, real) = rest.split_at(PRIVATE.min(rest.len()));
            let upside_down: Vec<GarmentPixels> =
                public.iter().map(|garment| garment.iter().rev().copied().collect()).collect();
            write_all(&folders.public().join(class), public)?;
            write_all(&folders.public().join(format!("{class} upside down")), &upside_down)?;
            write_all(&folders.private().join(class), private)?;
            write_all(&folders.test().join(class), &test)?;
            write_all(&folders.pool(MixPool::Real).join(class), real)?;
            write_all(&folders.pool(MixPool::Synthetic).join(class), &synthetic(public, number as u64))?;
        }
        Ok(folders)
    }

    /// What a network is pretrained on: each class upright and upside down, which makes twenty classes.
    pub(super) fn public(&self) -> PathBuf {
        self.root.join("public")
    }

    pub(super) fn private(&self) -> PathBuf {
        self.root.join("private")
    }

    pub(super) fn test(&self) -> PathBuf {
        self.root.join("test")
    }

    pub(super) fn pool(&self, pool: MixPool) -> PathBuf {
        self.root.join(pool.folder())
    }
}

/// Grey values, row by row.
type GarmentPixels = Vec<u8>;

/// The garments of each class, in the order of the file.
fn by_class(part: ScenePart) -> Result<Vec<Vec<GarmentPixels>>> {
    let garments = garments(part).map_err(TrainError::from)?;
    let mut classes = vec![Vec::new(); CLASS_NAMES.len()];
    for record in 0..garments.len() {
        let class = garments.label(record).map_err(TrainError::from)? as usize;
        if let Values::Bytes(bytes) = garments.read(record).map_err(TrainError::from)?.values() {
            classes[class].push(bytes.clone());
        }
    }
    Ok(classes)
}

/// Images with the mean and the covariances of some garments, which stand in for those of a generative model: the mean, and to it every
/// garment's difference from the mean with a random sign.
fn synthetic(garments: &[GarmentPixels], class: u64) -> Vec<GarmentPixels> {
    let pixels = (GARMENT_SIDE * GARMENT_SIDE) as usize;
    let count = garments.len() as f64;
    let mut mean = vec![0.0; pixels];
    for garment in garments {
        mean.iter_mut().zip(garment).for_each(|(mean, &value)| *mean += f64::from(value) / count);
    }
    // The pool is public and the same for all: its seed is a constant.
    let key = MasterKey::from_seed(3).purpose(Purpose::Split).step(class);
    let spread = 1.0 / (count - 1.0).sqrt();
    let image = |number: u64| {
        let mut random = key.stream(number);
        let mut image = mean.clone();
        for garment in garments {
            let sign = if random.next_u32() & 1 == 0 { spread } else { -spread };
            let values = image.iter_mut().zip(garment).zip(&mean);
            values.for_each(|((value, &own), mean)| *value += sign * (f64::from(own) - mean));
        }
        // Values beyond black and white become black and white.
        image.into_iter().map(|value| value.round() as u8).collect()
    };
    (0..SYNTHETIC as u64).map(image).collect()
}

/// Writes pictures as portable grey maps.
fn write_all(folder: &Path, pictures: &[GarmentPixels]) -> Result<()> {
    let failed = |path: &Path, error: std::io::Error| {
        ReproduceError::failed(format!("{}: {error}", path.display())).with_hint("give another --out")
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (number, picture) in pictures.iter().enumerate() {
        let path = folder.join(format!("{number:03}.pgm"));
        let mut bytes = format!("P5\n{GARMENT_SIDE} {GARMENT_SIDE}\n255\n").into_bytes();
        bytes.extend_from_slice(picture);
        fs::write(&path, bytes).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn pictures(folder: &Path) -> BTreeSet<Vec<u8>> {
        let classes = fs::read_dir(folder).unwrap().map(|class| class.unwrap().path());
        let files = classes.flat_map(|class| fs::read_dir(class).unwrap());
        files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn no_garment_is_in_two_folders() {
        let place = tempfile::tempdir().unwrap();
        let folders = GarmentFolders::write(place.path()).unwrap();
        let all = [
            (folders.public(), 2000),
            (folders.private(), 1700),
            (folders.test(), 700),
            (folders.pool(MixPool::Real), 800),
            (folders.pool(MixPool::Synthetic), 1000),
        ];
        let mut seen = BTreeSet::new();
        for (folder, count) in all {
            let pictures = pictures(&folder);
            assert_eq!(pictures.len(), count, "{}", folder.display());
            assert!(seen.is_disjoint(&pictures), "{}", folder.display());
            seen.extend(pictures);
        }
    }

    #[test]
    fn synthetic_garments_follow_from_the_public_ones() {
        let garments = by_class(ScenePart::Train).unwrap().swap_remove(0);
        let (public, rest) = garments.split_at(PUBLIC);
        let made = synthetic(public, 0);
        assert_eq!(made, synthetic(public, 0));
        assert_ne!(made, synthetic(rest, 0));
        // Their mean is that of the garments, but for what a hundred random signs leave of it and what is cut off at black and white.
        let mean = |pictures: &[GarmentPixels]| {
            let sum: f64 = pictures.iter().flatten().map(|&value| f64::from(value)).sum();
            sum / (pictures.len() * pictures[0].len()) as f64
        };
        assert!((mean(&made) - mean(public)).abs() < 20.0, "{} {}", mean(&made), mean(public));
    }
}
