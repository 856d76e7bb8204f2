//! A2D2 (Geyer et al. 2020): `SESSION/camera/CAMERA/*_camera_*.png` with `SESSION/label/CAMERA/*_label_*.png`. The colours of a label
//! picture name 38 kinds of objects. Some kinds have several colours, so that neighbouring objects can be told apart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::pairs::Pair;
use super::{ClassMap, Colour, Pairs, parse_colour};
use crate::formats::{pictures_below, same_twice};
use crate::{DataError, DataLimits, UNLABELLED, file};

/// Sessions to train on. The patch-level paper trains on 11 sessions with 18557 images and does not name them. These 17 are split 11 to 3
/// to 3, as the sessions of that paper are.
pub const A2D2_TRAIN_SESSIONS: [&str; 11] = [
    "20180807_145028",
    "20180810_142822",
    "20180925_135056",
    "20181008_095521",
    "20181107_132300",
    "20181107_132730",
    "20181107_133258",
    "20181108_084007",
    "20181108_091945",
    "20181204_154421",
    "20181204_170238",
];

/// The sessions for validation.
pub const A2D2_VALIDATION_SESSIONS: [&str; 3] = ["20180925_101535", "20181016_125231", "20181204_135952"];

/// The sessions for testing.
pub const A2D2_TEST_SESSIONS: [&str; 3] = ["20180925_124435", "20181108_103155", "20181108_123750"];

/// The 18 classes of the data set's own experiments, chosen to resemble those of Cityscapes: the name of each, its colour, and the kinds
/// of objects in it, without the numbers of instances.
const CLASSES: [(&str, Colour, &[&str]); 18] = [
    (
        "road",
        [128, 64, 128],
        &[
            "RD normal street",
            "RD restricted area",
            "Drivable cobblestone",
            "Slow drive area",
            "Zebra crossing",
            "Painted driv. instr.",
            "Speed bumper",
        ],
    ),
    ("sky", [70, 130, 180], &["Sky"]),
    ("nature", [107, 142, 35], &["Nature object"]),
    ("pole", [153, 153, 153], &["Poles", "Sidebars"]),
    ("car", [0, 0, 142], &["Car"]),
    ("lane line", [255, 255, 255], &["Solid line", "Dashed line"]),
    ("building", [70, 70, 70], &["Buildings"]),
    ("irrelevant", [250, 170, 160], &["Irrelevant signs", "Signal corpus"]),
    (
        "traffic information",
        [220, 220, 0],
        &["Traffic signal", "Traffic sign", "Electronic traffic", "Traffic guide obj."],
    ),
    ("curb stone", [230, 150, 140], &["Curbstone"]),
    ("sidewalk", [244, 35, 232], &["Sidewalk", "Non-drivable street"]),
    ("truck", [0, 0, 70], &["Truck", "Utility vehicle", "Tractor"]),
    ("grid structure", [102, 102, 156], &["Grid structure", "Road blocks"]),
    ("obstacle", [190, 153, 153], &["Obstacles / trash"]),
    ("pedestrian", [220, 20, 60], &["Pedestrian", "Animals"]),
    ("ego car", [0, 60, 100], &["Ego car"]),
    ("small traffic participant", [119, 11, 32], &["Bicycle", "Small vehicles"]),
    ("parking area", [250, 170, 30], &["Parking area"]),
];

/// Kinds that mark where the camera could not see anything. They count for nothing.
const IGNORED: [&str; 2] = ["Blurred area", "Rain dirt"];

/// The colours of the published label pictures, as `class_list.json` gives them.
const COLOURS: [(Colour, &str); 55] = [
    ([255, 0, 0], "Car 1"),
    ([200, 0, 0], "Car 2"),
    ([150, 0, 0], "Car 3"),
    ([128, 0, 0], "Car 4"),
    ([182, 89, 6], "Bicycle 1"),
    ([150, 50, 4], "Bicycle 2"),
    ([90, 30, 1], "Bicycle 3"),
    ([90, 30, 30], "Bicycle 4"),
    ([204, 153, 255], "Pedestrian 1"),
    ([189, 73, 155], "Pedestrian 2"),
    ([239, 89, 191], "Pedestrian 3"),
    ([255, 128, 0], "Truck 1"),
    ([200, 128, 0], "Truck 2"),
    ([150, 128, 0], "Truck 3"),
    ([0, 255, 0], "Small vehicles 1"),
    ([0, 200, 0], "Small vehicles 2"),
    ([0, 150, 0], "Small vehicles 3"),
    ([0, 128, 255], "Traffic signal 1"),
    ([30, 28, 158], "Traffic signal 2"),
    ([60, 28, 100], "Traffic signal 3"),
    ([0, 255, 255], "Traffic sign 1"),
    ([30, 220, 220], "Traffic sign 2"),
    ([60, 157, 199], "Traffic sign 3"),
    ([255, 255, 0], "Utility vehicle 1"),
    ([255, 255, 200], "Utility vehicle 2"),
    ([233, 100, 0], "Sidebars"),
    ([110, 110, 0], "Speed bumper"),
    ([128, 128, 0], "Curbstone"),
    ([255, 193, 37], "Solid line"),
    ([64, 0, 64], "Irrelevant signs"),
    ([185, 122, 87], "Road blocks"),
    ([0, 0, 100], "Tractor"),
    ([139, 99, 108], "Non-drivable street"),
    ([210, 50, 115], "Zebra crossing"),
    ([255, 0, 128], "Obstacles / trash"),
    ([255, 246, 143], "Poles"),
    ([150, 0, 150], "RD restricted area"),
    ([204, 255, 153], "Animals"),
    ([238, 162, 173], "Grid structure"),
    ([33, 44, 177], "Signal corpus"),
    ([180, 50, 180], "Drivable cobblestone"),
    ([255, 70, 185], "Electronic traffic"),
    ([238, 233, 191], "Slow drive area"),
    ([147, 253, 194], "Nature object"),
    ([150, 150, 200], "Parking area"),
    ([180, 150, 200], "Sidewalk"),
    ([72, 209, 204], "Ego car"),
    ([200, 125, 210], "Painted driv. instr."),
    ([159, 121, 238], "Traffic guide obj."),
    ([128, 0, 255], "Dashed line"),
    ([255, 0, 255], "RD normal street"),
    ([135, 206, 255], "Sky"),
    ([241, 230, 255], "Buildings"),
    ([96, 69, 143], "Blurred area"),
    ([53, 46, 82], "Rain dirt"),
];

/// The images of some sessions below `root`, from all their cameras, in the order of their names. If `root` has a `class_list.json`, that
/// file says which colour is which kind of object.
///
/// # Errors
/// A session that is not there or has no image, an image without labels, a list of classes that names an unknown kind.
pub fn a2d2(root: &Path, sessions: &[String], limits: &DataLimits) -> Result<Pairs, DataError> {
    let mut sessions: Vec<&String> = sessions.iter().collect();
    sessions.sort();
    sessions.dedup();
    let mut pairs = Vec::new();
    for session in sessions {
        let folder = root.join(session);
        let images = folder.join("camera");
        for image in pictures_below(&images)? {
            let partner = partner(&image, &images, &folder.join("label"));
            if !partner.is_file() {
                return Err(DataError::Partner { path: image, missing: partner });
            }
            pairs.push(Pair { image, labels: partner });
        }
    }
    same_twice(pairs.iter().map(|pair| &pair.image))?;
    Pairs::new(root, root, pairs, class_map(root, limits)?, limits)
}

/// The label picture of an image: `a/b_camera_c.png` has `a/b_label_c.png`.
fn partner(image: &Path, images: &Path, labels: &Path) -> PathBuf {
    let below = image.strip_prefix(images).unwrap_or(image);
    let name = below.file_name().unwrap_or_default().to_string_lossy().replace("_camera_", "_label_");
    labels.join(below.with_file_name(name))
}

fn class_map(root: &Path, limits: &DataLimits) -> Result<ClassMap, DataError> {
    let path = root.join("class_list.json");
    let code = match file::read(&path, limits) {
        Ok(bytes) => listed(&bytes, &path)?,
        Err(DataError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            COLOURS.iter().filter_map(|(colour, kind)| Some((*colour, class_of(kind)?))).collect()
        }
        Err(error) => return Err(error),
    };
    ClassMap::of_colours(CLASSES.len(), code)?
        .with_names(CLASSES.map(|(name, ..)| name))?
        .with_palette(&CLASSES.map(|(_, colour, _)| colour))
}

/// The colours of a `class_list.json`: an object of `"#rrggbb": "kind"`.
fn listed(bytes: &[u8], path: &Path) -> Result<BTreeMap<Colour, u8>, DataError> {
    let list: BTreeMap<String, String> = serde_json::from_slice(bytes)
        .map_err(|error| DataError::malformed(path, format!("no list of colours and names: {error}")))?;
    let entry = |(colour, kind): (&String, &String)| {
        let known = parse_colour(colour)
            .ok_or_else(|| DataError::malformed(path, format!("{colour:?} is no colour like \"#ff0000\"")))?;
        let class = class_of(kind)
            .ok_or_else(|| DataError::malformed(path, format!("{kind:?} is no kind of object of A2D2")))?;
        Ok((known, class))
    };
    list.iter().map(entry).collect()
}

/// The class of a kind of object, whatever the number of the instance.
fn class_of(kind: &str) -> Option<u8> {
    let bare = kind.trim_end_matches(|end: char| end.is_ascii_digit()).trim_end();
    if IGNORED.contains(&bare) {
        return Some(UNLABELLED);
    }
    CLASSES.iter().position(|(.., kinds)| kinds.contains(&bare)).map(|class| class as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_colour_has_a_class_and_every_class_a_colour() {
        let colours: BTreeSet<Colour> = COLOURS.iter().map(|(colour, _)| *colour).collect();
        assert_eq!(colours.len(), COLOURS.len());
        let classes: BTreeSet<u8> = COLOURS.iter().map(|(_, kind)| class_of(kind).unwrap()).collect();
        assert_eq!(classes, (0..18).chain([UNLABELLED]).collect());
        let bare = |kind: &'static str| kind.trim_end_matches(|end: char| end.is_ascii_digit()).trim_end();
        // The paper of the data set counts 38 kinds.
        assert_eq!(COLOURS.iter().map(|(_, kind)| bare(kind)).collect::<BTreeSet<_>>().len(), 38);
        assert_eq!(class_of("Spaceship 1"), None);
    }

    #[test]
    fn no_session_is_in_two_parts() {
        let parts = [&A2D2_TRAIN_SESSIONS[..], &A2D2_VALIDATION_SESSIONS, &A2D2_TEST_SESSIONS];
        let all: BTreeSet<&str> = parts.into_iter().flatten().copied().collect();
        assert_eq!(all.len(), 17);
    }

    #[test]
    fn a_list_of_classes_is_read_or_refused() {
        let read = |text: &str| listed(text.as_bytes(), Path::new("class_list.json"));
        assert_eq!(read("{\"#0000ff\": \"Car 9\", \"#000001\": \"Rain dirt\"}").unwrap()[&[0, 0, 255]], 4);
        for (text, problem) in [
            ("[]", "no list"),
            ("{\"blue\": \"Car 1\"}", "no colour"),
            ("{\"#0000ff\": \"Spaceship\"}", "Spaceship"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("class_list.json") && error.contains(problem), "{error}");
        }
    }
}
