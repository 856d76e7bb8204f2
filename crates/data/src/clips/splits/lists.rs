//! Splits that are given by lists of clips.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use dapple_plan::ListedSplit;

use super::SplitPart;
use crate::open::DataPart;
use crate::{DataError, DataLimits, file};

/// UCF-101: `classInd.txt` with a number and a name for each class, and `trainlist01.txt` and `testlist01.txt` with the path of a clip in
/// each line, whose folder is its class.
pub(super) fn ucf_101(
    lists: &Path,
    split: ListedSplit,
    part: DataPart,
    limits: &DataLimits,
) -> Result<SplitPart, DataError> {
    let classes = lists.join("classInd.txt");
    let mut names = Vec::new();
    for (number, line) in lines(&classes, limits)?.iter().enumerate() {
        let name = line.split_once(' ').filter(|(index, _)| index.parse() == Ok(number + 1));
        let (_, name) = name.ok_or_else(|| at_line(&classes, number, "not the next number and a name"))?;
        names.push(name.trim().to_owned());
    }
    let kind = match part {
        DataPart::Train => "train",
        DataPart::Test => "test",
    };
    let list = lists.join(format!("{kind}list{:02}.txt", split.0));
    let numbers: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let mut clips = Vec::new();
    for (number, line) in lines(&list, limits)?.iter().enumerate() {
        let path = line.split_whitespace().next().unwrap_or_default();
        let class = path.split_once('/').and_then(|(class, _)| numbers.get(class));
        let class = class.ok_or_else(|| at_line(&list, number, "not a clip in the folder of a class"))?;
        clips.push((inside(path).ok_or_else(|| at_line(&list, number, "not a path below"))?, *class));
    }
    Ok(SplitPart { names, clips })
}

/// HMDB-51: a list for each class and split, `NAME_test_split1.txt`, each line of which is the file of a clip in the folder of the class
/// and 1 if it is trained on, 2 if it is tested on, and 0 if neither.
pub(super) fn hmdb_51(
    lists: &Path,
    split: ListedSplit,
    part: DataPart,
    limits: &DataLimits,
) -> Result<SplitPart, DataError> {
    let ending = format!("_test_split{}.txt", split.0);
    let mut names = Vec::new();
    for entry in fs::read_dir(lists).map_err(DataError::io(lists))? {
        let name = entry.map_err(DataError::io(lists))?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(&ending)).map(str::to_owned));
    }
    names.sort();
    if names.is_empty() {
        return Err(DataError::malformed(lists, format!("no list NAME{ending} in it")));
    }
    let (wanted, other) = match part {
        DataPart::Train => ("1", "2"),
        DataPart::Test => ("2", "1"),
    };
    let mut clips = Vec::new();
    for (class, name) in (0..).zip(&names) {
        let list = lists.join(format!("{name}{ending}"));
        for (number, line) in lines(&list, limits)?.iter().enumerate() {
            let wrong = || at_line(&list, number, "not the file of a clip and 0, 1 or 2");
            let (clip, mark) = line.trim().rsplit_once(' ').ok_or_else(wrong)?;
            if mark == wanted {
                clips.push((inside(&format!("{name}/{}", clip.trim())).ok_or_else(wrong)?, class));
            } else if mark != other && mark != "0" {
                return Err(wrong());
            }
        }
    }
    Ok(SplitPart { names, clips })
}

/// The lines of a list that are not empty.
fn lines(path: &Path, limits: &DataLimits) -> Result<Vec<String>, DataError> {
    let bytes = file::read(path, limits)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| DataError::malformed(path, "not text"))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// A path that leads nowhere but further down.
fn inside(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    path.components().all(|part| matches!(part, Component::Normal(_))).then_some(path)
}

fn at_line(path: &Path, number: usize, problem: &str) -> DataError {
    DataError::malformed(path, format!("line {}: {problem}", number + 1))
}
