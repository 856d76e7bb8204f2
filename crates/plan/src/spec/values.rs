//! Values that may be written in more than one way.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Two numbers of pixels: `[w, h]`, `"WxH"`, or one number for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pixels {
    /// Along x.
    pub x: u32,
    /// Along y.
    pub y: u32,
}

impl fmt::Display for Pixels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}x{}", self.x, self.y)
    }
}

impl FromStr for Pixels {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let side = |part: &str| part.trim().parse::<u32>().map_err(|_| ());
        match text.split_once(['x', 'X']) {
            Some((x, y)) => Ok(Self { x: side(x)?, y: side(y)? }),
            None => side(text).map(|side| Self { x: side, y: side }),
        }
    }
}

impl Serialize for Pixels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pair(serializer, self.x, self.y)
    }
}

impl<'de> Deserialize<'de> for Pixels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PixelsVisitor;
        impl<'de> Visitor<'de> for PixelsVisitor {
            type Value = Pixels;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("whole pixels as [width, height] or \"WIDTHxHEIGHT\"")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Pixels, E> {
                let side =
                    u32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))?;
                Ok(Pixels { x: side, y: side })
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Pixels, E> {
                let side =
                    u32::try_from(value).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))?;
                Ok(Pixels { x: side, y: side })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Pixels, E> {
                text.parse().map_err(|()| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Pixels, A::Error> {
                let (x, y) = two(&mut sequence, &self)?;
                Ok(Pixels { x, y })
            }
        }
        deserializer.deserialize_any(PixelsVisitor)
    }
}

/// An interval of real numbers: `[low, high]` or `"low:high"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pair(serializer, self.low, self.high)
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntervalVisitor;
        impl<'de> Visitor<'de> for IntervalVisitor {
            type Value = Interval;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an interval as [low, high] or \"low:high\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Interval, E> {
                let end = |part: &str| part.trim().parse::<f64>().ok();
                text.split_once(':')
                    .and_then(|(low, high)| Some(Interval { low: end(low)?, high: end(high)? }))
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Interval, A::Error> {
                let (low, high) = two(&mut sequence, &self)?;
                Ok(Interval { low, high })
            }
        }
        deserializer.deserialize_any(IntervalVisitor)
    }
}

/// The smallest and the largest size of images: `"WxH:WxH"` or `[[w, h], [w, h]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SizeRange {
    /// The least width and the least height.
    pub least: Pixels,
    /// The largest width and the largest height.
    pub most: Pixels,
}

impl fmt::Display for SizeRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.least, self.most)
    }
}

impl Serialize for SizeRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SizeRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RangeVisitor;
        impl<'de> Visitor<'de> for RangeVisitor {
            type Value = SizeRange;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("two sizes as \"WIDTHxHEIGHT:WIDTHxHEIGHT\", the smaller first")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SizeRange, E> {
                text.split_once(':')
                    .and_then(|(least, most)| {
                        Some(SizeRange { least: least.parse().ok()?, most: most.parse().ok()? })
                    })
                    .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<SizeRange, A::Error> {
                let (least, most) = two(&mut sequence, &self)?;
                Ok(SizeRange { least, most })
            }
        }
        deserializer.deserialize_any(RangeVisitor)
    }
}

/// The failure probability: a number, or `"1/n"` for one over the number of records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delta {
    /// A number.
    Value(f64),
    /// One over the number of records.
    OneOverRecords,
}

impl Serialize for Delta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => serializer.serialize_f64(*value),
            Self::OneOverRecords => serializer.serialize_str("1/n"),
        }
    }
}

impl<'de> Deserialize<'de> for Delta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DeltaVisitor;
        impl Visitor<'_> for DeltaVisitor {
            type Value = Delta;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a probability such as 1e-5, or \"1/n\"")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Delta, E> {
                Ok(Delta::Value(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Delta, E> {
                Ok(Delta::Value(value as f64))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Delta, E> {
                Ok(Delta::Value(value as f64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Delta, E> {
                match text.trim() {
                    "1/n" | "1/N" => Ok(Delta::OneOverRecords),
                    number => number
                        .parse()
                        .map(Delta::Value)
                        .map_err(|_| E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(DeltaVisitor)
    }
}

fn pair<S: Serializer, T: Serialize>(serializer: S, first: T, second: T) -> Result<S::Ok, S::Error> {
    let mut sequence = serializer.serialize_seq(Some(2))?;
    sequence.serialize_element(&first)?;
    sequence.serialize_element(&second)?;
    sequence.end()
}

fn two<'de, A: SeqAccess<'de>, T: Deserialize<'de>, V: Visitor<'de>>(
    sequence: &mut A,
    visitor: &V,
) -> Result<(T, T), A::Error> {
    let mut next =
        |index: usize| sequence.next_element::<T>()?.ok_or_else(|| A::Error::invalid_length(index, visitor));
    let both = (next(0)?, next(1)?);
    match sequence.next_element::<serde::de::IgnoredAny>()? {
        None => Ok(both),
        Some(_) => Err(A::Error::invalid_length(3, visitor)),
    }
}
