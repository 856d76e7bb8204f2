//! Where the records come from: those to train on, and those to evaluate on.

use super::clips::ClipLayout;
use super::{MAX_CLASSES, SettingError};
use crate::Relation;
use crate::spec::{DataFormat, DataSpec, PrivateThing};

/// The number in label maps that counts for nothing if the plan does not say.
const IGNORED: u32 = 255;

/// Where the records come from.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordOrigin {
    /// The caller holds them, and the plan names no data.
    Caller,
    /// They are part of the program, which also has records to evaluate on.
    Program(ProgramScenes),
    /// They lie on disk.
    Stored {
        /// How they are stored.
        format: StoredFormat,
        /// The files of the records to train on.
        train: RecordFiles,
        /// The records to evaluate on.
        held_out: HeldOut,
    },
}

/// Records that are part of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramScenes {
    /// The embedded data of the demonstration.
    Fashion,
    /// Streets drawn by the program, with label maps.
    Street,
    /// Clips of moving shapes drawn by the program.
    MovingShapes {
        /// The frames of a clip that are shown.
        frames: u32,
        /// What the masks mark.
        private: PrivateThing,
    },
}

/// How records are stored, with everything else that must be known to read the format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredFormat {
    /// One folder of pictures for each class.
    ImageFolder,
    /// Pictures named by a list.
    ImageList,
    /// Pictures in shards, named by a list that also tells their sizes and what they hold.
    ImageShards,
    /// Images and label maps in shards, named by a list like that of pictures.
    PairShards(ClassNumbers),
    /// Arrays of images in shards, whose records a list names.
    ArrayShards,
    /// Clips in shards, named by a list.
    ClipShards {
        /// The frames of a clip that are shown.
        frames: u32,
    },
    /// The files of the MNIST family.
    Idx,
    /// The binary files of CIFAR-10 and CIFAR-100.
    Cifar,
    /// Numpy arrays.
    Npy,
    /// A folder of images and one of label maps.
    ImagePairs(ClassNumbers),
    /// Cityscapes, with its 19 classes.
    Cityscapes,
    /// A2D2, with its colours grouped into 18 classes.
    A2d2 {
        /// The sessions to train on.
        train: SessionChoice,
        /// The sessions to evaluate on.
        test: SessionChoice,
    },
    /// Clips with one class each.
    Clips {
        /// Where they lie, and which of them are trained on.
        layout: ClipLayout,
        /// The frames of a clip that are shown.
        frames: u32,
    },
}

/// The files of some records, relative to the folder of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFiles {
    /// The records.
    pub path: String,
    /// Their labels, if those are elsewhere.
    pub labels: Option<String>,
}

/// The records to evaluate on.
#[derive(Debug, Clone, PartialEq)]
pub enum HeldOut {
    /// There are none.
    Nothing,
    /// A test set of its own.
    Files(RecordFiles),
    /// Some of the records to train on.
    Share {
        /// The share that is split off.
        share: f64,
        /// The seed of the split.
        seed: u64,
        /// The relation whose neighbours must be split into neighbours.
        relation: Relation,
        /// Whether the share is taken of each class.
        stratified: bool,
    },
}

/// Sessions of A2D2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionChoice {
    /// The sessions that are usual for the purpose.
    Usual,
    /// The sessions that the plan names.
    Named(Vec<String>),
}

/// What the numbers in label maps mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassNumbers {
    /// The number of each class.
    pub ids: Vec<u32>,
    /// The numbers that count for nothing.
    pub ignored: Vec<u32>,
    /// The names of the classes, if they have any.
    pub names: Option<Vec<String>>,
    /// The colours in which classes are shown, such as `#804080`, if they are given.
    pub colours: Option<Vec<String>>,
}

/// The kind of targets that all records of a data set have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// One class for each image.
    Class,
    /// One class for each pixel.
    LabelMap,
}

/// The number of frames of a clip that are shown if the plan does not say.
const FRAMES: u32 = 16;
/// The most frames that are shown. More are a mistake: a clip of a minute has fewer.
const MOST_FRAMES: u32 = 1024;

impl RecordOrigin {
    pub(super) fn check(
        format: DataFormat,
        data: &DataSpec,
        relation: Relation,
    ) -> Result<Self, SettingError> {
        refuse_keys(data, format)?;
        if let Some(classes) = data.classes.filter(|classes| !(1..=MAX_CLASSES).contains(classes)) {
            let problem = format!("{classes} classes, but from 1 to {MAX_CLASSES} are told apart");
            return Err(SettingError::refused("data.classes", problem));
        }
        match format {
            DataFormat::FashionScenes => {
                Self::made(ProgramScenes::Fashion, "fashion-scenes are part of the program", data)
            }
            DataFormat::StreetScenes => {
                Self::made(ProgramScenes::Street, "street-scenes are drawn by the program", data)
            }
            DataFormat::MovingShapes => {
                let private = data.private.unwrap_or_default();
                let scenes = ProgramScenes::MovingShapes { frames: frames(data)?, private };
                Self::made(scenes, "moving-shapes are drawn by the program", data)
            }
            DataFormat::ClipFolder
            | DataFormat::Ucf101
            | DataFormat::Hmdb51
            | DataFormat::NtuRgbD
            | DataFormat::ToyotaSmarthome => {
                let layout = ClipLayout::check(format, data);
                let clips =
                    layout.and_then(|layout| Ok(StoredFormat::Clips { layout, frames: frames(data)? }));
                Self::stored(clips, "folder", data, relation)
            }
            DataFormat::ImageFolder => Self::stored(Ok(StoredFormat::ImageFolder), "folder", data, relation),
            DataFormat::ImageList => Self::stored(Ok(StoredFormat::ImageList), "folder", data, relation),
            DataFormat::ImageShards => Self::stored(Ok(StoredFormat::ImageShards), "folder", data, relation),
            DataFormat::PairShards => {
                let classes = ClassNumbers::check(data).map(StoredFormat::PairShards);
                Self::stored(classes, "folder", data, relation)
            }
            DataFormat::ArrayShards => Self::stored(Ok(StoredFormat::ArrayShards), "folder", data, relation),
            DataFormat::ClipShards => {
                let clips = frames(data).map(|frames| StoredFormat::ClipShards { frames });
                Self::stored(clips, "folder", data, relation)
            }
            DataFormat::Idx => Self::stored(Ok(StoredFormat::Idx), "files", data, relation),
            DataFormat::Cifar => Self::stored(Ok(StoredFormat::Cifar), "files", data, relation),
            DataFormat::Npy => Self::stored(Ok(StoredFormat::Npy), "files", data, relation),
            DataFormat::ImagePairs => {
                let classes = ClassNumbers::check(data).map(StoredFormat::ImagePairs);
                Self::stored(classes, "folder", data, relation)
            }
            DataFormat::Cityscapes => Self::stored(Ok(StoredFormat::Cityscapes), "folder", data, relation),
            DataFormat::A2d2 => {
                let [train, test] = [&data.train_sessions, &data.test_sessions].map(SessionChoice::of);
                Self::stored(Ok(StoredFormat::A2d2 { train, test }), "folder", data, relation)
            }
        }
    }

    fn made(scenes: ProgramScenes, problem: &str, data: &DataSpec) -> Result<Self, SettingError> {
        match data {
            DataSpec { train: None, test: None, validation: None, .. } => Ok(Self::Program(scenes)),
            DataSpec { train: None, test: None, .. } => Err(HeldOut::twice()),
            _ => Err(SettingError::refused("data.train", problem)),
        }
    }

    /// A fault of the format itself is told last, because where the records are comes first.
    fn stored(
        format: Result<StoredFormat, SettingError>,
        what: &str,
        data: &DataSpec,
        relation: Relation,
    ) -> Result<Self, SettingError> {
        let held_out = HeldOut::check(data, relation)?;
        let missing = || SettingError::missing("data.train", format!("the {what} to train on"));
        let path = data.train.clone().ok_or_else(missing)?;
        let train = RecordFiles { path, labels: data.train_labels.clone() };
        Ok(Self::Stored { format: format?, train, held_out })
    }

    /// The targets of the records; `None` if the caller holds them.
    #[must_use]
    pub fn targets(&self) -> Option<TargetKind> {
        match self {
            Self::Caller => None,
            Self::Program(ProgramScenes::Fashion | ProgramScenes::MovingShapes { .. }) => {
                Some(TargetKind::Class)
            }
            Self::Program(ProgramScenes::Street) => Some(TargetKind::LabelMap),
            Self::Stored { format, .. } => Some(format.targets()),
        }
    }

    /// Whether records are clips.
    #[must_use]
    pub fn is_of_clips(&self) -> bool {
        match self {
            Self::Caller => false,
            Self::Program(scenes) => matches!(scenes, ProgramScenes::MovingShapes { .. }),
            Self::Stored { format, .. } => {
                matches!(format, StoredFormat::Clips { .. } | StoredFormat::ClipShards { .. })
            }
        }
    }

    /// Whether records to evaluate on are split off those to train on.
    #[must_use]
    pub fn splits_records_off(&self) -> bool {
        matches!(self, Self::Stored { held_out: HeldOut::Share { .. }, .. })
    }
}

impl StoredFormat {
    fn targets(&self) -> TargetKind {
        match self {
            Self::ImageFolder
            | Self::ImageList
            | Self::ImageShards
            | Self::ArrayShards
            | Self::Idx
            | Self::Cifar
            | Self::Npy
            | Self::Clips { .. }
            | Self::ClipShards { .. } => TargetKind::Class,
            Self::ImagePairs(_) | Self::PairShards(_) | Self::Cityscapes | Self::A2d2 { .. } => {
                TargetKind::LabelMap
            }
        }
    }
}

impl HeldOut {
    fn check(data: &DataSpec, relation: Relation) -> Result<Self, SettingError> {
        let stratified = data.stratified.unwrap_or(false);
        if stratified && data.validation.is_none() {
            return Err(SettingError::refused("data.stratified", "data.validation splits nothing off"));
        }
        if stratified && !matches!(relation, Relation::Patch | Relation::Masked) {
            let problem = format!(
                "under {relation} a record's class is protected, and the split would tell how many each class has; name the records of both parts by lists (image-list)"
            );
            return Err(SettingError::refused("data.stratified", problem));
        }
        match (&data.test, data.validation) {
            (Some(_), Some(_)) => Err(Self::twice()),
            (Some(path), None) => {
                Ok(Self::Files(RecordFiles { path: path.clone(), labels: data.test_labels.clone() }))
            }
            (None, None | Some(0.0)) => Ok(Self::Nothing),
            (None, Some(share)) => {
                Ok(Self::Share { share, seed: data.split_seed.unwrap_or(0), relation, stratified })
            }
        }
    }

    fn twice() -> SettingError {
        SettingError::refused("data.validation", "there is a test set already")
    }
}

impl SessionChoice {
    fn of(named: &Option<Vec<String>>) -> Self {
        named.clone().map_or(Self::Usual, Self::Named)
    }
}

impl ClassNumbers {
    fn check(data: &DataSpec) -> Result<Self, SettingError> {
        let names = data.class_names.as_ref().map(|names| names.len() as u32);
        let ids = match (&data.class_ids, data.classes.or(names)) {
            (Some(ids), _) => ids.clone(),
            // More classes than label maps can hold are refused later, with the maps, so do not make a longer list here.
            (None, Some(classes)) => (0..classes.min(MAX_CLASSES)).collect(),
            (None, None) => {
                return Err(SettingError::missing("data.classes", "how many classes the label maps have"));
            }
        };
        Ok(Self {
            ids,
            ignored: data.ignore.clone().unwrap_or_else(|| vec![IGNORED]),
            names: data.class_names.clone(),
            colours: data.class_colours.clone(),
        })
    }
}

/// The number of frames of a clip that are shown.
fn frames(data: &DataSpec) -> Result<u32, SettingError> {
    match data.frames.unwrap_or(FRAMES) {
        frames @ 1..=MOST_FRAMES => Ok(frames),
        frames => {
            let problem = format!("{frames} frames, but from 1 to {MOST_FRAMES} are shown");
            Err(SettingError::refused("data.frames", problem))
        }
    }
}

/// Refuses keys that mean nothing for this format, because whoever wrote them expects something of them.
fn refuse_keys(data: &DataSpec, format: DataFormat) -> Result<(), SettingError> {
    let of_pairs = &[DataFormat::ImagePairs, DataFormat::PairShards][..];
    let of_sessions = &[DataFormat::A2d2][..];
    if data.frames.is_some() && !format.is_of_clips() {
        let problem = format!("{} has images, and only clips have frames", format.name());
        return Err(SettingError::refused("data.frames", problem));
    }
    if data.split.is_some() && !ClipLayout::is_split(format) {
        let problem =
            format!("{} has no published splits; give data.test, or data.validation", format.name());
        return Err(SettingError::refused("data.split", problem));
    }
    for (given, key, meant) in [
        (data.class_ids.is_some(), "data.class_ids", of_pairs),
        (data.ignore.is_some(), "data.ignore", of_pairs),
        (data.class_names.is_some(), "data.class_names", of_pairs),
        (data.class_colours.is_some(), "data.class_colours", of_pairs),
        (data.train_sessions.is_some(), "data.train_sessions", of_sessions),
        (data.test_sessions.is_some(), "data.test_sessions", of_sessions),
        (data.private.is_some(), "data.private", &[DataFormat::MovingShapes][..]),
    ] {
        if given && !meant.contains(&format) {
            let names: Vec<&str> = meant.iter().map(|format| format.name()).collect();
            let problem =
                format!("it says nothing about {}, only about {}", format.name(), names.join(" and "));
            return Err(SettingError::refused(key, problem));
        }
    }
    Ok(())
}
