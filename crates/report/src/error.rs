//! What can go wrong when a report is made.

use thiserror::Error;

/// Why a table, a figure or a page could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReportError {
    /// A row was added whose number of cells is not the number of columns.
    #[error("table row {row} has {found} cells, the table has {expected} columns")]
    RowLength {
        /// Index of the row, from zero.
        row: usize,
        /// Cells given.
        found: usize,
        /// Columns of the table.
        expected: usize,
    },
    /// A PNG was asked for that no program could sensibly show.
    #[error("a PNG of {width} x {height} pixels cannot be drawn: the limit is {limit} pixels a side")]
    PixelSize {
        /// Width asked for.
        width: u64,
        /// Height asked for.
        height: u64,
        /// Largest side that is drawn.
        limit: u64,
    },
    /// An embedded font does not parse; the build is damaged.
    #[error("the embedded font does not parse")]
    Font,
    /// The PNG encoder refused.
    #[error("the PNG could not be encoded: {0}")]
    Encode(String),
    /// A picture whose pixels do not fill its rectangle.
    #[error("a picture of {width} x {height} with {found} pixels cannot be made")]
    Pixels {
        /// Width asked for.
        width: u32,
        /// Height asked for.
        height: u32,
        /// Pixels given.
        found: usize,
    },
    /// A map of classes with no colours, or with more than a byte can count.
    #[error("a label map with {colours} colours cannot be made")]
    Palette {
        /// Colours given.
        colours: usize,
    },
    /// The crop picture's rectangles do not fit into one another.
    #[error(
        "{inner} of {inner_width} x {inner_height} does not fit into the {outer_width} x {outer_height} image"
    )]
    DoesNotFit {
        /// Which rectangle: "crop" or "patch".
        inner: &'static str,
        /// Its width in pixels.
        inner_width: u32,
        /// Its height in pixels.
        inner_height: u32,
        /// Width of the image in pixels.
        outer_width: u32,
        /// Height of the image in pixels.
        outer_height: u32,
    },
}

impl ReportError {
    /// The way out, where there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::PixelSize { .. } => Some("use a smaller scale, or fewer panels, or write SVG"),
            Self::DoesNotFit { .. } => Some("sizes must be at least 1 x 1 and at most the image's"),
            Self::RowLength { .. } => Some("give one cell a column; an unknown value is Cell::Empty"),
            Self::Pixels { .. } => {
                Some("width and height must be positive, and the pixels as many as their product")
            }
            Self::Palette { .. } => Some("label maps have from 1 to 256 classes"),
            Self::Font | Self::Encode(_) => None,
        }
    }
}
