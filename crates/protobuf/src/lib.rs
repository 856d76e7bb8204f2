//! Writes messages in the binary form of protocol buffers, which ONNX and TensorBoard read.
//!
//! A [`Message`] knows its length before it is written, and borrows what is large, so that a model of a gigabyte is written from where it
//! lies.
//!
//! ```
//! use dapple_protobuf::Message;
//!
//! let mut inner = Message::default();
//! inner.integer(1, 150);
//! let mut outer = Message::default();
//! outer.message(3, inner);
//! assert_eq!(outer.to_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
//! ```

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::io::{self, Write};

/// How many numbers are turned into bytes at once.
const CHUNK: usize = 4096;

/// A message: numbered fields in the order in which they were added. A repeated field is added several times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message<'a> {
    fields: Vec<(u32, FieldValue<'a>)>,
}

/// What a field holds, by the way in which it is written.
#[derive(Debug, Clone, PartialEq)]
enum FieldValue<'a> {
    Integer(u64),
    Four([u8; 4]),
    Eight([u8; 8]),
    Bytes(Cow<'a, [u8]>),
    /// Bytes that hold numbers, the lowest byte of each first.
    Numbers(Cow<'a, [f32]>),
    Message(Message<'a>),
}

impl FieldValue<'_> {
    /// The kind of the field, which its tag tells.
    fn wire_type(&self) -> u64 {
        match self {
            Self::Integer(_) => 0,
            Self::Eight(_) => 1,
            Self::Bytes(_) | Self::Numbers(_) | Self::Message(_) => 2,
            Self::Four(_) => 5,
        }
    }

    /// The number of bytes of the content, where that is written before it.
    fn content(&self) -> Option<u64> {
        match self {
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Numbers(numbers) => Some(4 * numbers.len() as u64),
            Self::Message(message) => Some(message.length()),
            Self::Integer(_) | Self::Four(_) | Self::Eight(_) => None,
        }
    }

    fn length(&self) -> u64 {
        match self {
            Self::Integer(value) => varint_length(*value),
            Self::Four(_) => 4,
            Self::Eight(_) => 8,
            Self::Bytes(_) | Self::Numbers(_) | Self::Message(_) => {
                let content = self.content().unwrap_or(0);
                varint_length(content) + content
            }
        }
    }
}

impl<'a> Message<'a> {
    /// Adds a whole number, or a number that stands for a word.
    pub fn integer(&mut self, field: u32, value: i64) {
        self.fields.push((field, FieldValue::Integer(value.cast_unsigned())));
    }

    /// Adds a number in single precision.
    pub fn float(&mut self, field: u32, value: f32) {
        self.fields.push((field, FieldValue::Four(value.to_le_bytes())));
    }

    /// Adds a number in double precision.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fields.push((field, FieldValue::Eight(value.to_le_bytes())));
    }

    /// Adds a text.
    pub fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes().to_vec());
    }

    /// Adds bytes.
    pub fn bytes(&mut self, field: u32, value: impl Into<Cow<'a, [u8]>>) {
        self.fields.push((field, FieldValue::Bytes(value.into())));
    }

    /// Adds the bytes of numbers in single precision, the lowest byte of each first.
    pub fn numbers(&mut self, field: u32, values: impl Into<Cow<'a, [f32]>>) {
        self.fields.push((field, FieldValue::Numbers(values.into())));
    }

    /// Adds a message.
    pub fn message(&mut self, field: u32, value: Message<'a>) {
        self.fields.push((field, FieldValue::Message(value)));
    }

    /// The number of bytes that [`Message::write`] writes.
    pub fn length(&self) -> u64 {
        self.fields.iter().map(|(field, value)| varint_length(tag(*field, value)) + value.length()).sum()
    }

    /// Writes the message.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (field, value) in &self.fields {
            write_varint(tag(*field, value), out)?;
            if let Some(content) = value.content() {
                write_varint(content, out)?;
            }
            match value {
                FieldValue::Integer(value) => write_varint(*value, out)?,
                FieldValue::Four(bytes) => out.write_all(bytes)?,
                FieldValue::Eight(bytes) => out.write_all(bytes)?,
                FieldValue::Bytes(bytes) => out.write_all(bytes)?,
                FieldValue::Numbers(numbers) => {
                    for chunk in numbers.chunks(CHUNK) {
                        let bytes: Vec<u8> = chunk.iter().flat_map(|number| number.to_le_bytes()).collect();
                        out.write_all(&bytes)?;
                    }
                }
                FieldValue::Message(message) => message.write(out)?,
            }
        }
        Ok(())
    }

    /// The message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).expect("memory takes what is written to it");
        bytes
    }
}

/// What stands before a field: its number and its kind.
fn tag(field: u32, value: &FieldValue<'_>) -> u64 {
    u64::from(field) << 3 | value.wire_type()
}

fn varint_length(value: u64) -> u64 {
    u64::from((64 - (value | 1).leading_zeros()).div_ceil(7))
}

/// Writes seven bits in each byte, the lowest first; the highest bit of a byte says that another follows.
fn write_varint(mut value: u64, out: &mut impl Write) -> io::Result<()> {
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        match value {
            0 => return out.write_all(&[low]),
            _ => out.write_all(&[low | 0x80])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those that Google's Python package `protobuf` writes for the same fields.
    #[test]
    fn fields_have_the_bytes_that_readers_expect() {
        let mut message = Message::default();
        message.integer(1, -1);
        message.integer(2, 0);
        message.integer(16, 1 << 35);
        message.float(3, 1.5);
        message.double(4, -2.25);
        message.text(5, "testing");
        message.numbers(6, vec![1.0_f32, -0.5]);
        let expected = "08ffffffffffffffffff01 1000 8001808080808001 1d0000c03f 2100000000000002c0 2a0774657374696e67 32080000803f000000bf";
        let hex: String = message.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""));
    }

    #[test]
    fn the_length_is_known_before_anything_is_written() {
        let mut outer = Message::default();
        for value in [0, 1, 127, 128, 16_383, 16_384, i64::MAX, i64::MIN] {
            let mut inner = Message::default();
            inner.integer(15, value);
            inner.integer(2048, value);
            inner.bytes(3, vec![7; (value & 0x1ff).unsigned_abs() as usize]);
            assert_eq!(inner.length(), inner.to_bytes().len() as u64, "{value}");
            outer.message(9, inner);
        }
        outer.numbers(2, vec![0.25; CHUNK + 1]);
        assert_eq!(outer.length(), outer.to_bytes().len() as u64);
    }
}
