use std::fmt;
use std::str::FromStr;

use crate::GeometryError;

/// Pixels added on each side of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Padding {
    /// Added left and right.
    pub x: u32,
    /// Added above and below.
    pub y: u32,
}

impl Padding {
    /// The same padding on all four sides.
    pub fn uniform(pixels: u32) -> Self {
        Self { x: pixels, y: pixels }
    }
}

/// What the added pixels show.
///
/// Only [`PaddingMode::Zero`] adds pixels that do not depend on the image. The others copy content, private content
/// included, and their copies of the mask are counted as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PaddingMode {
    /// A constant.
    #[default]
    Zero,
    /// The image mirrored about its edge pixel (`c b | a b c | b a`); needs padding < length, as torchvision does.
    Reflect,
    /// The edge pixel repeated.
    Replicate,
    /// The opposite side (`b c | a b c | a b`); needs padding <= length.
    Wrap,
}

impl PaddingMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Zero, Self::Reflect, Self::Replicate, Self::Wrap];

    /// The pixel that stands at `index` of an axis of `length` pixels continued on both ends, and how often the axis wrapped around to
    /// get there; nothing where a constant stands. This is the one rule of padding: images are padded and masks are propagated by it.
    #[must_use]
    pub fn source(self, index: i64, length: i64) -> Option<(i64, i64)> {
        match self {
            Self::Zero => (0..length).contains(&index).then_some((index, 0)),
            Self::Replicate => Some((index.clamp(0, length - 1), 0)),
            // c b | a b c | b a
            Self::Reflect => {
                let folded = index.abs();
                Some((if folded >= length { 2 * (length - 1) - folded } else { folded }, 0))
            }
            Self::Wrap => Some((index.rem_euclid(length), index.div_euclid(length))),
        }
    }

    /// Smallest image length along an axis that this mode can pad by `pad`.
    pub(crate) fn needed_length(self, pad: u32) -> u64 {
        match self {
            Self::Zero | Self::Replicate => 1,
            Self::Reflect => u64::from(pad) + 1,
            Self::Wrap => u64::from(pad),
        }
    }
}

impl fmt::Display for PaddingMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Zero => "zero",
            Self::Reflect => "reflect",
            Self::Replicate => "replicate",
            Self::Wrap => "wrap",
        })
    }
}

impl FromStr for PaddingMode {
    type Err = GeometryError;

    fn from_str(text: &str) -> Result<Self, GeometryError> {
        Ok(match text {
            "zero" => Self::Zero,
            "reflect" => Self::Reflect,
            "replicate" => Self::Replicate,
            "wrap" => Self::Wrap,
            _ => {
                return Err(GeometryError::UnknownName {
                    what: "padding mode",
                    found: text.to_owned(),
                    known: "zero, reflect, replicate, wrap",
                });
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_show_what_they_say() {
        let letters = |mode: PaddingMode| -> String {
            let letter =
                |index| mode.source(index, 3).map_or('.', |(pixel, _)| char::from(b'a' + pixel as u8));
            (-2..5).map(letter).collect()
        };
        assert_eq!(letters(PaddingMode::Zero), "..abc..");
        assert_eq!(letters(PaddingMode::Reflect), "cbabcba");
        assert_eq!(letters(PaddingMode::Replicate), "aaabccc");
        assert_eq!(letters(PaddingMode::Wrap), "bcabcab");
    }

    #[test]
    fn reads_what_it_writes() {
        for mode in [PaddingMode::Zero, PaddingMode::Reflect, PaddingMode::Replicate, PaddingMode::Wrap] {
            assert_eq!(mode.to_string().parse::<PaddingMode>().unwrap(), mode);
        }
        assert!("mirror".parse::<PaddingMode>().unwrap_err().hint().unwrap().contains("reflect"));
    }
}
