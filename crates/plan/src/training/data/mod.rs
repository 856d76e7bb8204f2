//! Where the records come from, and how they are shown.

pub(crate) mod augment;
mod clips;
mod error;
mod limits;
mod origin;
#[cfg(test)]
mod tests;

pub use clips::{ClipLayout, ListedSplit, NtuSplit, SmarthomeSplit};
pub use error::SettingError;
pub use limits::{DataLimits, MAX_CLASSES};
pub use origin::{
    ClassNumbers, HeldOut, ProgramScenes, RecordFiles, RecordOrigin, SessionChoice, StoredFormat, TargetKind,
};

use dapple_geometry::Augmentation;

use crate::spec::{DataSpec, MixSpec, Pixels, PlanSpec};

/// The data of a run, with every default filled in and every choice made.
#[derive(Debug, Clone, PartialEq)]
pub struct DataPlan {
    /// Where the records come from.
    pub origin: RecordOrigin,
    /// The number of classes that the data set must have; `None` if it is counted.
    pub classes: Option<u32>,
    /// What one file may take.
    pub limits: DataLimits,
    /// Whether every record is read once before a run begins.
    pub check_records: bool,
    /// What the model sees of an image behind the crop.
    pub views: ViewPlan,
    /// Where synthetic images come from, if there are any.
    pub pool: Option<PoolPlan>,
    /// The folder of the masks of training images, relative to the folder of the plan, if they have any.
    pub masks: Option<String>,
    /// Whose training records are whose, if that is known.
    pub users: Option<UserFile>,
}

/// The file that says whose records are whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserFile {
    /// The file, relative to the folder of the plan.
    pub path: String,
    /// The most records of a user that a round sees; `None` for all of them.
    pub max_records: Option<u64>,
}

/// The synthetic images that are shown beside records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPlan {
    /// Their folder, relative to the folder of the plan.
    pub path: String,
    /// The name or number of the class that all of them have; `None` if each lies in a folder that is named after its class.
    pub class: Option<String>,
}

/// What the model sees of an image behind the crop.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ViewPlan {
    /// The size to which views are brought; `None` if they stay as the pipeline leaves them.
    pub size: Option<Pixels>,
    /// Whether views are mirrored at random.
    pub flip: bool,
    /// What else is changed at random, in order, after mirroring.
    pub augment: Vec<Augmentation>,
    /// What is subtracted from each channel; `None` for nothing.
    pub mean: Option<Vec<f64>>,
    /// What each channel is divided by; `None` for one.
    pub std: Option<Vec<f64>>,
}

impl DataPlan {
    /// Fills in what is not given. The relation of the plan decides how records are split off. A plan that names no data is for records
    /// that the caller holds.
    ///
    /// # Errors
    /// A key that its format needs but that is missing, a key that means nothing for the format, or a value that makes no sense.
    pub fn check(spec: &PlanSpec) -> Result<Self, SettingError> {
        let data = &spec.data;
        let origin = match data.format {
            Some(format) => RecordOrigin::check(format, data, spec.relation())?,
            None => RecordOrigin::Caller,
        };
        Ok(Self {
            origin,
            classes: data.classes,
            limits: DataLimits::of(data),
            check_records: data.check.unwrap_or(true),
            views: ViewPlan::check(data)?,
            pool: PoolPlan::check(&spec.mix)?,
            masks: data.masks.clone(),
            users: UserFile::check(spec)?,
        })
    }
}

impl UserFile {
    fn check(spec: &PlanSpec) -> Result<Option<Self>, SettingError> {
        let max_records = spec.user.max_records;
        if max_records == Some(0) {
            return Err(SettingError::refused(
                "user.max_records",
                "a round sees at least one record of a user",
            ));
        }
        Ok(spec.data.users.clone().map(|path| Self { path, max_records }))
    }
}

impl PoolPlan {
    fn check(mix: &MixSpec) -> Result<Option<Self>, SettingError> {
        match (&mix.pool, &mix.pool_class) {
            (None, Some(_)) => {
                Err(SettingError::missing("mix.pool", "mix.pool_class is the class of its images"))
            }
            (pool, class) => Ok(pool.clone().map(|path| Self { path, class: class.clone() })),
        }
    }
}

impl ViewPlan {
    /// Fills in what is not given.
    ///
    /// # Errors
    /// An augmentation that cannot be read.
    pub fn check(data: &DataSpec) -> Result<Self, SettingError> {
        let augment = data.augment.iter().flatten().map(|text| augment::parse(text));
        Ok(Self {
            size: data.size,
            flip: data.flip.unwrap_or(false),
            augment: augment.collect::<Result<_, _>>()?,
            mean: data.mean.clone(),
            std: data.std.clone(),
        })
    }
}
