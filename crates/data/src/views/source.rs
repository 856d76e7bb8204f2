//! Reading normalised pixels through a mapping.

use dapple_geometry::Size;

use super::crop::Place;
use super::mapping::Mapping;
use super::normalise::Normalise;
use crate::{Image, Values};

/// Pixels to read from.
pub(super) enum Source<'a> {
    /// An image as it was decoded.
    Image(&'a Image),
    /// Normalised planes `[channels, height, width]`, made by an operation.
    Planes { size: Size, values: Vec<f32> },
}

impl Source<'_> {
    pub(super) fn size(&self) -> Size {
        match self {
            Self::Image(image) => image.size(),
            Self::Planes { size, .. } => *size,
        }
    }

    /// Writes the pixels of a place, seen through the mapping, as normalised planes `[channels, height, width]`.
    pub(super) fn read(&self, mapping: &Mapping, place: Place, normalise: &Normalise, output: &mut [f32]) {
        let width = self.size().width() as usize;
        let columns = &mapping.x[place.x as usize..][..place.size.width() as usize];
        let rows = &mapping.y[place.y as usize..][..place.size.height() as usize];
        let pixels = place.size.pixels() as usize;
        // Position of a source pixel: `row * width + column`, whichever axis looks up which.
        let (step_x, step_y) = if mapping.swapped { (width, 1) } else { (1, width) };
        for (channel, plane) in output.chunks_exact_mut(pixels).enumerate() {
            let blank = normalise.blank(channel);
            match self {
                Self::Image(image) => {
                    let channels = image.channels();
                    match image.values() {
                        Values::Bytes(bytes) => {
                            let table = normalise.table(channel);
                            gather(plane, columns, rows, (step_x, step_y), blank, |pixel| {
                                table[usize::from(bytes[pixel * channels + channel])]
                            });
                        }
                        Values::Floats(floats) => {
                            gather(plane, columns, rows, (step_x, step_y), blank, |pixel| {
                                normalise.value(channel, floats[pixel * channels + channel])
                            })
                        }
                    }
                }
                Self::Planes { size, values } => {
                    let plane_values = &values[channel * size.pixels() as usize..];
                    gather(plane, columns, rows, (step_x, step_y), blank, |pixel| plane_values[pixel]);
                }
            }
        }
    }
}

fn gather(
    plane: &mut [f32],
    columns: &[Option<u32>],
    rows: &[Option<u32>],
    (step_x, step_y): (usize, usize),
    blank: f32,
    value: impl Fn(usize) -> f32,
) {
    for (target, row) in plane.chunks_exact_mut(columns.len()).zip(rows) {
        let Some(row) = row else {
            target.fill(blank);
            continue;
        };
        let start = *row as usize * step_y;
        for (target, column) in target.iter_mut().zip(columns) {
            *target = column.map_or(blank, |column| value(start + column as usize * step_x));
        }
    }
}
