//! Boxes around private pixels.

use dapple_geometry::{Mask, Size};

/// A rectangle of an image in pixels, from its first to its last column and row. Both ends belong to it: detectors disagree about the last,
/// and what is in doubt is private.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelBox {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl PixelBox {
    /// The box between two corners.
    ///
    /// # Errors
    /// Corners that are not numbers, a second corner before the first, or a box that begins in the first pixel and ends before the third,
    /// which is how shares of the image look, also where they are a little more than one.
    pub fn between([left, top, right, bottom]: [f64; 4]) -> Result<Self, String> {
        let corners = [left, top, right, bottom];
        if corners.iter().any(|value| !value.is_finite()) {
            return Err(format!("a box {corners:?} with a corner that is no number"));
        }
        if right < left || bottom < top {
            return Err(format!("a box {corners:?} that ends before it begins"));
        }
        if left.max(top) < 1.0 && left.min(top) > -1.0 && right.max(bottom) < 2.0 {
            return Err(format!(
                "a box {corners:?} in the first two pixels; corners are pixels, not shares of the image"
            ));
        }
        Ok(Self { left, top, right, bottom })
    }

    /// The box that begins at a corner and has a width and a height.
    ///
    /// # Errors
    /// As [`PixelBox::between`].
    pub fn from_corner([x, y, width, height]: [f64; 4]) -> Result<Self, String> {
        Self::between([x, y, x + width, y + height])
    }
}

/// The pixels of an image that lie in a box. What is outside the image is cut off.
///
/// # Errors
/// A box that lies outside the image altogether, which is one of another image or of another scale.
pub(super) fn mask(boxes: &[PixelBox], size: Size) -> Result<Mask, String> {
    let (width, height) = (size.width() as usize, size.height() as usize);
    let mut pixels = vec![0; width * height];
    for PixelBox { left, top, right, bottom } in boxes {
        let outside = *right < 0.0 || *bottom < 0.0 || *left >= width as f64 || *top >= height as f64;
        if outside {
            return Err(format!("a box [{left}, {top}, {right}, {bottom}] outside the image of {size}"));
        }
        let place = |value: f64, side: usize| (value.max(0.0) as usize).min(side - 1);
        let columns = place(*left, width)..=place(*right, width);
        for row in pixels.chunks_exact_mut(width).take(place(*bottom, height) + 1).skip(place(*top, height)) {
            row[columns.clone()].fill(1);
        }
    }
    Mask::from_bytes(size, pixels).map_err(|error| error.to_string())
}

/// The names of columns that hold corners, and those that hold a corner and a size.
const CORNERS: [[&str; 4]; 3] =
    [["xmin", "ymin", "xmax", "ymax"], ["x1", "y1", "x2", "y2"], ["left", "top", "right", "bottom"]];
const SIZES: [[&str; 4]; 2] = [["x", "y", "width", "height"], ["x", "y", "w", "h"]];

/// The boxes of a table, one a line, whose first line names its columns. Other columns are passed over. No boxes are a table, too.
///
/// # Errors
/// No columns of boxes or several of one name, a line with more or fewer cells than the first, in which no cell is sure to be that of its
/// column, or a value that is no number.
pub(super) fn of_csv(text: &str) -> Result<Vec<PixelBox>, String> {
    let (boxes, _) = rows(text, false)?;
    Ok(boxes)
}

/// The same, with the frame of each box if the table has a column `frame`.
///
/// # Errors
/// As [`of_csv`]; a frame that is no whole number.
pub(super) fn of_csv_frames(text: &str) -> Result<(Vec<PixelBox>, Option<Vec<usize>>), String> {
    rows(text, true)
}

fn rows(text: &str, framed: bool) -> Result<(Vec<PixelBox>, Option<Vec<usize>>), String> {
    let cells = |line: &'_ str| -> Vec<String> {
        line.split(',').map(|cell| cell.trim().trim_matches('"').to_ascii_lowercase()).collect()
    };
    // A line may end in a carriage return alone. Taken for one line, such a table would have no boxes.
    let mut lines =
        text.trim_start_matches('\u{feff}').split(['\n', '\r']).filter(|line| !line.trim().is_empty());
    let header = cells(lines.next().unwrap_or_default());
    let find = |names: &[&str; 4]| {
        let places = names.map(|name| header.iter().position(|column| column == name));
        places.iter().all(Option::is_some).then(|| places.map(Option::unwrap_or_default))
    };
    if CORNERS.iter().chain(&SIZES).filter_map(find).count() > 1 {
        return Err("columns of boxes in several forms, of which one alone would count".to_owned());
    }
    let (columns, corners) = match (CORNERS.iter().find_map(find), SIZES.iter().find_map(find)) {
        (Some(columns), _) => (columns, true),
        (None, Some(columns)) => (columns, false),
        (None, None) => {
            return Err(
                "no columns xmin, ymin, xmax, ymax or x, y, width, height in its first line".to_owned()
            );
        }
    };
    let frame = header.iter().position(|column| framed && column == "frame");
    let again = |place: &usize| header.iter().filter(|column| **column == header[*place]).count() > 1;
    if let Some(place) = columns.into_iter().chain(frame).find(again) {
        return Err(format!("several columns {:?}, of which one alone would count", header[place]));
    }
    let one = |(number, line): (usize, &str)| {
        let cells = cells(line);
        if cells.len() != header.len() {
            let problem = format!("{} cells, but the first line has {}", cells.len(), header.len());
            return Err(format!("box {}: {problem}", number + 1));
        }
        let mut values = [0.0; 4];
        for (value, column) in values.iter_mut().zip(columns) {
            let cell = &cells[column];
            *value = cell.parse().map_err(|_| format!("box {}: {cell:?} is no number", number + 1))?;
        }
        let made = if corners { PixelBox::between(values) } else { PixelBox::from_corner(values) };
        let made = made.map_err(|problem| format!("box {}: {problem}", number + 1))?;
        let no_frame = |cell: &String| format!("box {}: {cell:?} is no number of a frame", number + 1);
        let of_frame = frame.map(|column| cells[column].parse().map_err(|_| no_frame(&cells[column])));
        Ok((made, of_frame.transpose()?.unwrap_or(0)))
    };
    let rows = lines.enumerate().map(one).collect::<Result<Vec<(PixelBox, usize)>, String>>()?;
    let (boxes, frames) = rows.into_iter().unzip();
    Ok((boxes, frame.map(|_| frames)))
}
