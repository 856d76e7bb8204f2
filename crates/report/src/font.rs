//! The embedded font: text widths for every figure, outlines for PNG files.

use std::sync::OnceLock;
use ttf_parser::Face;

static REGULAR: &[u8] = include_bytes!("../fonts/Inter-Regular-subset.otf");
static SEMIBOLD: &[u8] = include_bytes!("../fonts/Inter-SemiBold-subset.otf");

/// How heavy a text is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// Running text.
    Regular,
    /// Titles and headline numbers.
    Semibold,
}

/// Share of the font size that a width is taken to be when no glyph says better.
const FALLBACK_ADVANCE: f64 = 0.6;

/// The parsed face of a weight; `None` only if the embedded bytes were damaged.
pub(crate) fn face(weight: Weight) -> Option<&'static Face<'static>> {
    static FACES: [OnceLock<Option<Face<'static>>>; 2] = [OnceLock::new(), OnceLock::new()];
    let (slot, bytes) = match weight {
        Weight::Regular => (&FACES[0], REGULAR),
        Weight::Semibold => (&FACES[1], SEMIBOLD),
    };
    slot.get_or_init(|| Face::parse(bytes, 0).ok()).as_ref()
}

/// Width of a character at size 1.
pub(crate) fn advance(character: char, weight: Weight) -> f64 {
    let Some(face) = face(weight) else { return FALLBACK_ADVANCE };
    let glyph = face.glyph_index(character).unwrap_or_default();
    face.glyph_hor_advance(glyph)
        .map_or(FALLBACK_ADVANCE, |units| f64::from(units) / f64::from(face.units_per_em()))
}

/// Width of a line of text at a font size, in the figure's units.
pub(crate) fn width(text: &str, size: f64, weight: Weight) -> f64 {
    text.chars().map(|character| advance(character, weight)).sum::<f64>() * size
}

/// Cuts a text with an ellipsis so that it is no wider than `limit`.
pub(crate) fn shorten(text: &str, size: f64, weight: Weight, limit: f64) -> String {
    // A limit made from this very width must not lose to rounding.
    if width(text, size, weight) <= limit + 1e-6 {
        return text.to_owned();
    }
    let mut used = width("…", size, weight);
    let mut out = String::new();
    for character in text.chars() {
        used += advance(character, weight) * size;
        if used > limit {
            break;
        }
        out.push(character);
    }
    let mut out = out.trim_end().to_owned();
    if width("…", size, weight) <= limit {
        out.push('…');
    }
    out
}

/// Breaks a text at spaces into lines no wider than `limit`; a single longer word is cut.
pub(crate) fn wrap(text: &str, size: f64, weight: Weight, limit: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        if line.is_empty() || width(&longer, size, weight) <= limit {
            line = longer;
        } else {
            lines.push(shorten(&line, size, weight, limit));
            line = word.to_owned();
        }
    }
    if !line.is_empty() {
        lines.push(shorten(&line, size, weight, limit));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_faces_parse_and_hold_the_signs_we_draw() {
        for weight in [Weight::Regular, Weight::Semibold] {
            let face = face(weight).expect("embedded font");
            for sign in "AZaz09⁰¹²³⁴⁵⁶⁷⁸⁹⁻εδσαβγΔΣ×·−–—≤≥≈∞…→√±".chars()
            {
                assert!(face.glyph_index(sign).is_some(), "{sign} is missing");
            }
        }
        assert!(REGULAR.len() + SEMIBOLD.len() < 60_000);
    }

    #[test]
    fn wrapping_and_shortening_keep_the_limit() {
        let text = "A sentence that is a good deal longer than one line of the figure can hold, supercalifragilistic";
        for limit in [40.0, 90.0, 300.0] {
            for line in wrap(text, 12.0, Weight::Regular, limit) {
                assert!(width(&line, 12.0, Weight::Regular) <= limit + 1e-6);
            }
            assert!(width(&shorten(text, 12.0, Weight::Regular, limit), 12.0, Weight::Regular) <= limit);
        }
        assert_eq!(shorten("short", 12.0, Weight::Regular, 300.0), "short");
        assert!(wrap("  ", 12.0, Weight::Regular, 10.0).is_empty());
    }
}
