//! A chain of lines. Each holds a hash of its own text and of the hash of the line before it.

use super::error::LedgerError;
use crate::digest;

/// The hash that stands before the first line.
pub(crate) const ROOT: &str = "0000000000000000000000000000000000000000000000000000000000000000";

const BEFORE_HASH: &str = "{\"hash\":\"";
const BEFORE_ENTRY: &str = "\",\"entry\":";
const END: &str = "}";

/// The line of a text that follows one with the hash `previous`, and its own hash.
pub(crate) fn line(body: &str, previous: &str) -> (String, String) {
    let hash = digest::of(&[previous.as_bytes(), body.as_bytes()]);
    (format!("{BEFORE_HASH}{hash}{BEFORE_ENTRY}{body}{END}\n"), hash)
}

/// A line that has been checked against those before it.
pub(crate) struct ChainLink<'a> {
    /// The line, from 1.
    pub(crate) number: usize,
    pub(crate) hash: &'a str,
    pub(crate) body: &'a str,
}

/// All complete lines, and how many bytes they take. A last line without its end is left out.
///
/// # Errors
/// A line that does not fit those before it.
pub(crate) fn read(bytes: &[u8]) -> Result<(Vec<ChainLink<'_>>, usize), LedgerError> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let mut links: Vec<ChainLink<'_>> = Vec::new();
    for (index, line) in bytes[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
        let number = index + 1;
        let text = std::str::from_utf8(&line[..line.len() - 1]).ok();
        let (hash, body) = text.and_then(split).ok_or(LedgerError::Broken { line: number })?;
        let previous = links.last().map_or(ROOT, |link| link.hash);
        if digest::of(&[previous.as_bytes(), body.as_bytes()]) != hash {
            return Err(LedgerError::Chain { line: number });
        }
        links.push(ChainLink { number, hash, body });
    }
    Ok((links, whole))
}

/// The hash and the text of a line without its end; `None` for anything else.
fn split(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix(BEFORE_HASH)?;
    let hash = rest.get(..ROOT.len())?;
    let body = rest.get(ROOT.len()..)?.strip_prefix(BEFORE_ENTRY)?.strip_suffix(END)?;
    Some((hash, body))
}
