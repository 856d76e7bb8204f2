//! What a model sees and says. It lies beside the weights, so that the model can be used without the data.

use std::path::Path;

use dapple_data::{Dataset, TargetKind};
use dapple_graph::zoo::LibraryNames;
use serde::{Deserialize, Serialize};

use crate::error::{TrainError, one_line};
use crate::files;
use crate::folder::Folder;
use crate::model::Blueprint;

/// What a model of a run says about an image or a clip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// One class.
    Class,
    /// A class for each pixel.
    LabelMap,
}

impl From<TargetKind> for Answers {
    fn from(kind: TargetKind) -> Self {
        match kind {
            TargetKind::Class => Self::Class,
            TargetKind::LabelMap => Self::LabelMap,
        }
    }
}

impl From<Answers> for TargetKind {
    fn from(answers: Answers) -> Self {
        match answers {
            Answers::Class => Self::Class,
            Answers::LabelMap => Self::LabelMap,
        }
    }
}

/// What a model sees and says: `model.json` in the folder of a run. The numbers and names of classes come from the data set's format and
/// are taken to be public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelDescription {
    /// What the model says about an image.
    pub answers: Answers,
    /// Values per pixel: 3 for red, green and blue.
    pub channels: usize,
    /// Frames of a clip; none where the model sees images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<usize>,
    /// The classes, in the order of the model's outputs.
    pub classes: Vec<ClassDescription>,
    /// The library whose names the parameters have, if several libraries have the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<LibraryNames>,
    /// What of it was trained, in words; none where all was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<String>,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassDescription {
    /// The name of the class, or its number if the data set has no names.
    pub name: String,
    /// The colour in which the class is shown, as red, green and blue, if the data set has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colour: Option<[u8; 3]>,
}

impl ModelDescription {
    pub(crate) fn of(dataset: &dyn Dataset, blueprint: &Blueprint) -> Self {
        let names = dataset.class_names().unwrap_or_default();
        let palette = dataset.palette().unwrap_or_default();
        let class = |class: usize| ClassDescription {
            name: names.get(class).cloned().unwrap_or_else(|| class.to_string()),
            colour: palette.get(class).copied(),
        };
        Self {
            answers: dataset.target_kind().into(),
            channels: dataset.channels(),
            frames: dataset.frames(),
            classes: (0..dataset.classes() as usize).map(class).collect(),
            names: blueprint.names(),
            trained: blueprint.trained(),
        }
    }

    pub(crate) fn write(&self, folder: &Folder) -> Result<(), TrainError> {
        // Numbers and strings always have a JSON form.
        let mut text = serde_json::to_string_pretty(self).expect("numbers, words and lists of them");
        text.push('\n');
        files::write_atomic(&folder.description(), text.as_bytes())
    }

    /// The description in the folder of a run.
    ///
    /// # Errors
    /// A folder without one, or with one that is damaged.
    pub fn read(folder: &Path) -> Result<Self, TrainError> {
        let path = Folder::new(folder).description();
        Self::parse(&files::read(&path)?).map_err(|problem| {
            TrainError::setting(
                "model.json",
                format!("{}: {problem}", path.display()),
                "restore the file, or remove it: resuming the run writes it anew",
            )
        })
    }

    /// Parses a description.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(one_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let class = |name: &str, colour| ClassDescription { name: name.to_owned(), colour };
        let description = ModelDescription {
            answers: Answers::LabelMap,
            channels: 3,
            frames: None,
            classes: vec![class("road", Some([128, 64, 128])), class("1", None)],
            names: Some(LibraryNames::OpenClip { projection: 512 }),
            trained: Some("the last layers".to_owned()),
        };
        description.write(&Folder::new(folder.path())).unwrap();
        assert_eq!(ModelDescription::read(folder.path()).unwrap(), description);
        std::fs::write(folder.path().join("model.json"), "{").unwrap();
        let error = ModelDescription::read(folder.path()).unwrap_err();
        assert!(error.to_string().contains("model.json") && error.hint().is_some(), "{error}");
    }
}
