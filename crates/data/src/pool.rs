//! Synthetic images that are shown beside records (DP-Mix, section 3.1).

use std::path::Path;

use dapple_geometry::Size;
use dapple_plan::PoolPlan;

use crate::formats::ImageFolder;
use crate::{DataError, DataLimits, Dataset, Image, Target, Values};

/// A folder of synthetic images, with the classes and the channels of a data set that they are shown beside. Images may have any size.
#[derive(Debug)]
pub struct Pool {
    pictures: ImageFolder,
    channels: usize,
}

impl Pool {
    /// Lists the images of a pool for the records of a data set. A folder is named after a class of the data set, or after its number
    /// where classes have no names, and a class may have no folder. Where the plan gives one class for all, folders mean nothing.
    ///
    /// # Errors
    /// A folder that cannot be read or is none of the classes, no picture, records that are not pictures of one class each.
    pub fn open(
        plan: &PoolPlan,
        base: &Path,
        beside: &dyn Dataset,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let root = base.join(&plan.path);
        if beside.frames().is_some() {
            let problem = "records are clips, and a pool shows pictures".to_owned();
            return Err(DataError::setting("mix.pool", problem));
        }
        let channels = beside.channels();
        if !matches!(channels, 1 | 3) {
            let problem = format!("records have {channels} channels, and pictures one or three");
            return Err(DataError::setting("mix.pool", problem));
        }
        let numbers = || (0..beside.classes()).map(|class| class.to_string()).collect();
        let names = beside.class_names().map_or_else(numbers, <[String]>::to_vec);
        let pictures = match &plan.class {
            None => ImageFolder::open_like(&root, &names, limits).map_err(|error| match error {
                DataError::Empty { .. } => {
                    let why = format!("{} has no folder of pictures for a class", root.display());
                    DataError::missing("mix.pool_class", why)
                }
                other => other,
            })?,
            Some(class) => {
                let named = names.iter().position(|name| name == class);
                let numbered = || class.parse().ok().filter(|number| *number < names.len());
                let class = named.or_else(numbered).ok_or_else(|| {
                    let problem = format!("the data set has no class {class:?}");
                    DataError::setting("mix.pool_class", problem)
                })?;
                ImageFolder::open_as(&root, &names, class as u32, limits)?
            }
        };
        Ok(Self { pictures, channels })
    }
}

impl Dataset for Pool {
    fn len(&self) -> usize {
        self.pictures.len()
    }

    fn classes(&self) -> u32 {
        self.pictures.classes()
    }

    fn channels(&self) -> usize {
        self.channels
    }

    fn image_size(&self) -> Option<Size> {
        None
    }

    fn target(&self, record: usize) -> Result<Target, DataError> {
        self.pictures.target(record)
    }

    fn read(&self, record: usize) -> Result<Image, DataError> {
        let picture = self.pictures.read(record)?;
        let found = picture.channels();
        let seen = if self.channels == 1 { grey(&picture) } else { Some(picture) };
        let place = || self.place(record);
        seen.ok_or_else(|| DataError::Channels { place: place(), found, expected: self.channels })
    }

    fn place(&self, record: usize) -> String {
        self.pictures.place(record)
    }

    fn name(&self, record: usize) -> Option<String> {
        self.pictures.name(record)
    }

    fn fingerprint(&self) -> Result<String, DataError> {
        self.pictures.fingerprint()
    }

    fn class_names(&self) -> Option<&[String]> {
        self.pictures.class_names()
    }
}

/// The brightness of a picture of red, green and blue by the weights of ITU-R BT.709, in ten-thousandths. What was grey stays as it was.
fn grey(picture: &Image) -> Option<Image> {
    let Values::Bytes(bytes) = picture.values() else { return None };
    let brightness = |pixel: &[u8; 3]| {
        let [red, green, blue] = pixel.map(u32::from);
        ((2126 * red + 7152 * green + 722 * blue + 5000) / 10_000) as u8
    };
    let (pixels, _) = bytes.as_chunks::<3>();
    Image::new(picture.size(), 1, Values::Bytes(pixels.iter().map(brightness).collect()))
}
