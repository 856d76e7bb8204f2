//! Pictures named by a list, such as those of Oxford Pets and SUN397.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::folder::{ENDINGS, ImageFolder};
use super::same_twice;
use crate::{DataError, DataLimits, file};

/// A line of a list: a picture, and the name of its class.
struct ListedPicture {
    path: PathBuf,
    class: String,
}

impl ImageFolder {
    /// The pictures below `root` that a list names, in its order. A line is the path of a picture, with or without its ending, and the
    /// name or number of its class; whatever follows is passed over. Without a class, the folder in the path is the class. Empty lines and
    /// lines that begin with `#` are passed over. Classes are in the order of their numbers, or of their names if one is no number.
    ///
    /// # Errors
    /// A list that cannot be read, is not text or names no picture; a picture that is not there, lies outside `root`, has no class, or is
    /// listed twice.
    pub fn open_list(root: &Path, list: &Path, limits: &DataLimits) -> Result<Self, DataError> {
        let listed = read(root, list, limits)?;
        let distinct: BTreeSet<&String> = listed.iter().map(|picture| &picture.class).collect();
        let mut names: Vec<String> = distinct.into_iter().cloned().collect();
        let number = |name: &String| name.parse::<u64>().ok();
        if names.iter().all(|name| number(name).is_some()) {
            names.sort_by_key(number);
        }
        Self::of_pictures(root, names.clone(), with_classes(list, listed, &names)?, limits)
    }

    /// The same, with the classes of another data set, so that labels mean the same in both.
    ///
    /// # Errors
    /// As [`ImageFolder::open_list`]; a class that the other data set does not have.
    pub fn open_list_like(
        root: &Path,
        list: &Path,
        classes: &[String],
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let pictures = with_classes(list, read(root, list, limits)?, classes)?;
        Self::of_pictures(root, classes.to_vec(), pictures, limits)
    }
}

fn with_classes(
    list: &Path,
    listed: Vec<ListedPicture>,
    names: &[String],
) -> Result<Vec<(PathBuf, u32)>, DataError> {
    let numbers: BTreeMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let number = |ListedPicture { path, class }: ListedPicture| match numbers.get(class.as_str()) {
        Some(&number) => Ok((path, number)),
        None => {
            let problem = format!("the training data does not have its class {class:?}");
            Err(DataError::malformed(list, format!("{}: {problem}", path.display())))
        }
    };
    listed.into_iter().map(number).collect()
}

fn read(root: &Path, list: &Path, limits: &DataLimits) -> Result<Vec<ListedPicture>, DataError> {
    let text = String::from_utf8(file::read(list, limits)?)
        .map_err(|_| DataError::malformed(list, "a list of pictures is text"))?;
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let wrong =
        |number: usize, problem: &str| DataError::malformed(list, format!("line {number}: {problem}"));
    let mut listed = Vec::new();
    for (number, line) in lines {
        let mut words = line.split_whitespace();
        let named = Path::new(words.next().unwrap_or_default().trim_start_matches('/'));
        if !named.components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(wrong(number, "the picture lies elsewhere"));
        }
        let folder = || named.parent().and_then(Path::to_str).filter(|folder| !folder.is_empty());
        let class = words.next().or_else(folder).ok_or_else(|| wrong(number, "the picture has no class"))?;
        let path = picture(&root.join(named)).ok_or_else(|| wrong(number, "there is no such picture"))?;
        listed.push(ListedPicture { path, class: class.to_owned() });
    }
    if listed.is_empty() {
        return Err(DataError::Empty { path: list.to_owned(), what: "picture" });
    }
    same_twice(listed.iter().map(|picture| &picture.path))?;
    Ok(listed)
}

/// The file of a picture whose ending may be left out.
fn picture(path: &Path) -> Option<PathBuf> {
    let with = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(".");
        name.push(ending);
        PathBuf::from(name)
    };
    let mut candidates = std::iter::once(path.to_owned()).chain(ENDINGS.iter().map(|ending| with(ending)));
    candidates.find(|path| path.is_file())
}
