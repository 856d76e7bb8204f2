//! The embedded data of the demonstration: scenes composed from real garments.
//!
//! A scene shows a few dozen garments of Fashion-MNIST on a textured ground, as a rack or a shop window would. Most of them are of one
//! class, which is the scene's label, and some are of others. So nearly every crop tells the label, while any single patch is a small
//! part of the scene: the setting in which protecting a patch, rather than the whole scene, is a meaningful promise.

mod compose;

use std::path::Path;

use dapple_geometry::Size;
use rayon::prelude::*;

use crate::formats::{PackedImages, idx_in_memory};
use crate::{DataError, Dataset, Image, Target};
use compose::Composer;

pub use compose::{GARMENT_SIDE, GROUND, SCENE_SIDE, Scene};

/// Names of the classes.
pub const CLASS_NAMES: [&str; 10] =
    ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"];

/// Scenes to train on.
pub const TRAIN_SCENES: usize = 6000;
/// Scenes to test on.
pub const TEST_SCENES: usize = 1000;

/// Which garments the scenes are made of. No garment is in both parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScenePart {
    /// 3500 garments of the training file.
    Train,
    /// 700 garments of the test file.
    Test,
}

/// Scenes composed from real garments, always the same ones.
#[derive(Debug)]
pub struct FashionScenes {
    composer: Composer,
    scenes: PackedImages,
}

/// The training and the test scenes of the demonstration.
///
/// # Errors
/// None in practice, because the garments are embedded in the program.
pub fn fashion_scenes() -> Result<(FashionScenes, FashionScenes), DataError> {
    Ok((
        FashionScenes::new(ScenePart::Train, TRAIN_SCENES)?,
        FashionScenes::new(ScenePart::Test, TEST_SCENES)?,
    ))
}

impl FashionScenes {
    /// The first `count` scenes of a part. Scenes take the classes in turn.
    ///
    /// # Errors
    /// A count of zero.
    pub fn new(part: ScenePart, count: usize) -> Result<Self, DataError> {
        let composer = Composer::new(garments(part)?, part)?;
        let mut bytes = vec![0; count * compose::PIXELS];
        bytes.par_chunks_exact_mut(compose::PIXELS).enumerate().for_each(|(record, pixels)| {
            pixels.copy_from_slice(&composer.scene(record as u64).pixels);
        });
        let labels = (0..count as u64).map(|record| composer.class(record)).collect();
        let size = Size::new(SCENE_SIDE, SCENE_SIDE).map_err(DataError::geometry("fashion-scenes"))?;
        let name = Path::new(match part {
            ScenePart::Train => "fashion-scenes (train)",
            ScenePart::Test => "fashion-scenes (test)",
        });
        let scenes = PackedImages::new(name, size, 1, bytes, labels, CLASS_NAMES.len() as u32)?;
        Ok(Self { composer, scenes: scenes.with_class_names(&CLASS_NAMES) })
    }

    /// A scene with its label map.
    ///
    /// # Errors
    /// A record beyond the end.
    pub fn scene(&self, record: usize) -> Result<Scene, DataError> {
        self.scenes.label(record)?;
        Ok(self.composer.scene(record as u64))
    }
}

/// The embedded garments themselves, each of [`GARMENT_SIDE`] by [`GARMENT_SIDE`] pixels, in the order of their classes.
///
/// # Errors
/// None in practice, because the garments are embedded in the program.
pub fn garments(part: ScenePart) -> Result<PackedImages, DataError> {
    let (images, labels): (&'static [u8], &'static [u8]) = match part {
        ScenePart::Train => (
            include_bytes!("../../assets/fashion-mnist/train-images.idx.gz"),
            include_bytes!("../../assets/fashion-mnist/train-labels.idx.gz"),
        ),
        ScenePart::Test => (
            include_bytes!("../../assets/fashion-mnist/test-images.idx.gz"),
            include_bytes!("../../assets/fashion-mnist/test-labels.idx.gz"),
        ),
    };
    let name = Path::new("embedded garments");
    idx_in_memory((images, name), (labels, name), Some(CLASS_NAMES.len() as u32))
}

impl Dataset for FashionScenes {
    fn len(&self) -> usize {
        self.scenes.len()
    }

    fn classes(&self) -> u32 {
        self.scenes.classes()
    }

    fn channels(&self) -> usize {
        self.scenes.channels()
    }

    fn image_size(&self) -> Option<Size> {
        self.scenes.image_size()
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        self.scenes.target(record)
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        self.scenes.read(record)
    }

    fn place(&self, record: usize) -> String {
        self.scenes.place(record)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        self.scenes.fingerprint()
    }

    fn class_names(&self) -> Option<&[String]> {
        self.scenes.class_names()
    }
}
