//! Published splits of data sets of clips: which clips are trained on, and what their classes are.
//!
//! Numbers of people, cameras and arrangements are those that the makers of the data sets published.

mod lists;
mod names;

use std::path::{Path, PathBuf};

use dapple_plan::ClipLayout;

use crate::open::DataPart;
use crate::{DataError, DataLimits};

/// The clips of one part, by their paths below a folder, with their classes.
pub(crate) struct SplitPart {
    /// The names of all classes, the same for both parts.
    pub(crate) names: Vec<String>,
    /// Where each clip should be, with or without the ending of a video, and the number of its class.
    pub(crate) clips: Vec<(PathBuf, u32)>,
}

/// What a plan says about a split.
#[derive(Clone, Copy)]
pub(crate) struct SplitPlan<'a> {
    pub(crate) layout: ClipLayout,
    /// The folder of lists, if the split is given by lists.
    pub(crate) lists: Option<&'a Path>,
    /// The number of classes that the plan names.
    pub(crate) classes: Option<u32>,
}

impl SplitPlan<'_> {
    /// The clips of a part of the data set in a folder; `None` if the folder itself is a part.
    ///
    /// # Errors
    /// Lists that cannot be read or make no sense, names of clips that do not fit the data set.
    pub(crate) fn part(
        &self,
        root: &Path,
        part: DataPart,
        limits: &DataLimits,
    ) -> Result<Option<SplitPart>, DataError> {
        let missing = || DataError::missing("data.train_labels", "the folder of the split's lists");
        let lists = || self.lists.ok_or_else(missing);
        match self.layout {
            ClipLayout::Folder => return Ok(None),
            ClipLayout::Ucf101(split) => lists::ucf_101(lists()?, split, part, limits),
            ClipLayout::Hmdb51(split) => lists::hmdb_51(lists()?, split, part, limits),
            ClipLayout::NtuRgbD(split) => names::ntu_rgb_d(root, split, part, self.classes),
            ClipLayout::ToyotaSmarthome(split) => names::toyota_smarthome(root, split, part),
        }
        .map(Some)
    }
}
