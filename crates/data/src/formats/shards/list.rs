//! What every list of records in shards says: which file each record lies in, what that holds, and in which shard.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use dapple_plan::number::hexadecimal;
use sha2::{Digest, Sha256};

use super::super::{one_line, same_twice};
use crate::dataset::within;
use crate::{DataError, DataLimits, MAX_CLASSES, csv, file};

/// A list as a table: its cells in the order of the columns that were asked for, each line with its number.
pub(super) struct ListTable<'l, const N: usize> {
    path: &'l Path,
    columns: [&'static str; N],
    pub(super) lines: Vec<(usize, [String; N])>,
}

impl<'l, const N: usize> ListTable<'l, N> {
    /// Reads a table whose first line names these columns; others are passed over. `path` stands for it in messages.
    ///
    /// # Errors
    /// Anything but such a table, or one without a line.
    pub(super) fn read(
        bytes: &[u8],
        path: &'l Path,
        columns: [&'static str; N],
        what: &'static str,
    ) -> Result<Self, DataError> {
        let mut table = Self { path, columns, lines: Vec::new() };
        let text =
            std::str::from_utf8(bytes).map_err(|_| table.wrong("it is not text in UTF-8".to_owned()))?;
        table.lines = table.cells(text).map_err(|problem| table.wrong(problem))?;
        match table.lines.is_empty() {
            true => Err(DataError::Empty { path: path.to_owned(), what }),
            false => Ok(table),
        }
    }

    fn cells(&self, text: &str) -> Result<Vec<(usize, [String; N])>, String> {
        let mut lines = csv::lines(text)?.into_iter();
        let (_, header) = lines.next().ok_or("it is empty")?;
        let column = |name: &str| {
            let mut places = (0..header.len()).filter(|&place| header[place].eq_ignore_ascii_case(name));
            match (places.next(), places.next()) {
                (Some(place), None) => Ok(place),
                (Some(_), Some(_)) => {
                    Err(format!("several columns {name:?}, of which one alone would count"))
                }
                (None, _) => Err(format!("no column `{name}` in its first line")),
            }
        };
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(self.columns) {
            *place = column(name)?;
        }
        lines
            .map(|(number, mut cells)| {
                if cells.len() != header.len() {
                    let problem = format!("{} cells, but the first line has {}", cells.len(), header.len());
                    return Err(format!("line {number}: {problem}"));
                }
                Ok((number, places.map(|place| std::mem::take(&mut cells[place]))))
            })
            .collect()
    }

    /// The error of the list as a whole.
    pub(super) fn wrong(&self, problem: String) -> DataError {
        let columns = self.columns.join(",");
        DataError::ShardList { path: self.path.to_owned(), problem: one_line(&problem), columns }
    }

    /// The error of a line.
    pub(super) fn at(&self, number: usize, problem: &str) -> DataError {
        self.wrong(format!("line {number}: {problem}"))
    }

    /// A file below a folder.
    pub(super) fn below(&self, number: usize, name: &str, what: &str) -> Result<PathBuf, DataError> {
        let path = PathBuf::from(name);
        match !name.is_empty() && path.components().all(|part| matches!(part, Component::Normal(_))) {
            // The same path may be spelled in several ways.
            true => Ok(path.components().collect()),
            false => Err(self.at(number, &format!("{name:?} is no file below the folder of {what}"))),
        }
    }

    /// A SHA-256 in small letters.
    pub(super) fn digest(&self, number: usize, cell: &str) -> Result<String, DataError> {
        match cell.len() == 64 && cell.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(cell.to_ascii_lowercase()),
            false => Err(self.at(number, &format!("{cell:?} is no SHA-256 in 64 hexadecimal digits"))),
        }
    }

    /// A number of pixels, records or whatever is counted.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        number: usize,
        cell: &str,
        what: &str,
    ) -> Result<T, DataError> {
        cell.parse().map_err(|_| self.at(number, &format!("{cell:?} is no {what}")))
    }

    /// The names of the classes and the class of each line: those of another data set, or those in this column, in the order of their numbers, or of
    /// their names if one is no number.
    pub(super) fn classes(
        &self,
        column: usize,
        like: Option<&[String]>,
    ) -> Result<(Vec<String>, Vec<u32>), DataError> {
        let names = like.map_or_else(|| in_order(self.distinct(column)), <[String]>::to_vec);
        if names.len() > MAX_CLASSES as usize {
            let (path, label) = (self.path.to_owned(), names.len() as i64 - 1);
            return Err(DataError::TooManyClasses { path, record: 0, label, limit: MAX_CLASSES });
        }
        let numbers: BTreeMap<&String, u32> = names.iter().zip(0..).collect();
        let class = |(number, cells): &(usize, [String; N])| {
            let name = &cells[column];
            let known = numbers.get(name).filter(|_| !name.is_empty()).copied();
            known.ok_or_else(|| self.at(*number, &format!("{name:?} is no class of the training data")))
        };
        let classes = self.lines.iter().map(class).collect::<Result<_, _>>()?;
        Ok((names, classes))
    }

    fn distinct(&self, column: usize) -> BTreeSet<&str> {
        self.lines.iter().map(|(_, cells)| cells[column].as_str()).collect()
    }
}

/// Names in the order of their numbers, or of their letters if one is no number.
fn in_order(names: BTreeSet<&str>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let number = |name: &String| name.parse::<u64>().ok();
    if names.iter().all(|name| number(name).is_some()) {
        names.sort_by_key(number);
    }
    names
}

/// A line of a list.
#[derive(Debug, Clone)]
pub(super) struct ShardLine {
    /// The file, from the folder of the records.
    pub(super) name: String,
    /// A SHA-256 of what the record is, in hexadecimal digits.
    pub(super) digest: String,
    /// The place of the shard's name.
    shard: usize,
}

/// The records that a list names. Files are looked for when they are read, so a machine may have those of some shards alone.
#[derive(Debug)]
pub(super) struct ShardList {
    pub(super) root: PathBuf,
    pub(super) limits: DataLimits,
    shards: Vec<String>,
    pub(super) lines: Vec<ShardLine>,
}

impl ShardList {
    /// The records below `root` that the columns of these places name: the file, its digest, its shard, and, where a file has several records,
    /// the number of the record in it.
    ///
    /// # Errors
    /// A record that is named twice or lies outside `root`, in no shard, or in a file that is the same as another.
    pub(super) fn of<const N: usize>(
        table: &ListTable<'_, N>,
        root: &Path,
        [file, digest, shard]: [usize; 3],
        record: Option<usize>,
        limits: &DataLimits,
    ) -> Result<Self, DataError> {
        let shards = in_order(table.distinct(shard));
        let places: BTreeMap<&String, usize> = shards.iter().zip(0..).collect();
        let mut named = BTreeMap::new();
        let mut lines = Vec::with_capacity(table.lines.len());
        for (number, cells) in &table.lines {
            let name = &cells[file];
            let path = table.below(*number, name, "the records")?;
            let of = record.map(|place| &cells[place]);
            if let Some(before) = named.insert((path, of), *number) {
                let record = of.map(|of| format!("record {of} of ")).unwrap_or_default();
                return Err(table.at(*number, &format!("{record}{name} is named in line {before} already")));
            }
            if cells[shard].is_empty() {
                return Err(table.at(*number, &format!("{name} lies in no shard")));
            }
            let digest = table.digest(*number, &cells[digest])?;
            lines.push(ShardLine { name: name.clone(), digest, shard: places[&cells[shard]] });
        }
        let files: BTreeSet<PathBuf> = named.into_keys().map(|(path, _)| root.join(path)).collect();
        let here: Vec<PathBuf> = files.into_iter().filter(|path| path.exists()).collect();
        same_twice(here.iter())?;
        Ok(Self { root: root.to_owned(), limits: *limits, shards, lines })
    }

    pub(super) fn line(&self, record: usize) -> Result<&ShardLine, DataError> {
        within(&self.lines, record)
    }

    /// Where the file of a record is, or would be.
    pub(super) fn path(&self, line: &ShardLine) -> PathBuf {
        self.root.join(&line.name)
    }

    /// The same path, if there is such a file.
    ///
    /// # Errors
    /// None, because it lies in a shard that is elsewhere.
    pub(super) fn here(&self, line: &ShardLine, path: PathBuf) -> Result<PathBuf, DataError> {
        match path.exists() {
            true => Ok(path),
            false => Err(DataError::OtherShard { path, shard: self.shards[line.shard].clone() }),
        }
    }

    /// The bytes of a file of a record.
    ///
    /// # Guarantee
    /// They are those that the list names by their digest.
    ///
    /// # Errors
    /// No such file here, one that cannot be read, or one that holds something else.
    pub(super) fn bytes(
        &self,
        line: &ShardLine,
        path: PathBuf,
        digest: &str,
    ) -> Result<(Vec<u8>, PathBuf), DataError> {
        let path = self.here(line, path)?;
        let bytes = file::read(&path, &self.limits)?;
        match hexadecimal(&Sha256::digest(&bytes)) == digest {
            true => Ok((bytes, path)),
            false => Err(DataError::OtherContent { path, what: "content" }),
        }
    }

    pub(super) fn shard(&self, record: usize) -> Option<&str> {
        Some(&self.shards[self.lines.get(record)?.shard])
    }

    pub(super) fn name(&self, record: usize) -> Option<String> {
        Some(self.lines.get(record)?.name.clone())
    }

    pub(super) fn place(&self, record: usize) -> String {
        let path = |line: &ShardLine| self.path(line).display().to_string();
        self.lines.get(record).map_or_else(|| format!("record {record}"), path)
    }
}

/// Writes the methods of [`crate::Dataset`] that a data set whose records a list names answers by that list in this field: where each record is, what
/// it is called, and in which shard it lies.
macro_rules! as_its_list {
    ($list:ident) => {
        fn place(&self, record: usize) -> String {
            self.$list.place(record)
        }

        fn name(&self, record: usize) -> Option<String> {
            self.$list.name(record)
        }

        fn shard(&self, record: usize) -> Option<&str> {
            self.$list.shard(record)
        }
    };
}
pub(super) use as_its_list;
