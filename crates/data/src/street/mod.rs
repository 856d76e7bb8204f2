//! Streets drawn by the program: roads, pavements, buildings, sky, cars with number plates and people with faces.
//!
//! They stand in for street photographs where there are none, in tests and for trying things out. The class of every pixel is known, and
//! so is the place of every plate and face: what a patch must cover to protect it.

mod canvas;
mod scene;

use dapple_geometry::Size;
use sha2::{Digest, Sha256};

use dapple_plan::number::hexadecimal;

use crate::keys::{MasterKey, Purpose, StepKey};
use crate::{DataError, Dataset, Image, LabelMap, Target, TargetKind, Values};

pub use scene::{Private, PrivateKind, StreetScene};

/// Width of a scene.
pub const STREET_WIDTH: u32 = 128;
/// Height of a scene.
pub const STREET_HEIGHT: u32 = 96;
/// Width and height of the smallest patch that covers every plate and every face.
pub const STREET_PATCH: [u32; 2] = [8, 8];

/// Scenes to train on.
pub const TRAIN_STREETS: usize = 480;
/// Scenes to test on.
pub const TEST_STREETS: usize = 120;

/// Names of the classes.
pub const CLASS_NAMES: [&str; 6] = ["road", "pavement", "building", "sky", "car", "person"];
/// Colours of the classes, taken from Cityscapes.
const PALETTE: [[u8; 3]; 6] =
    [[128, 64, 128], [244, 35, 232], [70, 70, 70], [70, 130, 180], [0, 0, 142], [220, 20, 60]];

/// Scenes of one seed. Each is drawn when it is read, and always comes out the same.
#[derive(Debug)]
pub struct StreetScenes {
    seed: u64,
    count: usize,
    size: Size,
    names: Vec<String>,
    key: StepKey,
}

/// The training and the test scenes of the format `street-scenes`.
///
/// # Errors
/// None in practice.
pub fn street_scenes() -> Result<(StreetScenes, StreetScenes), DataError> {
    Ok((StreetScenes::new(1, TRAIN_STREETS)?, StreetScenes::new(2, TEST_STREETS)?))
}

impl StreetScenes {
    /// The first `count` scenes of a seed.
    ///
    /// # Errors
    /// A count of zero.
    pub fn new(seed: u64, count: usize) -> Result<Self, DataError> {
        if count == 0 {
            return Err(DataError::Empty { path: "street-scenes".into(), what: "scene" });
        }
        let size = Size::new(STREET_WIDTH, STREET_HEIGHT).map_err(DataError::geometry("street-scenes"))?;
        // Scenes are public: their seed is no secret.
        let key = MasterKey::from_seed(seed).purpose(Purpose::Split).step(0);
        Ok(Self { seed, count, size, names: CLASS_NAMES.map(str::to_owned).to_vec(), key })
    }

    /// A scene with its label map, and with the places of plates and faces.
    ///
    /// # Errors
    /// A record beyond the end.
    pub fn scene(&self, record: usize) -> Result<StreetScene, DataError> {
        if record >= self.count {
            return Err(DataError::Record { record, records: self.count });
        }
        Ok(scene::draw(&mut self.key.stream(record as u64)))
    }
}

impl Dataset for StreetScenes {
    fn len(&self) -> usize {
        self.count
    }

    fn classes(&self) -> u32 {
        CLASS_NAMES.len() as u32
    }

    fn channels(&self) -> usize {
        3
    }

    fn image_size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn target_kind(&self) -> TargetKind {
        TargetKind::LabelMap
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        let missing = DataError::Record { record, records: self.count };
        LabelMap::new(self.size, self.scene(record)?.labels).map(Target::Map).ok_or(missing)
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let missing = DataError::Record { record, records: self.count };
        Image::new(self.size, 3, Values::Bytes(self.scene(record)?.pixels)).ok_or(missing)
    }

    fn place(&self, record: usize) -> String {
        format!("street-scenes of seed {}, record {record}", self.seed)
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        let mut hash = Sha256::new();
        for record in 0..self.count {
            let scene = self.scene(record)?;
            hash.update(&scene.pixels);
            hash.update(&scene.labels);
        }
        Ok(hexadecimal(&hash.finalize()))
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.names)
    }

    fn palette(&self) -> Option<&[[u8; 3]]> {
        Some(&PALETTE)
    }
}
