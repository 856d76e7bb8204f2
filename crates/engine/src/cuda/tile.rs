//! How a convolution over images is cut into tiles whose strip of the image fits into shared memory.

use super::Precision;
use super::geometry::Geometry;

/// Bytes of shared memory a block may use: two blocks share a multiprocessor.
const SHARED: usize = 99 << 10;
/// Filters and positions of one block of threads.
pub(crate) const FILTERS: usize = 64;
const COLUMNS: usize = 256;
/// Positions of one step of the weight gradient, and floats between its rows.
pub(crate) const STEP: usize = 32;
const STEP_PITCH: usize = 36;
/// Most positions of an image that is one step of a sum of weight gradients, and floats between its rows.
const WHOLE_POSITIONS: usize = 64;
const WHOLE_PITCH: usize = 68;
/// Weights that the largest weight-gradient kernel takes at once, and the sizes there are: 32 weights times these.
const WEIGHTS: usize = 288;
const FRAGMENTS: [usize; 3] = [1, 5, 9];
/// Taps a convolution kernel has room for.
const TAPS: usize = 64;
/// Products that the tensor cores may add up before the sum goes on elsewhere. They cut a sum off behind its 24th bit with every eight
/// products, and three times where factors are split: that is 5e-5 of a sum that grows evenly at most, half of it on the average.
const LONGEST: usize = 6912;

/// Cuts the steps of a sum, of this many products each, into runs that are short enough to be rounded little. Each run is shared by
/// `parts` sums.
pub(crate) fn runs(
    precision: Precision,
    steps: usize,
    products: usize,
    parts: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let additions = if precision == Precision::F32 { 3 } else { 1 };
    let longest = parts * (LONGEST / (additions * products)).max(1);
    let runs = steps.div_ceil(longest);
    (0..runs).map(move |run| (steps * run / runs, steps * (run + 1) / runs))
}

/// Whether a sum of so many steps, of this many products each, is short enough to be left to the tensor cores whole in any precision.
pub(crate) fn one_run(steps: usize, products: usize) -> bool {
    runs(Precision::F32, steps, products, 1).count() <= 1
}

/// One tap: where it reads from the place of a position, and which of the window's it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tap {
    at: [usize; 2],
    index: usize,
}

/// Sizes of one group of a convolution over images: every output position reads the input at its taps.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Image {
    out: usize,
    channels: usize,
    groups: usize,
    input: [usize; 2],
    output: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    taps: Vec<Tap>,
    /// The output is every `step`-th row and column, from `phase` on, of an image of this size.
    step: [usize; 2],
    phase: [usize; 2],
    full: [usize; 2],
}

/// A tiling of a convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    /// The sizes that the kernels read.
    pub(crate) table: Vec<i32>,
    /// Where every tap of every channel of a block reads in the strip; for the weight gradient only.
    pub(crate) offsets: Vec<i32>,
    /// Which of the window's taps each is.
    pub(crate) taps: Vec<i32>,
    /// Bytes of shared memory for two stages, and of the list of copies in it.
    pub(crate) shared: usize,
    pub(crate) list: usize,
    /// Whether a stage of a weight gradient holds the whole image.
    pub(crate) whole: bool,
    /// Weights per filter in the arranged order, a multiple of eight channels; zero for the weight gradient.
    pub(crate) inner: usize,
    /// Blocks of channels and fragments per warp of the weight gradient.
    pub(crate) blocks: usize,
    pub(crate) fragments: usize,
    /// Steps of a whole sum, and products of one; zero for the weight gradient.
    pub(crate) steps: usize,
    pub(crate) step_products: usize,
    /// Whole items in a tile of positions.
    segments: usize,
    positions: usize,
}

impl Image {
    fn forward(geometry: &Geometry) -> Option<Self> {
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

    /// The data gradient as convolutions of the output's gradient, one for every remainder of the input's coordinates by the stride:
    /// input `i = s q + f` meets output `q + (f + padding - k dilation) / s` at those taps `k` where that is whole.
    fn backward(geometry: &Geometry) -> Option<Vec<Self>> {
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

    fn positions(&self) -> usize {
        self.output[0] * self.output[1]
    }

    /// The furthest that a tap reads along an axis.
    fn reach(&self, axis: usize) -> usize {
        self.taps.iter().map(|tap| tap.at[axis]).max().unwrap_or(0)
    }

    /// Column of the first pixel: room for the padding, and aligned.
    fn left(&self) -> usize {
        self.padding[1].next_multiple_of(4)
    }

    /// Floats that a row of the strip needs.
    fn row(&self) -> usize {
        let last = self.left() - self.padding[1] + (self.output[1] - 1) * self.stride[1] + self.reach(1);
        (last + 1).max(self.left() + self.input[1]).next_multiple_of(4)
    }

    /// Rows of the strip under this many output rows.
    fn rows(&self, output_rows: usize) -> usize {
        (output_rows - 1) * self.stride[0] + self.reach(0) + 1
    }

    /// Most output rows that a run of `columns` positions meets, where runs start at its multiples.
    fn spanned(&self, columns: usize) -> usize {
        let width = self.output[1];
        let most = match (columns.is_multiple_of(width), width.is_multiple_of(columns)) {
            (true, _) => columns / width,
            (_, true) => 1,
            _ => (columns + width - 2) / width + 1,
        };
        most.min(self.output[0])
    }

    /// Where each tap reads in the strip, from the place of a position.
    fn tap_offsets(&self, pitch: usize) -> impl Iterator<Item = usize> + '_ {
        let start = self.left() - self.padding[1];
        self.taps.iter().map(move |tap| tap.at[0] * pitch + tap.at[1] + start)
    }

    fn table(
        &self,
        rows: usize,
        pitch: usize,
        plane: usize,
        block: usize,
        inner: usize,
        segments: usize,
    ) -> Vec<i32> {
        [
            self.out,
            self.channels,
            self.groups,
            self.taps.len(),
            self.input[0],
            self.input[1],
            self.output[1],
            self.positions(),
            self.stride[0],
            self.stride[1],
            self.padding[0],
            rows,
            pitch,
            plane,
            self.left(),
            block,
            inner,
            segments,
            self.step[0],
            self.step[1],
            self.phase[0] * self.full[1] + self.phase[1],
            self.full[1],
            self.full[0] * self.full[1],
        ]
        .into_iter()
        .chain(self.tap_offsets(pitch).chain(std::iter::repeat(0)).take(TAPS))
        .map(|value| value as i32)
        .collect()
    }

    fn tap_indices(&self) -> Vec<i32> {
        self.taps.iter().map(|tap| tap.index as i32).collect()
    }
}

impl Tile {
    /// The tiling of each sample's weight gradient; `None` where no strip fits.
    pub(crate) fn weight_gradient(geometry: &Geometry) -> Option<Self> {
        let image = Image::forward(geometry)?;
        let rows = image.rows(image.spanned(STEP));
        Self::weights(&image, geometry.dilation[1], rows, false)
    }

    /// The tiling of the sum of all samples' weight gradients: of whole images where they are small, unless that leaves room for fewer
    /// channels.
    pub(crate) fn weight_sum(geometry: &Geometry) -> Option<Self> {
        let parts = Self::weight_gradient(geometry)?;
        let image = Image::forward(geometry)?;
        let small = image.positions() <= WHOLE_POSITIONS && image.groups == 1;
        let whole = small.then(|| {
            Self::weights(&image, geometry.dilation[1], image.rows(image.output[0]), true)
                .filter(|whole| whole.blocks <= parts.blocks)
        });
        Some(whole.flatten().unwrap_or(parts))
    }

    /// A tiling whose strip has so many rows, of a part of the positions or of the whole image.
    fn weights(image: &Image, dilation: usize, rows: usize, whole: bool) -> Option<Self> {
        // The rows of a window that a warp reads together should start in banks that are far apart.
        let apart = |pitch: usize| [8, 12, 20, 24].contains(&(pitch * dilation % 32));
        let pitch =
            (0..8).map(|more| image.row() + 4 * more).find(|&pitch| apart(pitch)).unwrap_or(image.row());
        let plane = rows * pitch;
        let step_pitch = if whole { WHOLE_PITCH } else { STEP_PITCH };
        let stage = |block: usize| 4 * (FILTERS * step_pitch + block * plane);
        let (pixels, positions) = (image.input[0] * image.input[1], image.positions());
        // Numbers lie in fours where four divides their row.
        let fours = |len: usize, row: usize| if row.is_multiple_of(4) { len / 4 } else { len };
        let list = |block: usize| {
            let copies = fours(block * pixels, image.input[1]) + fours(FILTERS * positions, positions);
            if whole { 4 * copies.next_multiple_of(4) } else { 0 }
        };
        let shared = |block: usize| 2 * stage(block) + list(block);
        let taps = image.taps.len();
        // A list has 16 bits for each place.
        let listed = |block: usize| !whole || block * pixels < 1 << 16;
        let fits = |&block: &usize| shared(block) <= SHARED && listed(block);
        let most = (1..=(WEIGHTS / taps).min(image.channels)).rev().find(fits)?;
        let blocks = image.channels.div_ceil(most);
        let block = image.channels.div_ceil(blocks);
        let fragments = FRAGMENTS.into_iter().find(|fragments| 32 * fragments >= block * taps)?;
        let places: Vec<usize> = image.tap_offsets(pitch).collect();
        let offsets =
            (0..block).flat_map(|channel| places.iter().map(move |tap| (channel * plane + tap) as i32));
        Some(Self {
            table: image.table(rows, pitch, plane, block, 0, 1),
            offsets: offsets.collect(),
            taps: Vec::new(),
            shared: shared(block),
            list: list(block),
            whole,
            inner: 0,
            blocks,
            fragments,
            steps: 0,
            step_products: 0,
            segments: 1,
            positions,
        })
    }

    /// The tiling of the forward pass; `None` where no strip fits.
    pub(crate) fn forward(geometry: &Geometry) -> Option<Self> {
        Self::convolve(&Image::forward(geometry)?)
    }

    /// The tilings of the data gradient, which together write every position that a tap meets; `None` where a strip does not fit.
    pub(crate) fn backward(geometry: &Geometry) -> Option<Vec<Self>> {
        Image::backward(geometry)?.iter().map(Self::convolve).collect()
    }

    fn convolve(image: &Image) -> Option<Self> {
        let (positions, taps) = (image.positions(), image.taps.len());
        if taps > TAPS {
            return None;
        }
        let segments = (COLUMNS / positions).max(1);
        let rows = image.rows(if segments > 1 { image.output[0] } else { image.spanned(COLUMNS) });
        let pitch = image.row();
        // Channels a warp reads together should start eight banks apart.
        let plane = (0..8)
            .map(|more| segments * rows * pitch + 4 * more)
            .find(|plane| [8, 24].contains(&(plane % 32)))?;
        let channels = image.channels.next_multiple_of(8);
        let copies = segments
            * rows
            * if image.input[1].is_multiple_of(4) { image.input[1] / 4 } else { image.input[1] };
        let shared = |block: usize| 2 * 4 * (FILTERS * (block * taps + 4) + block * plane) + 8 * copies;
        // Enough channels for eight products between two barriers.
        let wanted = (8 * 8usize.div_ceil(taps)).min(channels);
        let block = (1..=wanted / 8).rev().map(|eights| 8 * eights).find(|&block| shared(block) <= SHARED)?;
        let inner = channels * taps;
        Some(Self {
            table: image.table(rows, pitch, plane, block, inner, segments),
            offsets: Vec::new(),
            taps: image.tap_indices(),
            shared: shared(block),
            list: 0,
            whole: false,
            inner,
            blocks: 1,
            fragments: 0,
            steps: image.channels.div_ceil(block),
            step_products: block * taps,
            segments,
            positions,
        })
    }

    /// Tiles of positions over this many items.
    pub(crate) fn tiles(&self, items: usize) -> usize {
        match self.segments {
            1 => items * self.positions.div_ceil(COLUMNS),
            segments => items.div_ceil(segments),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_graph::Window;
    use proptest::prelude::*;

    fn geometry(size: [usize; 2], window: &Window) -> Option<Geometry> {
        let output = window.output(&size)?;
        Some(Geometry::new(window, 1, &[4, size[0], size[1]], &[4, output[0], output[1]]))
    }

    fn windows() -> impl Strategy<Value = ([usize; 2], Window)> {
        let sizes = (prop::array::uniform2(1usize..20), prop::array::uniform2(1usize..5));
        (sizes, prop::array::uniform2(1usize..4), 0usize..3, 1usize..3).prop_map(
            |((size, kernel), stride, padding, dilation)| {
                let (kernel, stride) = (kernel.to_vec(), stride.to_vec());
                (size, Window { kernel, stride, padding: vec![padding; 2], dilation: vec![dilation; 2] })
            },
        )
    }

    /// What an image's taps read: `(position of the full output, input position, tap)`.
    fn pairs(image: &Image) -> Vec<(usize, usize, usize)> {
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
            let forward = Image::forward(&geometry).unwrap();
            prop_assert_eq!(&pairs(&forward), &want);
            let mut turned: Vec<(usize, usize, usize)> = Image::backward(&geometry)
                .unwrap()
                .iter()
                .flat_map(pairs)
                .map(|(input, output, tap)| (output, input, tap))
                .collect();
            turned.sort_unstable();
            prop_assert_eq!(turned, want);
        }

        /// Every tap of every position of a step reads inside of its own row of the strip, and rows stay inside of the strip.
        #[test]
        fn taps_stay_in_their_rows((size, window) in windows()) {
            let Some(geometry) = geometry(size, &window) else { return Ok(()) };
            let mut images = Image::backward(&geometry).unwrap();
            images.extend(Image::forward(&geometry));
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

    proptest! {
        /// A stage of a whole image holds every place that is copied to or read from, and 16 bits hold every place.
        #[test]
        fn whole_images_fit((size, window) in windows()) {
            let Some(geometry) = geometry(size, &window) else { return Ok(()) };
            let Some(tile) = Tile::weight_sum(&geometry).filter(|tile| tile.whole) else { return Ok(()) };
            let image = Image::forward(&geometry).unwrap();
            let [rows, pitch, plane, left, block] = [11, 12, 13, 14, 15].map(|at| tile.table[at] as usize);
            let stage = (tile.shared - tile.list) / 2 / 4;
            prop_assert!(stage == FILTERS * WHOLE_PITCH + block * plane && stage < 1 << 16);
            prop_assert!(block * image.input[0] * image.input[1] < 1 << 16);
            prop_assert!(image.positions() <= WHOLE_POSITIONS && left + image.input[1] <= pitch);
            for p in 0..image.positions() {
                let (y, x) = (p / image.output[1] * image.stride[0], p % image.output[1] * image.stride[1]);
                for tap in image.tap_offsets(pitch) {
                    prop_assert!(y * pitch + x + tap < plane && plane == rows * pitch);
                }
            }
        }
    }

    #[test]
    fn small_images_are_summed_whole() {
        let tile = |channels: usize, size: usize, kernel: usize| {
            let window = Window::square(kernel).padding(kernel / 2);
            let shape = [channels, size, size];
            Tile::weight_sum(&Geometry::new(&window, 1, &shape, &shape)).unwrap()
        };
        assert!(tile(256, 8, 3).whole && tile(512, 4, 3).whole && tile(512, 7, 3).whole);
        // Whole images would leave room for fewer channels, or are too large.
        assert!(!tile(512, 7, 1).whole && !tile(256, 9, 3).whole);
    }

    #[test]
    fn long_sums_are_cut() {
        let list = |precision, steps, products| runs(precision, steps, products, 1).collect::<Vec<_>>();
        assert_eq!(list(Precision::F32, 32, 72), [(0, 32)]);
        assert_eq!(list(Precision::F32, 64, 72), [(0, 32), (32, 64)]);
        assert_eq!(list(Precision::Tf32, 64, 72), [(0, 64)]);
        assert_eq!(list(Precision::F32, 3, 5000), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(list(Precision::F32, 0, 72), []);
        assert_eq!(runs(Precision::F32, 200, 32, 2).collect::<Vec<_>>(), [(0, 100), (100, 200)]);
    }

    #[test]
    fn usual_layers_have_tiles() {
        for (channels, size, stride) in [(64, 32, 1), (128, 16, 1), (256, 8, 1), (64, 32, 2), (512, 7, 1)] {
            let window = Window::square(3).padding(1).stride(stride);
            let output = window.output(&[size, size]).unwrap();
            let geometry =
                Geometry::new(&window, 1, &[channels, size, size], &[channels, output[0], output[1]]);
            assert_eq!(Tile::weight_gradient(&geometry).unwrap().fragments, 9);
            // A strip for 256 positions two pixels apart is too large: cuDNN takes those.
            assert_eq!(Tile::forward(&geometry).is_some(), stride == 1);
            assert_eq!(Tile::backward(&geometry).unwrap().len(), stride * stride);
        }
    }
}
