//! The header of a `.npy` file: magic, version, and a Python dictionary with element type, order and shape.

use std::io::Read;
use std::path::Path;

use dapple_plan::number::hexadecimal;

use crate::DataError;

/// Longest dictionary that is read; numpy writes about a hundred bytes.
const MAX_DICTIONARY: u32 = 1 << 16;
const MAGIC: &[u8] = b"\x93NUMPY";

/// What one element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    UnsignedByte,
    Float,
    Integer { bytes: usize, signed: bool },
}

impl Element {
    /// The element of a short name of numpy's. Elements of several bytes must be little-endian.
    fn parse(name: &str) -> Option<Self> {
        let mut characters = name.chars();
        let order = characters.next()?;
        let rest = characters.as_str();
        let single = matches!(rest, "u1" | "i1" | "b1");
        if order != '<' && !(single && order == '|') {
            return None;
        }
        let signed = rest.starts_with('i');
        match rest {
            "u1" | "b1" => Some(Self::UnsignedByte),
            "f4" => Some(Self::Float),
            "i1" | "i2" | "i4" | "i8" | "u2" | "u4" | "u8" => {
                Some(Self::Integer { bytes: rest[1..].parse().ok()?, signed })
            }
            _ => None,
        }
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::UnsignedByte => 1,
            Self::Float => 4,
            Self::Integer { bytes, .. } => bytes,
        }
    }

    /// The elements as signed whole numbers. Those above the largest signed number become that number. `None` for floats.
    pub(super) fn integers(self, bytes: &[u8]) -> Option<impl Iterator<Item = i64> + Clone> {
        let (width, signed) = match self {
            Self::UnsignedByte => (1, false),
            Self::Integer { bytes, signed } => (bytes, signed),
            Self::Float => return None,
        };
        let integer = move |word: &[u8]| {
            let negative = signed && word.last().is_some_and(|&high| high >= 0x80);
            let mut wide = [if negative { 0xff } else { 0 }; 8];
            wide[..width].copy_from_slice(word);
            if signed {
                i64::from_le_bytes(wide)
            } else {
                i64::try_from(u64::from_le_bytes(wide)).unwrap_or(i64::MAX)
            }
        };
        Some(bytes.chunks_exact(width).map(integer))
    }
}

/// What the file holds, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) element: Element,
    pub(super) shape: Vec<u64>,
    /// Offset of the first element.
    pub(super) start: u64,
}

impl Header {
    pub(super) fn read(reader: &mut impl Read, path: &Path) -> Result<Self, DataError> {
        let cut = |expected: u64, found: usize| DataError::Length {
            path: path.to_owned(),
            expected,
            found: found as u64,
        };
        let mut exactly = |length: u64, before: u64| {
            let mut bytes = Vec::new();
            reader.by_ref().take(length).read_to_end(&mut bytes).map_err(DataError::io(path))?;
            if bytes.len() as u64 == length {
                Ok(bytes)
            } else {
                Err(cut(before + length, before as usize + bytes.len()))
            }
        };
        let start = exactly(8, 0)?;
        if !start.starts_with(MAGIC) {
            let (expected, found) = ("a numpy array", hexadecimal(&start[..6]));
            return Err(DataError::Magic { path: path.to_owned(), expected, found });
        }
        let (length, before) = match start[6] {
            1 => (exactly(2, 8)?.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte)), 10),
            2 | 3 => (exactly(4, 8)?.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte)), 12),
            version => {
                return Err(DataError::malformed(path, format!("version {version} of the numpy format")));
            }
        };
        if length > MAX_DICTIONARY {
            return Err(DataError::malformed(path, format!("a header of {length} bytes")));
        }
        let text = exactly(length.into(), before)?;
        let text = String::from_utf8_lossy(&text);
        let unreadable = || DataError::malformed(path, "the numpy header cannot be read");
        let descr = value(&text, "descr").ok_or_else(unreadable)?;
        let name = descr.trim_matches(['\'', '"']);
        let element = Element::parse(name).ok_or_else(|| {
            let name: String = name.chars().filter(|c| !c.is_control()).take(20).collect();
            DataError::malformed(
                path,
                format!("elements of type `{name}`, but uint8, float32 and integers are read"),
            )
        })?;
        match value(&text, "fortran_order") {
            Some("False") => {}
            Some("True") => {
                return Err(DataError::malformed(path, "Fortran order; save it by numpy.ascontiguousarray"));
            }
            _ => return Err(unreadable()),
        }
        let shape = value(&text, "shape").and_then(shape).ok_or_else(unreadable)?;
        Ok(Self { element, shape, start: before + u64::from(length) })
    }

    /// The bytes of such a header, by the first version of the format.
    pub(super) fn to_bytes(element: Element, shape: &[u64]) -> Vec<u8> {
        let name = match element {
            Element::UnsignedByte => "|u1".to_owned(),
            Element::Float => "<f4".to_owned(),
            Element::Integer { bytes, signed } => format!("<{}{bytes}", if signed { 'i' } else { 'u' }),
        };
        let sides: String = shape.iter().map(|side| format!("{side}, ")).collect();
        let mut text =
            format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({}), }}", sides.trim_end());
        // What follows begins at a multiple of 64.
        let before = MAGIC.len() + 4;
        text.push_str(&" ".repeat((before + text.len() + 1).next_multiple_of(64) - before - text.len() - 1));
        text.push('\n');
        let length = (text.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, text.as_bytes()].concat()
    }

    /// The length that the file must have.
    pub(super) fn file_length(&self, path: &Path) -> Result<u64, DataError> {
        let elements = self
            .shape
            .iter()
            .try_fold(self.element.bytes() as u64, |product, &side| product.checked_mul(side));
        elements
            .and_then(|bytes| bytes.checked_add(self.start))
            .ok_or_else(|| DataError::malformed(path, format!("impossible dimensions {:?}", self.shape)))
    }
}

/// The text behind a key of the dictionary, up to the comma or bracket that ends it.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let after = text.split_once(&format!("'{key}'")).or_else(|| text.split_once(&format!("\"{key}\"")))?.1;
    let after = after.trim_start().strip_prefix(':')?.trim_start();
    let end = if after.starts_with('(') { after.find(')')? + 1 } else { after.find([',', '}'])? };
    Some(after[..end].trim())
}

/// A tuple of whole numbers.
fn shape(text: &str) -> Option<Vec<u64>> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    inner.split(',').map(str::trim).filter(|part| !part.is_empty()).map(|part| part.parse().ok()).collect()
}
