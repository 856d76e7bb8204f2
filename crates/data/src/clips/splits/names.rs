//! Splits that follow from the names of clips.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use dapple_plan::{NtuSplit, SmarthomeSplit};

use super::SplitPart;
use crate::DataError;
use crate::open::DataPart;

/// The people of NTU RGB+D who are trained on (Shahroudy et al. 2016), and those whom NTU RGB+D 120 adds (Liu et al. 2019).
const NTU_SUBJECTS: [u32; 53] = [
    1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38, 45, 46, 47, 49, 50, 52, 53, 54,
    55, 56, 57, 58, 59, 70, 74, 78, 80, 81, 82, 83, 84, 85, 86, 89, 91, 92, 93, 94, 95, 97, 98, 100, 103,
];
/// The cameras of NTU RGB+D that are trained on.
const NTU_CAMERAS: [u32; 2] = [2, 3];
/// The classes of NTU RGB+D, and of NTU RGB+D 120.
const NTU_CLASSES: [u32; 2] = [60, 120];

/// The people of Toyota Smarthome who are trained on (Das et al. 2019).
const SMARTHOME_SUBJECTS: [u32; 11] = [3, 4, 6, 7, 9, 12, 13, 15, 17, 19, 25];
/// The cameras that are trained on in the second split by cameras; in the first it is camera 1 alone.
const SMARTHOME_CAMERAS: [u32; 5] = [1, 3, 4, 6, 7];
/// The camera that is tested on. Camera 5 is for validation, and here in no part.
const SMARTHOME_TEST: u32 = 2;
/// The activities that count in splits by cameras.
const SMARTHOME_SEEN: [&str; 19] = [
    "Cutbread",
    "Drink.Frombottle",
    "Drink.Fromcan",
    "Drink.Fromcup",
    "Drink.Fromglass",
    "Eat.Attable",
    "Eat.Snack",
    "Enter",
    "Getup",
    "Leave",
    "Pour.Frombottle",
    "Pour.Fromcan",
    "Readbook",
    "Sitdown",
    "Takepills",
    "Uselaptop",
    "Usetablet",
    "Usetelephone",
    "Walk",
];

/// NTU RGB+D: `S001C002P003R002A013_rgb.avi` is arrangement 1, camera 2, person 3, repetition 2, action 13.
///
/// # Errors
/// An action beyond the classes, which are 60 unless the plan or its split says 120; a recording that lies there in two forms.
pub(super) fn ntu_rgb_d(
    root: &Path,
    split: NtuSplit,
    part: DataPart,
    classes: Option<u32>,
) -> Result<SplitPart, DataError> {
    let usual = match split {
        NtuSplit::Subject | NtuSplit::View => NTU_CLASSES[0],
        NtuSplit::Setup => NTU_CLASSES[1],
    };
    let classes = classes.filter(|classes| NTU_CLASSES.contains(classes)).unwrap_or(usual);
    let (mut clips, mut recordings) = (Vec::new(), BTreeMap::new());
    for name in names(root)? {
        let Some(numbers @ [setup, camera, person, _, action]) = ntu_numbers(&name) else { continue };
        once(&mut recordings, numbers, root, &name)?;
        if action == 0 || action > classes {
            let problem = format!("action {action}, but {classes} are told apart; say data.classes = 120");
            return Err(DataError::malformed(&root.join(name), problem));
        }
        let trained = match split {
            NtuSplit::Subject => NTU_SUBJECTS.contains(&person),
            NtuSplit::View => NTU_CAMERAS.contains(&camera),
            NtuSplit::Setup => setup.is_multiple_of(2),
        };
        if trained == (part == DataPart::Train) {
            clips.push((PathBuf::from(name), action - 1));
        }
    }
    Ok(SplitPart { names: (1..=classes).map(|action| format!("A{action:03}")).collect(), clips })
}

/// Refuses a recording that lies there in two forms, such as its colours, its infrared and its depth, or a video and its frames. They would be
/// several records of one person's doing.
fn once<K: Ord>(
    recordings: &mut BTreeMap<K, String>,
    numbers: K,
    root: &Path,
    name: &str,
) -> Result<(), DataError> {
    match recordings.insert(numbers, name.to_owned()) {
        None => Ok(()),
        Some(other) => Err(DataError::ClipTwice { path: root.join(name), other: root.join(other) }),
    }
}

/// The numbers behind the letters S, C, P, R and A, of three digits each.
fn ntu_numbers(name: &str) -> Option<[u32; 5]> {
    let mut numbers = [0; 5];
    for (piece, (number, letter)) in numbers.iter_mut().zip("SCPRA".chars()).enumerate() {
        let digits = name.get(4 * piece..4 * piece + 4)?.strip_prefix(letter)?;
        *number = digits.chars().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())??;
    }
    // What follows must not be another digit.
    (!name.get(20..)?.starts_with(|next: char| next.is_ascii_digit())).then_some(numbers)
}

/// Toyota Smarthome: `Drink.Fromcup_p02_r00_v03_c04.mp4` is an activity, person 2, repetition 0, video 3, camera 4.
///
/// # Errors
/// A recording that lies there in two forms.
pub(super) fn toyota_smarthome(
    root: &Path,
    split: SmarthomeSplit,
    part: DataPart,
) -> Result<SplitPart, DataError> {
    let names = names(root)?;
    let all: Vec<_> = names.iter().filter_map(|name| Some((name, smarthome_facts(name)?))).collect();
    let mut recordings = BTreeMap::new();
    all.iter().try_for_each(|(name, facts)| once(&mut recordings, *facts, root, name))?;
    let activities: Vec<String> = match split {
        SmarthomeSplit::Subject => {
            let found: BTreeSet<&str> = all.iter().map(|(_, (activity, _))| *activity).collect();
            found.into_iter().map(str::to_owned).collect()
        }
        SmarthomeSplit::View1 | SmarthomeSplit::View2 => SMARTHOME_SEEN.map(str::to_owned).to_vec(),
    };
    let mut clips = Vec::new();
    for (name, (activity, [person, _, _, camera])) in all {
        let Some(class) = activities.iter().position(|known| known == activity) else { continue };
        let wanted = match (split, part) {
            (SmarthomeSplit::Subject, DataPart::Train) => SMARTHOME_SUBJECTS.contains(&person),
            (SmarthomeSplit::Subject, DataPart::Test) => !SMARTHOME_SUBJECTS.contains(&person),
            (SmarthomeSplit::View1, DataPart::Train) => camera == 1,
            (SmarthomeSplit::View2, DataPart::Train) => SMARTHOME_CAMERAS.contains(&camera),
            (_, DataPart::Test) => camera == SMARTHOME_TEST,
        };
        if wanted {
            clips.push((PathBuf::from(name), class as u32));
        }
    }
    Ok(SplitPart { names: activities, clips })
}

/// The activity, and the numbers of person, repetition, video and camera.
fn smarthome_facts(name: &str) -> Option<(&str, [u32; 4])> {
    let mut pieces = name.split('_');
    let activity = pieces.next().filter(|activity| !activity.is_empty())?;
    let mut number = |letter| {
        let digits = pieces.next()?.strip_prefix(letter)?;
        let digits = digits.split_once('.').map_or(digits, |(digits, _)| digits);
        digits.chars().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    Some((activity, [number('p')?, number('r')?, number('v')?, number('c')?]))
}

/// The sorted names in a folder.
fn names(root: &Path) -> Result<Vec<String>, DataError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root).map_err(DataError::io(root))? {
        names.extend(entry.map_err(DataError::io(root))?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}
