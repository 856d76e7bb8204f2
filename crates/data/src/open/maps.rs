//! Formats that keep images and label maps in folders.

use dapple_plan::{ClassNumbers, DataLimits, SessionChoice};

use super::files::{DataPart, RecordPaths};
use crate::DataError;
use crate::segmentation::{
    A2D2_TRAIN_SESSIONS, A2D2_VALIDATION_SESSIONS, CityscapesPart, ClassMap, Pairs, a2d2, cityscapes,
    parse_colour,
};

/// Formats of images with label maps.
#[derive(Debug, Clone, Copy)]
pub(super) enum MapFolders<'a> {
    Pairs(&'a ClassNumbers),
    Cityscapes,
    A2d2 { train: &'a SessionChoice, test: &'a SessionChoice },
}

impl MapFolders<'_> {
    /// Opens the records of one part.
    pub(super) fn open(
        self,
        source: &RecordPaths,
        part: DataPart,
        limits: &DataLimits,
    ) -> Result<Pairs, DataError> {
        match (self, part) {
            (Self::Cityscapes, DataPart::Train) => cityscapes(&source.path, CityscapesPart::Train, limits),
            (Self::Cityscapes, DataPart::Test) => {
                cityscapes(&source.path, CityscapesPart::Validation, limits)
            }
            (Self::A2d2 { train, .. }, DataPart::Train) => {
                a2d2(&source.path, &sessions(train, &A2D2_TRAIN_SESSIONS), limits)
            }
            (Self::A2d2 { test, .. }, DataPart::Test) => {
                a2d2(&source.path, &sessions(test, &A2D2_VALIDATION_SESSIONS), limits)
            }
            (Self::Pairs(classes), _) => {
                let map = class_map(classes)?;
                match &source.labels {
                    Some(labels) => Pairs::open(&source.path, labels, map, limits),
                    None => {
                        Pairs::open(&source.path.join("images"), &source.path.join("labels"), map, limits)
                    }
                }
            }
        }
    }
}

fn sessions(choice: &SessionChoice, usual: &[&str]) -> Vec<String> {
    match choice {
        SessionChoice::Usual => usual.iter().map(|&session| session.to_owned()).collect(),
        SessionChoice::Named(sessions) => sessions.clone(),
    }
}

/// The classes of image pairs, as the plan gives them.
pub(super) fn class_map(classes: &ClassNumbers) -> Result<ClassMap, DataError> {
    let mut map = ClassMap::of_ids(&classes.ids, &classes.ignored)?;
    if let Some(names) = &classes.names {
        map = map.with_names(names.iter().cloned())?;
    }
    if let Some(colours) = &classes.colours {
        let colour = |text: &String| {
            let problem = format!("{text:?} is no colour like \"#804080\"");
            parse_colour(text).ok_or(DataError::setting("data.class_colours", problem))
        };
        map = map.with_palette(&colours.iter().map(colour).collect::<Result<Vec<_>, _>>()?)?;
    }
    Ok(map)
}
