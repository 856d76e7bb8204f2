//! Cuts a convolution over images into tiles whose strip of the image fits into shared memory.

use super::Precision;
use super::geometry::Geometry;
use super::image_window::ImageWindow;
use super::kernels::{ImageStrip, TAPS};

/// How many bytes of shared memory a block may use, so that two blocks share a multiprocessor.
const SHARED: usize = 99 << 10;
/// The number of filters and of positions of one block of threads.
pub(crate) const FILTERS: usize = 64;
const COLUMNS: usize = 256;
/// The number of positions of one step of the weight gradient, and of floats between its rows.
pub(crate) const STEP: usize = 32;
const STEP_PITCH: usize = 36;
/// The most positions of an image that is one step of a sum of weight gradients, and the number of floats between its rows.
const WHOLE_POSITIONS: usize = 64;
const WHOLE_PITCH: usize = 68;
/// How many weights the largest kernel for weight gradients takes at once, and the sizes of all of them, each times 32 weights.
const WEIGHTS: usize = 288;
const FRAGMENTS: [usize; 3] = [1, 5, 9];
/// How many products the tensor cores may add before the sum goes on elsewhere. They cut a sum off after its 24th bit with every eight
/// products, and three times if factors are split. For a sum that grows evenly this is at most 5e-5 of it, and half of that on average.
const LONGEST: usize = 6912;

/// Cuts the steps of a sum, each of this many products, into runs that are short enough to be rounded only a little. The steps of each run
/// are divided among `parts` sums.
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

/// Whether a sum of this many steps, each of this many products, is short enough to be left to the tensor cores as a whole, in any
/// precision.
pub(crate) fn one_run(steps: usize, products: usize) -> bool {
    runs(Precision::F32, steps, products, 1).count() <= 1
}

/// A tiling of a convolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tile {
    /// The sizes that the kernels read.
    pub(crate) strip: ImageStrip,
    /// Where every tap of every channel of a block reads in the strip; only for the weight gradient.
    pub(crate) offsets: Vec<i32>,
    /// For each tap, which of the window's taps it is; empty for the weight gradient.
    pub(crate) taps: Vec<i32>,
    /// How many bytes of shared memory two stages and the list of copies take, and how many of these the list takes.
    pub(crate) shared: usize,
    pub(crate) list: usize,
    /// Whether a stage of a weight gradient holds the whole image.
    pub(crate) whole: bool,
    /// How many weights a filter has in the arranged order, for a multiple of eight channels; zero for the weight gradient.
    pub(crate) inner: usize,
    /// The number of blocks of channels, and of fragments of each warp, for the weight gradient.
    pub(crate) blocks: usize,
    pub(crate) fragments: usize,
    /// The number of steps of a whole sum, and of products of each step; zero for the weight gradient.
    pub(crate) steps: usize,
    pub(crate) step_products: usize,
    /// How many whole items a tile of positions has.
    segments: usize,
    positions: usize,
}

impl Tile {
    /// The tiling of each sample's weight gradient; `None` if no strip fits.
    pub(crate) fn weight_gradient(geometry: &Geometry) -> Option<Self> {
        let image = ImageWindow::forward(geometry)?;
        let rows = image.rows(image.spanned(STEP));
        Self::weights(&image, geometry.dilation[1], rows, false)
    }

    /// The tiling of the sum of all samples' weight gradients. Small images are taken whole, unless that leaves room for fewer channels.
    pub(crate) fn weight_sum(geometry: &Geometry) -> Option<Self> {
        let parts = Self::weight_gradient(geometry)?;
        let image = ImageWindow::forward(geometry)?;
        let small = image.positions() <= WHOLE_POSITIONS && image.groups == 1;
        let whole = small.then(|| {
            Self::weights(&image, geometry.dilation[1], image.rows(image.output[0]), true)
                .filter(|whole| whole.blocks <= parts.blocks)
        });
        Some(whole.flatten().unwrap_or(parts))
    }

    /// A tiling whose strip has this many rows, and holds a part of the positions or the whole image.
    fn weights(image: &ImageWindow, dilation: usize, rows: usize, whole: bool) -> Option<Self> {
        // The rows of a window that a warp reads together should start in banks that are far apart.
        let apart = |pitch: usize| [8, 12, 20, 24].contains(&(pitch * dilation % 32));
        let pitch =
            (0..8).map(|more| image.row() + 4 * more).find(|&pitch| apart(pitch)).unwrap_or(image.row());
        let plane = rows * pitch;
        let step_pitch = if whole { WHOLE_PITCH } else { STEP_PITCH };
        let stage = |block: usize| 4 * (FILTERS * step_pitch + block * plane);
        let (pixels, positions) = (image.input[0] * image.input[1], image.positions());
        // Numbers are copied four at a time if four divides their row.
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
            strip: image.strip((rows, pitch, plane), (block, 0, 1)),
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

    /// The tiling of the forward pass; `None` if no strip fits.
    pub(crate) fn forward(geometry: &Geometry) -> Option<Self> {
        Self::convolve(&ImageWindow::forward(geometry)?)
    }

    /// The tilings of the data gradient, which together write every position that a tap meets; `None` if a strip does not fit.
    pub(crate) fn backward(geometry: &Geometry) -> Option<Vec<Self>> {
        ImageWindow::backward(geometry)?.iter().map(Self::convolve).collect()
    }

    fn convolve(image: &ImageWindow) -> Option<Self> {
        let (positions, taps) = (image.positions(), image.taps.len());
        if taps > TAPS {
            return None;
        }
        let segments = (COLUMNS / positions).max(1);
        let rows = image.rows(if segments > 1 { image.output[0] } else { image.spanned(COLUMNS) });
        let pitch = image.row();
        // Channels that a warp reads together should start eight banks apart.
        let plane = (0..8)
            .map(|more| segments * rows * pitch + 4 * more)
            .find(|plane| [8, 24].contains(&(plane % 32)))?;
        let channels = image.channels.next_multiple_of(8);
        let copies = segments
            * rows
            * if image.input[1].is_multiple_of(4) { image.input[1] / 4 } else { image.input[1] };
        let shared = |block: usize| 2 * 4 * (FILTERS * (block * taps + 4) + block * plane) + 8 * copies;
        // There should be enough channels for eight products between two barriers.
        let wanted = (8 * 8usize.div_ceil(taps)).min(channels);
        let block = (1..=wanted / 8).rev().map(|eights| 8 * eights).find(|&block| shared(block) <= SHARED)?;
        let inner = channels * taps;
        Some(Self {
            strip: image.strip((rows, pitch, plane), (block, inner, segments)),
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

    /// The number of the smallest kernel for weight gradients that has room for its weights.
    pub(crate) fn size(&self) -> usize {
        let size = FRAGMENTS.iter().position(|&fragments| fragments == self.fragments);
        size.expect("a tiling of weights has one of the sizes there are")
    }

    /// How many tiles of positions this many items take.
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
    use crate::cuda::image_window::tests::{geometry, windows};
    use dapple_graph::Window;
    use proptest::prelude::*;

    proptest! {
        /// A stage for a whole image holds every place that is copied to or read from, and 16 bits suffice for every place.
        #[test]
        fn whole_images_fit((size, window) in windows()) {
            let Some(geometry) = geometry(size, &window) else { return Ok(()) };
            let Some(tile) = Tile::weight_sum(&geometry).filter(|tile| tile.whole) else { return Ok(()) };
            let image = ImageWindow::forward(&geometry).unwrap();
            let ImageStrip { rows, pitch, plane, left, block, .. } = tile.strip;
            let [rows, pitch, plane, left, block] =
                [rows, pitch, plane, left, block].map(|size| size as usize);
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
        // These are too large, or would leave room for fewer channels if they were taken whole.
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
            // A strip for 256 positions two pixels apart is too large, so these are left to cuDNN.
            assert_eq!(Tile::forward(&geometry).is_some(), stride == 1);
            assert_eq!(Tile::backward(&geometry).unwrap().len(), stride * stride);
        }
    }
}
