//! Convolutions with 3x3 windows of stride one by minimal filtering, F(2x2, 3x3) (Winograd 1980; Lavin and Gray 2015).
//!
//! A tile of 2x2 outputs reads 4x4 inputs `d` and equals `A^T [(G w G^T) * (B^T d B)] A`, where `*` is elementwise and
//!
//! ```text
//! B^T = [1  0 -1  0]    G = [ 1    0    0 ]    A^T = [1  1  1  0]
//!       [0  1  1  0]        [1/2  1/2  1/2]          [0  1 -1 -1]
//!       [0 -1  1  0]        [1/2 -1/2  1/2]
//!       [0  1  0 -1]        [ 0    0    1 ]
//! ```
//!
//! Summed over channels, this takes sixteen matrix products of tiles by channels instead of thirty-six. The data gradient is the same
//! filtering with the window turned around; the weight gradient is `G^T [sum over tiles of (B^T d B) * (A g A^T)] G`. All coefficients are
//! 0, 1 or 1/2 in size, so rounding errors grow by a small factor only.

mod transform;
mod weights;

use std::ops::Range;

use rayon::prelude::*;

use super::super::kernel::{
    Lanes, OuterProduct, OuterShape, OuterTarget, Right, RowClass, RowPair, RowProduct, RowShape, RowSource,
    StartValue,
};
use transform::{Collect, Lift, Spread, add_filters};
use weights::expand;
pub(super) use weights::{WeightStrides, arrange};

/// The number of elementwise products of a tile, which we call its points. All tiles of a block have one plane for each point.
const POINTS: usize = 16;
/// How many numbers each plane is longer than it needs to be, so that the sixteen planes do not share cache sets.
const SKEW: usize = 16;
/// How many numbers the planes of a block of tiles may have, so that they stay in the second-level cache.
const PLANES: usize = 192 * 1024;
/// How many tiles a block has at least, to make good use of every weight that is read.
const FEWEST_TILES: usize = 48;
/// Larger weights are kept as nine taps and turned into sixteen points anew for every block of tiles, because reading so many numbers from
/// memory would take longer.
const HEAVY: usize = 128 * 1024;

/// Where the tiles of one pass lie. Tile `(i, j)` makes the target positions from `(2i, 2j)` on, from the source positions from
/// `(2i - padding, ..)` on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tiles {
    /// The rows and columns that are read.
    source: (usize, usize),
    /// The rows and columns that are made.
    target: (usize, usize),
    padding: (usize, usize),
}

impl Tiles {
    /// The number of rows of tiles in one item.
    fn rows(&self) -> usize {
        self.target.0.div_ceil(2)
    }

    fn columns(&self) -> usize {
        self.target.1.div_ceil(2)
    }

    /// The tiles of the data gradient.
    fn turned(&self) -> Self {
        let padding = (2 - self.padding.0, 2 - self.padding.1);
        Self { source: self.target, target: self.source, padding }
    }
}

/// A convolution that is done by minimal filtering.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Winograd {
    tiles: Tiles,
    channels: usize,
    out: usize,
    /// Whether the filters are kept as taps rather than points.
    pub(super) taps: bool,
    /// The number of rows of tiles that are worked on together, forward and backward.
    block: usize,
    back_block: usize,
    /// As many tiles as the largest block has, each paired with itself.
    identity: Vec<RowPair>,
    classes: Vec<RowClass>,
}

impl Winograd {
    /// The plan of a convolution with 3x3 windows, if filtering needs clearly fewer products than the direct way, which multiplies `pairs`
    /// pairs of positions and skips the padding.
    pub(super) fn plan(
        source: &[usize],
        target: &[usize],
        padding: &[usize],
        (channels, out): (usize, usize),
        pairs: usize,
    ) -> Option<Self> {
        let tiles = Tiles {
            source: (source[0], source[1]),
            target: (target[0], target[1]),
            padding: (padding[0], padding[1]),
        };
        // Channels must fill whole vectors on any machine.
        let wide = |width: usize| width >= 32 && width.is_multiple_of(16);
        let products = POINTS * tiles.rows() * tiles.columns();
        if !wide(channels) || !wide(out) || padding.iter().any(|&p| p > 2) || 5 * products >= 4 * pairs {
            return None;
        }
        let taps = channels * out > HEAVY;
        let fewest = if taps { 2 * FEWEST_TILES } else { FEWEST_TILES };
        let most = (PLANES / POINTS / (channels + out)).max(fewest);
        let back = tiles.turned();
        let [block, back_block] = [tiles, back].map(|tiles| (most / tiles.columns()).max(1));
        let longest = (block * tiles.columns()).max(back_block * back.columns());
        let identity: Vec<RowPair> =
            (0..longest as u32).map(|row| RowPair { source: row, target: row }).collect();
        let classes = RowClass::sort(std::slice::from_ref(&identity), longest);
        Some(Self { tiles, channels, out, taps, block, back_block, identity, classes })
    }

    /// How many numbers of scratch a pass needs at most, with this many threads inside an item.
    pub(super) fn scratch(&self, lanes: Lanes, parallel: usize) -> usize {
        let [forward, back] =
            [false, true].map(|back| self.side(back)).map(|(tiles, block)| self.block_scratch(tiles, block));
        let weight = forward + POINTS * self.channels * self.out;
        (parallel * (self.expanded(lanes) + forward.max(back))).max(weight)
    }

    /// The scratch of one block: the planes of both sides, and the lines that the transforms pass through.
    fn block_scratch(&self, tiles: Tiles, block: usize) -> usize {
        let widest = self.channels.max(self.out);
        let lines = 4 * (2 * tiles.columns() + 2) + tiles.source.1.max(tiles.target.1);
        let [source, target] = [self.channels, self.out].map(|width| plane(tiles, block, width));
        POINTS * (source + target) + lines * widest
    }

    /// How many numbers four points of a panel have, if points are made from taps.
    fn expanded(&self, lanes: Lanes) -> usize {
        if self.taps { 4 * self.channels.max(self.out) * lanes.panel } else { 0 }
    }

    /// Computes the convolution of some items, or its data gradient.
    pub(super) fn filter(
        &self,
        pass: &FilterPass<'_>,
        target: &mut [f32],
        scratch: &mut [f32],
        parallel: usize,
    ) {
        let (tiles, block) = self.side(pass.back);
        let rows = tiles.rows();
        if parallel <= 1 {
            return self.rows(pass, 0..pass.items * rows, target, scratch);
        }
        let width = if pass.back { self.channels } else { self.out };
        let size = self.expanded(pass.lanes) + self.block_scratch(tiles, block);
        let chunk = rows.div_ceil(parallel);
        for item in 0..pass.items {
            let target = &mut target[item * pass.target_item..][..tiles.target.0 * tiles.target.1 * width];
            let parts = target.par_chunks_mut(chunk * 2 * tiles.target.1 * width);
            parts.zip(scratch.par_chunks_mut(size)).enumerate().for_each(|(index, (target, scratch))| {
                let first = index * chunk;
                self.rows(
                    pass,
                    item * rows + first..item * rows + (first + chunk).min(rows),
                    target,
                    scratch,
                );
            });
        }
    }

    fn side(&self, back: bool) -> (Tiles, usize) {
        if back { (self.tiles.turned(), self.back_block) } else { (self.tiles, self.block) }
    }

    /// Computes some rows of tiles, which are counted through all items. The target starts with the first of them.
    fn rows(&self, pass: &FilterPass<'_>, rows: Range<usize>, target: &mut [f32], scratch: &mut [f32]) {
        let (tiles, block) = self.side(pass.back);
        let (channels, out) = if pass.back { (self.out, self.channels) } else { (self.channels, self.out) };
        let (source_plane, target_plane) = (plane(tiles, block, channels), plane(tiles, block, out));
        let (expanded, rest) = scratch.split_at_mut(self.expanded(pass.lanes));
        let (source_planes, rest) = rest.split_at_mut(POINTS * source_plane);
        let (target_planes, lines) = rest.split_at_mut(POINTS * target_plane);
        for start in rows.clone().step_by(block) {
            let part = start..rows.end.min(start + block);
            let count = part.len() * tiles.columns();
            let (source, item) = (pass.source, pass.source_item);
            Spread {
                tiles,
                channels,
                source,
                item,
                rows: part.clone(),
                planes: source_planes,
                plane: source_plane,
                lines,
            }
            .run();
            let mut product = |point: usize, right: &[f32], columns: Range<usize>| {
                let shape = RowShape { item: 0, row: channels, column: 0 };
                RowProduct {
                    source: RowSource { data: &source_planes[point * source_plane..], shape },
                    inner: channels,
                    right: Right::Packed(right),
                    taps: 1,
                    columns: columns.len(),
                    start: StartValue::Zero,
                    classes: &self.classes,
                    target: &mut target_planes[point * target_plane..][..target_plane],
                    target_shape: RowShape { item: 0, row: out, column: columns.start },
                    rows: 0..count as u32,
                    items: 1,
                }
                .run();
            };
            let mut panels = pass.weights;
            for column in (0..out).step_by(pass.lanes.panel) {
                let columns = column..out.min(column + pass.lanes.panel);
                let size = channels * columns.len();
                let (panel, after) = panels.split_at(size * if self.taps { 9 } else { POINTS });
                panels = after;
                if self.taps {
                    let points = &mut expanded[..4 * size];
                    for row in 0..4 {
                        expand(row, panel, pass.back, points);
                        for (point, right) in points.chunks_exact(size).enumerate() {
                            product(4 * row + point, right, columns.clone());
                        }
                    }
                } else {
                    for (point, right) in panel.chunks_exact(size).enumerate() {
                        product(point, right, columns.clone());
                    }
                }
            }
            let (start, relu, item) = (pass.start, pass.relu, pass.target_item);
            let planes = &*target_planes;
            let first = rows.start;
            Collect {
                tiles,
                out,
                planes,
                plane: target_plane,
                rows: part,
                first,
                target,
                item,
                start,
                relu,
                lines,
            }
            .run();
        }
    }

    /// Adds one item's weight gradient, `[tap, channel, out]`, to `sum`.
    pub(super) fn weight_gradient(
        &self,
        x: &[f32],
        g: &[f32],
        sum: &mut [f32],
        scratch: &mut [f32],
        parallel: usize,
    ) {
        let (tiles, channels, out) = (self.tiles, self.channels, self.out);
        let (source_plane, target_plane) =
            (plane(tiles, self.block, channels), plane(tiles, self.block, out));
        let (filters, rest) = scratch.split_at_mut(POINTS * channels * out);
        let (source_planes, rest) = rest.split_at_mut(POINTS * source_plane);
        let (target_planes, lines) = rest.split_at_mut(POINTS * target_plane);
        filters.fill(0.0);
        for start in (0..tiles.rows()).step_by(self.block) {
            let rows = start..tiles.rows().min(start + self.block);
            let pairs = &self.identity[..rows.len() * tiles.columns()];
            Spread {
                tiles,
                channels,
                source: x,
                item: 0,
                rows: rows.clone(),
                planes: source_planes,
                plane: source_plane,
                lines,
            }
            .run();
            Lift { tiles, out, source: g, rows, planes: target_planes, plane: target_plane, lines }.run();
            let (source_planes, target_planes) = (&*source_planes, &*target_planes);
            let product = |(point, filters): (usize, &mut [f32])| {
                OuterProduct {
                    items: &[(
                        &source_planes[point * source_plane..],
                        &target_planes[point * target_plane..],
                    )],
                    pairs,
                    shape: OuterShape { left: (channels, 0), right: (out, 0), first_row: 0, swapped: false },
                    rows: channels,
                    columns: out,
                    out: OuterTarget::Added(filters),
                }
                .run();
            };
            if parallel <= 1 {
                filters.chunks_exact_mut(channels * out).enumerate().for_each(product);
            } else {
                filters.par_chunks_exact_mut(channels * out).enumerate().for_each(product);
            }
        }
        add_filters(filters, sum);
    }
}

/// How many numbers one plane has, which holds a row for each tile of a block.
fn plane(tiles: Tiles, block: usize, width: usize) -> usize {
    block * tiles.columns() * width + SKEW
}

/// What one pass reads, and how it ends.
pub(super) struct FilterPass<'a> {
    pub(super) lanes: Lanes,
    /// Whether the pass computes the data gradient.
    pub(super) back: bool,
    pub(super) source: &'a [f32],
    /// The distance between items of the source.
    pub(super) source_item: usize,
    pub(super) target_item: usize,
    pub(super) items: usize,
    /// The weights as [`arrange`] makes them, or panels of taps, which are not turned around.
    pub(super) weights: &'a [f32],
    pub(super) start: StartValue<'a>,
    pub(super) relu: bool,
}
