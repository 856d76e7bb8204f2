//! Writes results to stdout, everything else to stderr, and files by one rename each.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

pub(crate) use dapple_plan::wrapped;
use serde::Serialize;

use crate::failure::{Failure, harmless};

/// How many bytes at the beginning of a file are read to tell what it is.
const HEAD: u64 = 1024;

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{newline}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::run(format!("cannot write to stdout: {error}"))),
    }
}

/// Prints a result as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::run(format!("the result has no JSON form: {error}")))?;
    print(&text)
}

/// Says something on stderr that is not part of the result.
pub(crate) fn say(quiet: bool, text: &str) {
    if !quiet {
        // If stderr is closed, nobody is left to tell.
        let _ = writeln!(std::io::stderr().lock(), "{}", harmless(text));
    }
}

/// Refuses a file name that cannot be written, before any work is done.
pub(crate) fn check_target(flag: &str, path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() || path.file_name().is_none() {
        return Err(Failure::request(
            format!("--{flag}: {} is a folder", path.display()),
            "give the name of a file",
        ));
    }
    refuse_link(path)?;
    if !head(path).is_none_or(|found| could_be(flag, &found)) {
        return Err(foreign(path));
    }
    if !folder.is_dir() {
        return Err(Failure::request(
            format!("--{flag}: there is no folder {}", folder.display()),
            format!("make it first: mkdir -p {}", folder.display()),
        ));
    }
    Ok(())
}

/// Refuses to write through a link, or to a device.
fn refuse_link(path: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(Failure::request(
            format!("{}: not a file of its own; nothing is written through links", path.display()),
            "give another name, or move it away",
        )),
        _ => Ok(()),
    }
}

/// Refuses to write over a file of another kind than the new one, such as a plan, a ledger or somebody's table.
fn refuse_foreign(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    refuse_link(path)?;
    match head(path).is_none_or(|found| kind(&found) == kind(bytes)) {
        true => Ok(()),
        false => Err(foreign(path)),
    }
}

fn foreign(path: &Path) -> Failure {
    Failure::request(
        format!("{}: there is another file of this name, and it is not written over", path.display()),
        "give another name, or move the file away",
    )
}

/// The beginning of a file, or `None` if there is no such file or it is empty. A file that cannot be read does not count as empty.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    match File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut found)) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Ok(0) => None,
        _ => Some(found),
    }
}

/// Whether a file with this beginning could have been written by a flag. This is checked before any work is done, and again when the
/// content is known.
fn could_be(flag: &str, head: &[u8]) -> bool {
    match flag {
        "html" => head.starts_with(b"<!DOCTYPE html>"),
        "svg" => head.starts_with(b"<svg"),
        "pdf" => head.starts_with(b"%PDF-"),
        "csv" => kind(head).contains(&b','),
        "onnx" => head.starts_with(b"\x08\x08\x12\x06dapple"),
        "sample" => contains(head, b"{\"input\":{\"dtype\":\"F32\""),
        _ => head.starts_with(b"\x89PNG"),
    }
}

/// What tells files of this program from others: how its figures, pages and tables begin.
fn kind(bytes: &[u8]) -> &[u8] {
    let head = &bytes[..bytes.len().min(HEAD as usize)];
    match head {
        [b'<', b's', b'v', b'g', ..] if contains(head, b"dapple-figure") => b"figure",
        // Our pages forbid themselves the network, which few others do.
        [b'<', b'!', ..] if contains(head, b"Content-Security-Policy") => b"page",
        // The first line is the mark of a picture, the columns of a table, or the head of a manual page.
        _ => &head[..head.iter().position(|byte| *byte == b'\n').unwrap_or(head.len())],
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Writes a file under another name in the same folder and then renames it. Only a file of the same kind is written over.
pub(crate) fn write_file(path: &Path, bytes: &[u8], quiet: bool) -> Result<(), Failure> {
    refuse_foreign(path, bytes)?;
    replace_file(path, quiet, |file| file.write_all(bytes))
}

/// As [`write_file`], piece by piece, over a file that [`check_target`] has looked at.
pub(crate) fn replace_file(
    path: &Path,
    quiet: bool,
    write: impl FnOnce(&mut File) -> std::io::Result<()>,
) -> Result<(), Failure> {
    refuse_link(path)?;
    let failed = |error: std::io::Error| Failure::run(format!("cannot write {}: {error}", path.display()));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part: PathBuf = path.with_file_name(name);
    let written = File::options()
        .write(true)
        .create_new(true)
        .open(&part)
        .and_then(|mut file| write(&mut file))
        .and_then(|()| fs::rename(&part, path));
    if let Err(error) = written {
        // The part may not exist, and the first error is the one to report.
        let _ = fs::remove_file(&part);
        return Err(failed(error));
    }
    say(quiet, &format!("wrote {}", path.display()));
    Ok(())
}

/// The command line as it could be typed again.
pub(crate) fn command_line() -> String {
    command_of(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

/// The command line for a page that is passed on: of a path that leads from the root, only the last part.
pub(crate) fn shown_command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    command_of(words.map(|word| match word.split_once('=') {
        Some((key, value)) => format!("{key}={}", dapple_pages::without_folders(value)),
        None => dapple_pages::without_folders(&word),
    }))
}

fn command_of(words: impl Iterator<Item = String>) -> String {
    let quoted = |word: String| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    std::iter::once("dapple".to_owned()).chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_same_kind_are_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let page = |title: &str| dapple_report::Page::new(title).to_html().into_bytes();
        let same: [(&[u8], &[u8]); 3] = [
            (b"crop,epsilon\r\n1,2\r\n", b"crop,epsilon\r\n3,4\r\n"),
            (b"\x89PNG\r\n\x1a\n1", b"\x89PNG\r\n\x1a\n2"),
            (&page("one"), &page("two")),
        ];
        let foreign: [(&[u8], &[u8]); 5] = [
            (b"[privacy]\nepsilon = 1\n", b"crop,epsilon\r\n3,4\r\n"),
            (b"name,age\r\n", b"crop,epsilon\r\n"),
            (b"{\"hash\":\"00\"}\n", &page("two")),
            (b"<!DOCTYPE html>\n<html>\n<head>\n<title>Mine</title>\n", &page("two")),
            (b"<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>", b"<svg class=\"dapple-figure\"></svg>"),
        ];
        let path = folder.path().join("file");
        for (before, after) in same {
            fs::write(&path, before).unwrap();
            write_file(&path, after, true).unwrap();
            assert_eq!(fs::read(&path).unwrap(), after);
        }
        for (before, after) in foreign {
            fs::write(&path, before).unwrap();
            assert!(matches!(write_file(&path, after, true), Err(Failure::Request { .. })));
            assert_eq!(fs::read(&path).unwrap(), before);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
