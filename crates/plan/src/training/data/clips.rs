//! Where the clips of a data set lie, and which of them are trained on.

use super::SettingError;
use crate::spec::{DataFormat, DataSpec, SplitChoice};

/// Where clips lie, and which published split says which of them are trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClipLayout {
    /// One folder for each class; those to train on and those to test on lie in folders of their own.
    Folder,
    /// UCF-101 with one of its three lists.
    Ucf101(ListedSplit),
    /// HMDB-51 with one of its three lists.
    Hmdb51(ListedSplit),
    /// NTU RGB+D.
    NtuRgbD(NtuSplit),
    /// Toyota Smarthome.
    ToyotaSmarthome(SmarthomeSplit),
}

/// The number of a split that is given by lists, from 1 to 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedSplit(pub u8);

/// A split of NTU RGB+D.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NtuSplit {
    /// By the people in the clips: of 40 people half, or of 106 in NTU RGB+D 120.
    Subject,
    /// By the cameras, of which the second and third are trained on.
    View,
    /// By the arrangements of the cameras in NTU RGB+D 120, of which the even ones are trained on.
    Setup,
}

/// A split of Toyota Smarthome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmarthomeSplit {
    /// By the people in the clips: 11 of 18.
    Subject,
    /// Camera 1 to train on and camera 2 to test on, 19 activities.
    View1,
    /// Cameras 1, 3, 4, 6 and 7 to train on and camera 2 to test on, 19 activities.
    View2,
}

impl ClipLayout {
    /// Whether a format has published splits.
    pub(super) fn is_split(format: DataFormat) -> bool {
        matches!(
            format,
            DataFormat::Ucf101 | DataFormat::Hmdb51 | DataFormat::NtuRgbD | DataFormat::ToyotaSmarthome
        )
    }

    /// The layout of a format of clips.
    ///
    /// # Errors
    /// A split that the data set does not have, lists that are missing or mean nothing.
    pub(super) fn check(format: DataFormat, data: &DataSpec) -> Result<Self, SettingError> {
        let layout = match format {
            DataFormat::Ucf101 => Self::Ucf101(listed(data)?),
            DataFormat::Hmdb51 => Self::Hmdb51(listed(data)?),
            DataFormat::NtuRgbD => Self::NtuRgbD(match data.split.unwrap_or(SplitChoice::CrossSubject) {
                SplitChoice::CrossSubject => NtuSplit::Subject,
                SplitChoice::CrossView => NtuSplit::View,
                SplitChoice::CrossSetup => NtuSplit::Setup,
                other => return Err(unknown(other, "cross-subject, cross-view and cross-setup")),
            }),
            DataFormat::ToyotaSmarthome => {
                Self::ToyotaSmarthome(match data.split.unwrap_or(SplitChoice::CrossSubject) {
                    SplitChoice::CrossSubject => SmarthomeSplit::Subject,
                    SplitChoice::CrossView1 => SmarthomeSplit::View1,
                    SplitChoice::CrossView2 => SmarthomeSplit::View2,
                    other => return Err(unknown(other, "cross-subject, cross-view-1 and cross-view-2")),
                })
            }
            _ => Self::Folder,
        };
        let lists = matches!(layout, Self::Ucf101(_) | Self::Hmdb51(_));
        if lists && data.train.is_some() && data.train_labels.is_none() {
            let why = "the folder of the lists that say which clips are trained on";
            return Err(SettingError::missing("data.train_labels", why));
        }
        for (given, key) in [
            (data.train_labels.is_some() && !lists, "data.train_labels"),
            (data.test_labels.is_some(), "data.test_labels"),
        ] {
            if given {
                let problem = match lists {
                    true => "the lists of data.train_labels name the clips of both parts",
                    false => "the folders or names of clips tell their classes",
                };
                return Err(SettingError::refused(key, problem));
            }
        }
        Ok(layout)
    }
}

fn listed(data: &DataSpec) -> Result<ListedSplit, SettingError> {
    Ok(ListedSplit(match data.split.unwrap_or(SplitChoice::First) {
        SplitChoice::First => 1,
        SplitChoice::Second => 2,
        SplitChoice::Third => 3,
        other => return Err(unknown(other, "first, second and third")),
    }))
}

fn unknown(split: SplitChoice, known: &str) -> SettingError {
    SettingError::refused(
        "data.split",
        format!("{:?} is none of its splits, which are {known}", split.name()),
    )
}
