//! Files that grow line by line and contain complete lines only.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::TrainError;
use crate::files::{self, Access};

/// Bytes that are read at once in search of the last complete line.
const BLOCK: u64 = 1 << 16;

/// A line of JSON with its end.
pub(crate) fn json_line(line: &impl Serialize) -> String {
    // Numbers and strings always have a JSON form.
    let mut text = serde_json::to_string(line).expect("numbers, words and lists of them");
    text.push('\n');
    text
}

/// A file to which lines are added, each completely or not at all.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Lines {
    /// Opens a file or makes one. A last line that a crash cut off is removed. Nothing is written through a link.
    pub(crate) fn open(path: &Path, access: Access) -> Result<Self, TrainError> {
        files::refuse_link(path)?;
        let new = !path.exists();
        let opened =
            files::options(access).create(true).read(true).append(true).open(path).and_then(|mut file| {
                let end = file.seek(SeekFrom::End(0))?;
                let length = whole_lines(&mut file, end)?;
                if length < end {
                    file.set_len(length)?;
                }
                Ok((file, length))
            });
        let (file, length) = opened.map_err(|source| TrainError::file(path, source))?;
        if new {
            files::sync_folder(files::folder_of(path))?;
        }
        Ok(Self { path: path.to_owned(), file, length })
    }

    /// A file of complete lines that is open already.
    pub(crate) fn of(path: &Path, file: File, length: u64) -> Self {
        Self { path: path.to_owned(), file, length }
    }

    /// Whether nobody else wrote to the file or put another in its place.
    pub(crate) fn is_untouched(&self) -> bool {
        files::is_at(&self.file, &self.path)
            && self.file.metadata().is_ok_and(|found| found.len() == self.length)
    }

    /// Whether there is no line yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a line, given with its end.
    pub(crate) fn add(&mut self, line: &str) -> Result<(), TrainError> {
        self.write(line, |_| Ok(()))
    }

    /// Adds a line, given with its end. Returns once it would survive a crash.
    pub(crate) fn add_lasting(&mut self, line: &str) -> Result<(), TrainError> {
        self.write(line, File::sync_data)
    }

    fn write(&mut self, line: &str, sync: impl Fn(&File) -> io::Result<()>) -> Result<(), TrainError> {
        let written = self.file.write_all(line.as_bytes()).and_then(|()| sync(&self.file));
        if let Err(source) = written {
            // Take half a line back. If that fails, whoever reads the file next finds the line cut off.
            let _ = self.file.set_len(self.length).and_then(|()| sync(&self.file));
            return Err(TrainError::file(&self.path, source));
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

/// Where the complete lines of a file end that is `end` bytes long.
fn whole_lines(file: &mut File, mut end: u64) -> io::Result<u64> {
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        block.clear();
        (&*file).take(end - start).read_to_end(&mut block)?;
        if let Some(place) = block.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + place as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_line_that_was_cut_off_gives_way_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        // The cut line and the complete one before it are longer than a block.
        let (long, cut) = ("x".repeat(150_000), "y".repeat(200_000));
        for before in [String::new(), format!("{long}\n"), format!("1\n{long}\n2\n")] {
            fs::write(&path, format!("{before}{cut}")).unwrap();
            let mut lines = Lines::open(&path, Access::Shared).unwrap();
            lines.add("a\n").unwrap();
            lines.add_lasting("b\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{before}a\nb\n"));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named() {
        let full = File::options().append(true).open("/dev/full").unwrap();
        let error = Lines::of(Path::new("log.jsonl"), full, 0).add("a\n").unwrap_err();
        assert!(error.to_string().contains("log.jsonl"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("full")), "{error:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_refused_and_another_hand_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.jsonl");
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        assert!(matches!(Lines::open(&path, Access::Shared), Err(TrainError::InTheWay { .. })));
        assert!(!folder.path().join("elsewhere").exists());
        fs::remove_file(&path).unwrap();

        let mut lines = Lines::open(&path, Access::Shared).unwrap();
        lines.add("a\n").unwrap();
        assert!(lines.is_untouched());
        fs::write(&path, "a\nb\n").unwrap();
        assert!(!lines.is_untouched());
        // A copy of the same length is another file.
        fs::write(&path, "a\n").unwrap();
        assert!(lines.is_untouched());
        fs::copy(&path, folder.path().join("copy")).unwrap();
        fs::rename(folder.path().join("copy"), &path).unwrap();
        assert!(!lines.is_untouched());
    }
}
