//! Reading normalised pixels through a mapping.

use dapple_geometry::Size;

use super::buffer::Buffer;
use super::crop::CropPlace;
use super::mapping::Mapping;
use super::normalise::Normalise;
use crate::{Image, Values};

/// Pixels to read from.
pub(super) enum ViewSource<'a> {
    /// An image as it was decoded.
    Image(&'a Image),
    /// Normalised planes `[channels, height, width]` or `[channels, frames, height, width]`, made by an operation.
    Planes { size: Size, values: Buffer },
}

impl ViewSource<'_> {
    pub(super) fn size(&self) -> Size {
        match self {
            Self::Image(image) => image.size(),
            Self::Planes { size, .. } => *size,
        }
    }

    /// Writes the pixels of a place, seen through the mapping, as normalised planes, `[channels, height, width]` or
    /// `[channels, frames, height, width]`.
    pub(super) fn read(
        &self,
        mapping: &Mapping,
        place: CropPlace,
        normalise: &Normalise,
        output: &mut [f32],
    ) {
        let window = SourceWindow::new(self.size(), mapping, place);
        for (number, plane) in output.chunks_exact_mut(place.size.pixels() as usize).enumerate() {
            let blank = normalise.blank(number);
            match self {
                Self::Image(image) => {
                    let layout = PlaneLayout { stride: image.values_per_pixel(), offset: number };
                    match image.values() {
                        Values::Bytes(bytes) => {
                            let table = normalise.table(number);
                            window.read(bytes, layout, blank, |byte| table[usize::from(byte)], plane);
                        }
                        Values::Floats(floats) => {
                            let convert = |value| normalise.value(number, value);
                            window.read(floats, layout, blank, convert, plane);
                        }
                    }
                }
                Self::Planes { size, values } => {
                    let layout = PlaneLayout { stride: 1, offset: number * size.pixels() as usize };
                    window.read(values, layout, blank, |value| value, plane);
                }
            }
        }
    }
}

/// Where the values of one plane lie: pixel `p` at `offset + p * stride`.
#[derive(Clone, Copy)]
struct PlaneLayout {
    stride: usize,
    offset: usize,
}

/// The rows and columns that a place shows.
struct SourceWindow<'a> {
    columns: &'a [Option<u32>],
    rows: &'a [Option<u32>],
    /// The first column, if the columns follow each other without a gap.
    run: Option<usize>,
    /// Pixels from one looked-up column to the next, and from one looked-up row to the next.
    step_x: usize,
    step_y: usize,
}

impl<'a> SourceWindow<'a> {
    fn new(source: Size, mapping: &'a Mapping, place: CropPlace) -> Self {
        let width = source.width() as usize;
        let columns = &mapping.x[place.x as usize..][..place.size.width() as usize];
        let rows = &mapping.y[place.y as usize..][..place.size.height() as usize];
        let follows = |pair: &[Option<u32>]| pair[1].is_some_and(|next| pair[0] == next.checked_sub(1));
        let run = columns.windows(2).all(follows).then(|| columns.first().copied().flatten()).flatten();
        let (step_x, step_y) = if mapping.swapped { (width, 1) } else { (1, width) };
        Self { columns, rows, run: run.map(|column| column as usize), step_x, step_y }
    }

    fn read<T: Copy>(
        &self,
        values: &[T],
        PlaneLayout { stride, offset }: PlaneLayout,
        blank: f32,
        convert: impl Fn(T) -> f32,
        plane: &mut [f32],
    ) {
        for (target, row) in plane.chunks_exact_mut(self.columns.len()).zip(self.rows) {
            let Some(row) = row else {
                target.fill(blank);
                continue;
            };
            let row = *row as usize * self.step_y;
            let at = |column: usize| (row + column * self.step_x) * stride + offset;
            match (self.run, self.step_x * stride) {
                (Some(first), 1) => {
                    let values = &values[at(first)..][..target.len()];
                    target.iter_mut().zip(values).for_each(|(target, &value)| *target = convert(value));
                }
                (Some(first), step) => {
                    let values = values[at(first)..].iter().step_by(step);
                    target.iter_mut().zip(values).for_each(|(target, &value)| *target = convert(value));
                }
                (None, _) => {
                    for (target, column) in target.iter_mut().zip(self.columns) {
                        *target = column.map_or(blank, |column| convert(values[at(column as usize)]));
                    }
                }
            }
        }
    }
}
