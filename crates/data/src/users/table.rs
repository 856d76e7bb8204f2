//! Files that say whose records are whose.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use super::Users;
use crate::formats::whole_numbers;
use crate::{DataError, DataLimits, Dataset, csv, file};

/// The users of a data set, as a file says them: a table with a line `file,user` or `record,user` and then a line for each record, or an
/// array (`.npy`) of whole numbers, one for each record, which are the users' names.
///
/// # Errors
/// A file that cannot be read, and as [`decode_users`].
pub fn read_users(path: &Path, dataset: &dyn Dataset, limits: &DataLimits) -> Result<Users, DataError> {
    let is_array =
        path.extension().and_then(OsStr::to_str).is_some_and(|ending| ending.eq_ignore_ascii_case("npy"));
    if !is_array {
        return decode_users(&file::read(path, limits)?, path, dataset);
    }
    let numbers = whole_numbers(path, limits)?;
    if numbers.len() != dataset.len() {
        let problem = format!("{} numbers for {} training records", numbers.len(), dataset.len());
        return Err(wrong(path, problem));
    }
    Ok(Users::of_owners(numbers))
}

/// The users of a data set, as the bytes of a table say them; the path stands for them in messages. Other columns are passed over.
///
/// # Guarantee
/// Every record of the data set has exactly one user, and the table names no other record.
///
/// # Errors
/// Bytes that are no such table, a record that it does not name, that it names twice, or that does not exist.
pub fn decode_users(bytes: &[u8], path: &Path, dataset: &dyn Dataset) -> Result<Users, DataError> {
    let owners = std::str::from_utf8(bytes)
        .map_err(|_| "it is not text in UTF-8".to_owned())
        .and_then(|text| owners(text, dataset))
        .map_err(|problem| wrong(path, problem))?;
    Ok(Users::of_owners(owners))
}

fn wrong(path: &Path, problem: String) -> DataError {
    DataError::Users { path: path.to_owned(), problem: crate::formats::one_line(&problem) }
}

/// The user of each record.
fn owners(text: &str, dataset: &dyn Dataset) -> Result<Vec<String>, String> {
    let mut lines = csv::lines(text)?.into_iter();
    let header: Vec<String> = match lines.next() {
        Some((_, cells)) => cells.iter().map(|cell| cell.to_ascii_lowercase()).collect(),
        None => return Err("it is empty".to_owned()),
    };
    let column = |name: &str| match header.iter().filter(|cell| *cell == name).count() {
        0 | 1 => Ok(header.iter().position(|cell| cell == name)),
        _ => Err(format!("several columns {name:?}, of which one alone would count")),
    };
    let user = column("user")?.ok_or("no column `user` in its first line")?;
    let (record, by_name) = match (column("file")?, column("record")?) {
        (Some(_), Some(_)) => {
            return Err("columns `file` and `record`, of which one alone would count".to_owned());
        }
        (Some(file), None) => (file, true),
        (None, Some(record)) => (record, false),
        (None, None) => return Err("no column `file` or `record` in its first line".to_owned()),
    };
    let finder = if by_name { RecordFinder::by_name(dataset)? } else { RecordFinder::Numbers(dataset.len()) };
    // Where each record was named, and its user.
    let mut owners: Vec<Option<(usize, String)>> = vec![None; dataset.len()];
    for (number, mut cells) in lines {
        let at = |problem: String| format!("line {number}: {problem}");
        if cells.len() != header.len() {
            return Err(at(format!("{} cells, but the first line has {}", cells.len(), header.len())));
        }
        let (name, user) = (std::mem::take(&mut cells[record]), std::mem::take(&mut cells[user]));
        if user.is_empty() {
            return Err(at(format!("{name} has no user")));
        }
        let found = finder.find(&name).map_err(at)?;
        if let Some((before, other)) = &owners[found] {
            return Err(match *other == user {
                true => at(format!("{name} is named in line {before} already")),
                false => at(format!(
                    "{name} is {user}'s here and {other}'s in line {before}, but a record has one user"
                )),
            });
        }
        owners[found] = Some((number, user));
    }
    let without = owners.iter().filter(|owner| owner.is_none()).count();
    if let Some(first) = owners.iter().position(Option::is_none) {
        let of = dataset.len();
        return Err(format!(
            "{without} of {of} training records have no user, the first is {}",
            dataset.place(first)
        ));
    }
    Ok(owners.into_iter().flatten().map(|(_, user)| user).collect())
}

/// What finds the record that a cell names.
enum RecordFinder {
    Names(BTreeMap<String, usize>),
    /// How many records there are.
    Numbers(usize),
}

impl RecordFinder {
    fn by_name(dataset: &dyn Dataset) -> Result<Self, String> {
        let named = |record| Some((dataset.name(record)?, record));
        let names: Option<BTreeMap<String, usize>> = (0..dataset.len()).map(named).collect();
        let names = names.ok_or(
            "the records of this format have no names; give a column `record` with their numbers from 0",
        )?;
        match names.len() == dataset.len() {
            true => Ok(Self::Names(names)),
            false => {
                Err("several records have one name; give a column `record` with their numbers from 0"
                    .to_owned())
            }
        }
    }

    fn find(&self, cell: &str) -> Result<usize, String> {
        match self {
            Self::Names(names) => {
                let found = names.get(cell).or_else(|| names.get(cell.strip_prefix("./")?)).copied();
                found.ok_or_else(|| {
                    let like = names.keys().next().map_or_else(String::new, |name| format!(", such as {name}"));
                    format!("no training record is named {cell:?}; names begin in the folder of the training records{like}")
                })
            }
            Self::Numbers(records) => cell
                .parse()
                .ok()
                .filter(|record| record < records)
                .ok_or_else(|| format!("{cell:?} is no number from 0 to {}", records.saturating_sub(1))),
        }
    }
}
