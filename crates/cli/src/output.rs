//! Results on stdout, talk on stderr, files by one rename each.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Failure;

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

/// Says something beside the result.
pub(crate) fn say(quiet: bool, text: &str) {
    if !quiet {
        // Nobody is left to tell if stderr is closed.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
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
    if !folder.is_dir() {
        return Err(Failure::request(
            format!("--{flag}: there is no folder {}", folder.display()),
            format!("make it first: mkdir -p {}", folder.display()),
        ));
    }
    Ok(())
}

/// Writes a file under another name in the same folder and moves it into place.
pub(crate) fn write_file(path: &Path, bytes: &[u8], quiet: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::run(format!("cannot write {}: {error}", path.display()));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part: PathBuf = path.with_file_name(name);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    if let Err(error) = written {
        // The part may not exist; the first error is the one to tell.
        let _ = fs::remove_file(&part);
        return Err(failed(error));
    }
    say(quiet, &format!("wrote {}", path.display()));
    Ok(())
}

/// The command line as it could be typed again.
pub(crate) fn command_line() -> String {
    let quoted = |word: String| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=,+@%".contains(letter);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("dapple".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}
