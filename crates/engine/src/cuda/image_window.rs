//! A convolution over images: what every position reads, forward and backward, and the strip of the image that a block of threads holds.

use super::geometry::Geometry;
use super::kernels::{ImageStrip, TAPS};

/// One tap: where it reads relative to the place of a position, and which of the window's taps it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tap {
    at: [usize; 2],
    index: usize,
}

/// The sizes of one group of a convolution over images, in which every output position reads the input at its taps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageWindow {
    pub(super) out: usize,
    pub(super) channels: usize,
    pub(super) groups: usize,
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) stride: [usize; 2],
    pub(super) padding: [usize; 2],
    pub(super) taps: Vec<Tap>,
    /// The output is every `step`-th row and column, from `phase` on, of an image of the size `full`.
    pub(super) step: [usize; 2],
    pub(super) phase: [usize; 2],
    pub(super) full: [usize; 2],
}

impl ImageWindow {
    pub(super) fn forward(geometry: &Geometry) -> Option<Self> {
        if geometry.rank != 2 {
            return None;
        }
        let two = |values: [usize; 3]| [values[1], values[2]];
        let (kernel, dilation, output) = (two(geometry.kernel), two(geometry.dilation), two(geometry.output));
        let taps = (0..geometry.taps()).map(|index| {
            let at = [index / kernel[1] * dilation[0], index % kernel[1] * dilation[1]];
            Tap { at, index }
        });
        Some(Self {
            out: geometry.out / geometry.groups,
            channels: geometry.channels / geometry.groups,
            groups: geometry.groups,
            input: two(geometry.input),
            output,
            stride: two(geometry.stride),
            padding: two(geometry.padding),
            taps: taps.collect(),
            step: [1; 2],
            phase: [0; 2],
            full: output,
        })
    }

    /// The data gradient as convolutions of the output's gradient, one for every remainder of the input's coordinates by the stride. Input
    /// `i = s q + f` meets output `q + (f + padding - k dilation) / s` at those taps `k` for which that is a whole number.
    pub(super) fn backward(geometry: &Geometry) -> Option<Vec<Self>> {
        let forward = Self::forward(geometry)?;
        let (stride, padding) = (forward.stride, forward.padding);
        let phases = (0..stride[0]).flat_map(|y| (0..stride[1]).map(move |x| [y, x]));
        let image = |phase: [usize; 2]| {
            let shift = |axis: usize, tap: &Tap| {
                let from = (phase[axis] + padding[axis]) as i64 - tap.at[axis] as i64;
                (from.rem_euclid(stride[axis] as i64) == 0).then(|| from.div_euclid(stride[axis] as i64))
            };
            let shifts: Vec<([i64; 2], usize)> = forward
                .taps
                .iter()
                .filter_map(|tap| Some(([shift(0, tap)?, shift(1, tap)?], tap.index)))
                .collect();
            let lowest = |axis: usize| shifts.iter().map(|(shift, _)| shift[axis]).min().unwrap_or(0).min(0);
            let lowest = [lowest(0), lowest(1)];
            let place = |shift: [i64; 2]| [(shift[0] - lowest[0]) as usize, (shift[1] - lowest[1]) as usize];
            let left = |axis: usize| forward.input[axis].saturating_sub(phase[axis]).div_ceil(stride[axis]);
            Self {
                out: forward.channels,
                channels: forward.out,
                groups: forward.groups,
                input: forward.output,
                output: [left(0), left(1)],
                stride: [1; 2],
                padding: [(-lowest[0]) as usize, (-lowest[1]) as usize],
                taps: shifts.into_iter().map(|(shift, index)| Tap { at: place(shift), index }).collect(),
                step: stride,
                phase,
                full: forward.input,
            }
        };
        Some(phases.map(image).filter(|image| !image.taps.is_empty() && image.positions() > 0).collect())
    }

    pub(super) fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// How far a tap reads at most along an axis.
    fn reach(&self, axis: usize) -> usize {
        self.taps.iter().map(|tap| tap.at[axis]).max().unwrap_or(0)
    }

    /// The column of the first pixel, which leaves room for the padding and is aligned.
    pub(super) fn left(&self) -> usize {
        self.padding[1].next_multiple_of(4)
    }

    /// How many floats a row of the strip needs.
    pub(super) fn row(&self) -> usize {
        let last = self.left() - self.padding[1] + (self.output[1] - 1) * self.stride[1] + self.reach(1);
        (last + 1).max(self.left() + self.input[1]).next_multiple_of(4)
    }

    /// How many rows the strip has for this many output rows.
    pub(super) fn rows(&self, output_rows: usize) -> usize {
        (output_rows - 1) * self.stride[0] + self.reach(0) + 1
    }

    /// The most output rows that a run of `columns` positions meets, if runs start at multiples of `columns`.
    pub(super) fn spanned(&self, columns: usize) -> usize {
        let width = self.output[1];
        let most = match (columns.is_multiple_of(width), width.is_multiple_of(columns)) {
            (true, _) => columns / width,
            (_, true) => 1,
            _ => (columns + width - 2) / width + 1,
        };
        most.min(self.output[0])
    }

    /// Where each tap reads in the strip, relative to the place of a position.
    pub(super) fn tap_offsets(&self, pitch: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self.left() - self.padding[1];
        self.taps.iter().map(move |tap| tap.at[0] * pitch + tap.at[1] + start)
    }

    /// The sizes of the convolution and of its strip that the kernels read. A step takes `block` channels, a filter has `inner` arranged
    /// weights, and a tile has `segments` items.
    pub(super) fn strip(
        &self,
        (rows, pitch, plane): (usize, usize, usize),
        (block, inner, segments): (usize, usize, usize),
    ) -> ImageStrip {
        let number = |value: usize| {
            i32::try_from(value).expect("a layer with more values than 32 bits count was refused")
        };
        let two = |values: [usize; 2]| values.map(number);
        let mut tap_offsets = [0; TAPS];
        tap_offsets.iter_mut().zip(self.tap_offsets(pitch)).for_each(|(to, from)| *to = number(from));
        ImageStrip {
            out: number(self.out),
            channels: number(self.channels),
            groups: number(self.groups),
            taps: number(self.taps.len()),
            height: number(self.input[0]),
            width: number(self.input[1]),
            out_width: number(self.output[1]),
            positions: number(self.positions()),
            stride: two(self.stride),
            padding_y: number(self.padding[0]),
            rows: number(rows),
            pitch: number(pitch),
            plane: number(plane),
            left: number(self.left()),
            block: number(block),
            inner: number(inner),
            segments: number(segments),
            step: two(self.step),
            phase: number(self.phase[0] * self.full[1] + self.phase[1]),
            full_width: number(self.full[1]),
            full_positions: number(self.full[0] * self.full[1]),
            tap_offsets,
        }
    }

    /// For each tap, which of the window's taps it is.
    pub(super) fn tap_indices(&self) -> Vec<i32> {
        self.taps.iter().map(|tap| tap.index as i32).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cuda::tile::STEP;
    use dapple_graph::Window;
    use proptest::prelude::*;

    pub(in crate::cuda) fn geometry(size: [usize; 2], window: &Window) -> Option<Geometry> {
        let output = window.output(&size)?;
        Some(Geometry::new(window, 1, &[4, size[0], size[1]], &[4, output[0], output[1]]))
    }

    pub(in crate::cuda) fn windows() -> impl Strategy<Value = ([usize; 2], Window)> {
        let sizes = (prop::array::uniform2(1usize..20), prop::array::uniform2(1usize..5));
        (sizes, prop::array::uniform2(1usize..4), 0usize..3, 1usize..3).prop_map(
            |((size, kernel), stride, padding, dilation)| {
                let (kernel, stride) = (kernel.to_vec(), stride.to_vec());
                (size, Window { kernel, stride, padding: vec![padding; 2], dilation: vec![dilation; 2] })
            },
        )
    }

    /// What an image's taps read, as a list of `(position of the full output, input position, tap)`.
    fn pairs(image: &ImageWindow) -> Vec<(usize, usize, usize)> {
        let mut list = Vec::new();
        for p in 0..image.positions() {
            let (y, x) = (p / image.output[1], p % image.output[1]);
            let at =
                (y * image.step[0] + image.phase[0]) * image.full[1] + x * image.step[1] + image.phase[1];
            for tap in &image.taps {
                let from = |position: usize, axis: usize| {
                    (position * image.stride[axis] + tap.at[axis])
                        .checked_sub(image.padding[axis])
                        .filter(|&from| from < image.input[axis])
                };
                if let (Some(row), Some(column)) = (from(y, 0), from(x, 1)) {
                    list.push((at, row * image.input[1] + column, tap.index));
                }
            }
        }
        list.sort_unstable();
        list
    }

    proptest! {
        /// The forward pass reads what the geometry lists, and the data gradient the same pairs the other way round.
        #[test]
        fn images_read_what_the_window_meets((size, window) in windows()) {
            let Some(geometry) = geometry(size, &window) else { return Ok(()) };
            let sources = geometry.sources();
            let want: Vec<(usize, usize, usize)> = sources
                .iter()
                .enumerate()
                .filter(|(_, source)| **source >= 0)
                .map(|(index, &source)| (index / geometry.taps(), source as usize, index % geometry.taps()))
                .collect();
            let forward = ImageWindow::forward(&geometry).unwrap();
            prop_assert_eq!(&pairs(&forward), &want);
            let mut turned: Vec<(usize, usize, usize)> = ImageWindow::backward(&geometry)
                .unwrap()
                .iter()
                .flat_map(pairs)
                .map(|(input, output, tap)| (output, input, tap))
                .collect();
            turned.sort_unstable();
            prop_assert_eq!(turned, want);
        }

        /// Every tap of every position of a step reads inside its own row of the strip, and rows stay inside the strip.
        #[test]
        fn taps_stay_in_their_rows((size, window) in windows()) {
            let Some(geometry) = geometry(size, &window) else { return Ok(()) };
            let mut images = ImageWindow::backward(&geometry).unwrap();
            images.extend(ImageWindow::forward(&geometry));
            for image in images {
                let (rows, pitch) = (image.rows(image.spanned(STEP)), image.row());
                for start in (0..image.positions()).step_by(STEP) {
                    for p in start..(start + STEP).min(image.positions()) {
                        let (y, x) = (p / image.output[1] - start / image.output[1], p % image.output[1]);
                        for tap in image.tap_offsets(pitch) {
                            let at = y * image.stride[0] * pitch + x * image.stride[1] + tap;
                            prop_assert!(at < rows * pitch);
                            prop_assert_eq!(at % pitch, tap % pitch + x * image.stride[1]);
                        }
                    }
                }
            }
        }
    }
}
