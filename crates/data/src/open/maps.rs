//! Formats of label maps.

use dapple_plan::spec::{DataFormat, DataSpec};

use super::files::{Part, Source};
use crate::segmentation::{
    A2D2_TRAIN_SESSIONS, A2D2_VALIDATION_SESSIONS, CityscapesPart, ClassMap, Pairs, a2d2, cityscapes,
    parse_colour,
};
use crate::{DataError, Limits};

/// Opens images with label maps.
pub(super) fn pairs(
    format: DataFormat,
    source: &Source,
    part: Part,
    spec: &DataSpec,
) -> Result<Pairs, DataError> {
    let limits = &Limits::of(spec);
    match format {
        DataFormat::Cityscapes => cityscapes(
            &source.path,
            match part {
                Part::Train => CityscapesPart::Train,
                Part::Test => CityscapesPart::Validation,
            },
            limits,
        ),
        DataFormat::A2d2 => {
            let (given, usual): (_, &[&str]) = match part {
                Part::Train => (&spec.train_sessions, &A2D2_TRAIN_SESSIONS),
                Part::Test => (&spec.test_sessions, &A2D2_VALIDATION_SESSIONS),
            };
            let usual = || usual.iter().map(|&session| session.to_owned()).collect();
            a2d2(&source.path, &given.clone().unwrap_or_else(usual), limits)
        }
        _ => {
            let map = class_map(spec)?;
            match &source.labels {
                Some(labels) => Pairs::open(&source.path, labels, map, limits),
                None => Pairs::open(&source.path.join("images"), &source.path.join("labels"), map, limits),
            }
        }
    }
}

/// The classes of image pairs, as the plan gives them.
fn class_map(spec: &DataSpec) -> Result<ClassMap, DataError> {
    let names = spec.class_names.as_ref().map(|names| names.len() as u32);
    let ids = match (&spec.class_ids, spec.classes.or(names)) {
        (Some(ids), _) => ids.clone(),
        // More than label maps can hold is refused below, not made first.
        (None, Some(classes)) => (0..classes.min(1 << 16)).collect(),
        (None, None) => {
            let why = "how many classes the label maps have".to_owned();
            return Err(DataError::Missing { key: "data.classes", why });
        }
    };
    let mut map = ClassMap::of_ids(&ids, spec.ignore.as_deref().unwrap_or(&[255]))?;
    if let Some(names) = &spec.class_names {
        map = map.with_names(names.iter().cloned())?;
    }
    if let Some(colours) = &spec.class_colours {
        let colour = |text: &String| {
            let problem = format!("{text:?} is no colour like \"#804080\"");
            parse_colour(text).ok_or(DataError::Setting { key: "data.class_colours", problem })
        };
        map = map.with_palette(&colours.iter().map(colour).collect::<Result<Vec<_>, _>>()?)?;
    }
    Ok(map)
}

/// Refuses keys that say nothing about this format: whoever wrote them expects something of them.
pub(super) fn refuse_keys(spec: &DataSpec, format: DataFormat) -> Result<(), DataError> {
    let of_pairs = DataFormat::ImagePairs;
    let of_sessions = DataFormat::A2d2;
    for (given, key, meant) in [
        (spec.class_ids.is_some(), "data.class_ids", of_pairs),
        (spec.ignore.is_some(), "data.ignore", of_pairs),
        (spec.class_names.is_some(), "data.class_names", of_pairs),
        (spec.class_colours.is_some(), "data.class_colours", of_pairs),
        (spec.train_sessions.is_some(), "data.train_sessions", of_sessions),
        (spec.test_sessions.is_some(), "data.test_sessions", of_sessions),
    ] {
        if given && format != meant {
            let problem = format!("it says nothing about {}, only about {}", format.name(), meant.name());
            return Err(DataError::Setting { key, problem });
        }
    }
    Ok(())
}
