//! Colours by role, each in a light and a dark version.

/// Which colours an output uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Theme {
    /// Follows the reader's system (SVG and HTML); a PNG cannot, and is drawn light.
    #[default]
    Auto,
    /// Dark on white.
    Light,
    /// Light on near-black.
    Dark,
}

/// A colour as red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// The colour as `#rrggbb`.
    #[must_use]
    pub fn hex(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// A colour role: a name, and its colour on a light and on a dark background.
///
/// A name always stands for the same pair, so figures set side by side in one page can share style rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    /// Name of the style variable and class.
    pub name: &'static str,
    /// Colour on a light background.
    pub light: Rgb,
    /// Colour on a dark background.
    pub dark: Rgb,
}

const fn rgb(hex: u32) -> Rgb {
    let [_, red, green, blue] = hex.to_be_bytes();
    Rgb(red, green, blue)
}

const fn paint(name: &'static str, light: u32, dark: u32) -> Paint {
    Paint { name, light: rgb(light), dark: rgb(dark) }
}

impl Paint {
    /// The colour under a theme; `Auto` counts as light.
    #[must_use]
    pub const fn under(self, theme: Theme) -> Rgb {
        match theme {
            Theme::Dark => self.dark,
            Theme::Auto | Theme::Light => self.light,
        }
    }
}

/// The page behind everything.
pub const PAPER: Paint = paint("paper", 0xff_ffff, 0x14_171c);
/// Titles and important text.
pub const INK: Paint = paint("ink", 0x1b_1f24, 0xe8_eaed);
/// Axis labels, ticks, captions.
pub const MUTED: Paint = paint("muted", 0x59_626d, 0xa3_adb8);
/// Axis lines.
pub const AXIS: Paint = paint("axis", 0x8b_949e, 0x6b_7480);
/// Grid lines.
pub const GRID: Paint = paint("grid", 0xe6_e9ed, 0x2a_3038);
/// Fainter grid lines between the decades of a log axis.
pub const MINOR_GRID: Paint = paint("minor-grid", 0xf3_f4f6, 0x1e_2329);
/// Lines that mark a value the reader compares with.
pub const REFERENCE: Paint = paint("reference", 0x6e_7781, 0x8d_97a3);

/// Series colours after Okabe and Ito, darkened for white paper and lightened for dark paper so that each
/// keeps a contrast of at least 3 : 1 against its background.
pub const PALETTE: [Paint; 10] = [
    paint("series-1", 0x00_72b2, 0x5a_b0ee),
    paint("series-2", 0xd5_5e00, 0xff_8b52),
    paint("series-3", 0x00_8f68, 0x35_c99c),
    paint("series-4", 0xb3_5a8c, 0xe8_9fca),
    paint("series-5", 0xb9_7d00, 0xf0_b23a),
    paint("series-6", 0x2e_92cc, 0x9a_d6ff),
    paint("series-7", 0x5b_636d, 0xb8_c0c9),
    paint("series-8", 0x8a_7a00, 0xee_e36a),
    paint("series-9", 0x7a_4bb5, 0xc0_9cf2),
    paint("series-10", 0xa8_3240, 0xf0_8a96),
];

/// The colours of what runs are compared by, the same in every figure of every page. Where a figure compares anything else, such as crops or a
/// paper's number with ours, its series take the colours of the palette in their order.
pub mod method {
    /// A region protected, by batches of fixed size.
    pub const PATCH: usize = 0;
    /// A whole record substituted, by batches of fixed size.
    pub const RECORD: usize = 1;
    /// A region protected, by Poisson sampling.
    pub const PATCH_POISSON: usize = 2;
    /// A whole record substituted, by Poisson sampling.
    pub const RECORD_POISSON: usize = 3;
    /// A record added or removed.
    pub const ADD_REMOVE: usize = 4;
    /// Without privacy.
    pub const NON_PRIVATE: usize = 5;
    /// A region protected by noise on pixels, too.
    pub const NOISY_PIXELS: usize = 6;
    /// Private tokens substituted.
    pub const MASKED: usize = 7;
    /// Private tokens there or not.
    pub const MASKED_REMOVE: usize = 8;
    /// A whole user.
    pub const USER: usize = 9;

    /// The colour of a level of protection, by the names of its relation and of the way in which steps draw their records.
    #[must_use]
    pub fn of_level(relation: &str, sampling: &str) -> usize {
        match (relation, sampling) {
            ("patch", "poisson") => PATCH_POISSON,
            ("patch", _) => PATCH,
            ("replace", "poisson") => RECORD_POISSON,
            ("replace", _) => RECORD,
            ("masked", _) => MASKED,
            ("user", _) => USER,
            _ => ADD_REMOVE,
        }
    }
}

/// The series colour of an index; indices beyond the palette start again.
#[must_use]
pub const fn series_paint(index: usize) -> Paint {
    PALETTE[index % PALETTE.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(color: Rgb) -> f64 {
        let channel = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(color.0) + 0.7152 * channel(color.1) + 0.0722 * channel(color.2)
    }

    fn contrast(a: Rgb, b: Rgb) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_lines_stand_out_in_both_themes() {
        // WCAG 2: 4.5 : 1 for text, 3 : 1 for graphical objects.
        for theme in [Theme::Light, Theme::Dark] {
            let paper = PAPER.under(theme);
            assert!(contrast(INK.under(theme), paper) > 7.0);
            assert!(contrast(MUTED.under(theme), paper) > 4.5);
            for paint in PALETTE {
                assert!(contrast(paint.under(theme), paper) > 3.0, "{} {theme:?}", paint.name);
            }
        }
    }

    /// A cell of a heat map is covered by at most half of the first series' colour, and has a number in ink.
    #[test]
    fn numbers_in_heat_maps_can_be_read() {
        for theme in [Theme::Light, Theme::Dark] {
            let (Rgb(a, b, c), Rgb(x, y, z)) = (PAPER.under(theme), PALETTE[0].under(theme));
            let half = |one: u8, other: u8| u8::midpoint(one, other);
            assert!(contrast(INK.under(theme), Rgb(half(a, x), half(b, y), half(c, z))) > 4.5, "{theme:?}");
        }
    }

    #[test]
    fn hex_is_padded() {
        assert_eq!(Rgb(0, 10, 255).hex(), "#000aff");
    }
}
