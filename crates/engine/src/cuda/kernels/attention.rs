//! Attention in tiles, without a matrix of all scores. Except for the products along the output, every grid consists of the tiles of each
//! head of each item.

use super::declare::{ByValue, Count, Flag, In, Long, Maybe, Out, Structure, kernels, rows};
use crate::cuda::Precision;
use crate::cuda::launch::LaunchGrid;

/// For how many features there are kernels, in the order of their names. Smaller heads are filled up with zeros.
const SIZES: [usize; 6] = [32, 48, 64, 80, 96, 128];
/// Heads have a multiple of this many features, so that each begins where 16 bytes do.
const MULTIPLE: usize = 8;

/// The tiles of heads of one width, as `heads.cu` lays them out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HeadTiles {
    kernel: usize,
    /// How many numbers 16 bytes hold.
    piece: usize,
    /// The factor that keeps products of gradients and values within the range of halves: both sides are below 2^15, and as many products
    /// are added as a head has features.
    pub(crate) taken: f32,
}

impl HeadTiles {
    /// The tiles of heads of this many features; `None` if there are none.
    pub(crate) fn new(width: usize, precision: Precision) -> Option<Self> {
        let kernel = SIZES.iter().position(|&size| width <= size)?;
        let piece = if precision == Precision::F32 { 4 } else { 8 };
        let taken = match precision {
            Precision::F32 | Precision::Bf16 => 1.0,
            Precision::Tf32 if width <= 64 => 0.5f32.powi(22),
            Precision::Tf32 => 0.5f32.powi(23),
        };
        width.is_multiple_of(MULTIPLE).then_some(Self { kernel, piece, taken })
    }

    /// Which of the kernels is meant.
    pub(crate) fn kernel(self) -> usize {
        self.kernel
    }

    /// How many features the kernels are made for.
    pub(crate) fn size(self) -> usize {
        SIZES[self.kernel]
    }

    /// How many bytes the numbers of a row take.
    fn bytes(self) -> usize {
        16 * self.size() / self.piece
    }

    fn warps(self) -> usize {
        if self.bytes() > 384 { 2 } else { 4 }
    }

    /// How many rows of the other side pass by at a time.
    fn others(self) -> usize {
        match self.bytes() {
            257.. => 16,
            193.. => 32,
            _ => 64,
        }
    }

    /// A grid over all tiles of a block's own rows, of which there are so many for each of `sets` heads. A block holds tiles of this many
    /// matrices, and two tiles each of the two matrices that pass by, and for these as many `columns` of numbers.
    fn grid(self, tokens: usize, sets: usize, matrices: usize, columns: usize) -> LaunchGrid {
        let own = 16 * self.warps();
        let rows = matrices * own + 4 * self.others();
        LaunchGrid {
            blocks: [tokens.div_ceil(own) * sets, 1, 1],
            threads: 32 * self.warps(),
            shared: rows * (self.bytes() + 16) + 8 * columns * self.others(),
        }
    }
}

/// The sizes of attention, laid out as the kernels read them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AttentionSizes {
    pub(crate) heads: i32,
    pub(crate) width: i32,
    pub(crate) queries: i32,
    pub(crate) keys: i32,
    /// How many numbers lie between two rows of queries, and of keys or values.
    pub(crate) query_row: i32,
    pub(crate) key_row: i32,
    /// How many items share a power of two.
    pub(crate) views: i32,
    /// What scores are multiplied by.
    pub(crate) scale: f32,
}

const _: () = assert!(size_of::<AttentionSizes>() == 32);

// SAFETY: both sides have seven whole numbers of 32 bits and one in single precision in this order, and the source asserts the same size.
unsafe impl Structure for AttentionSizes {
    const TYPE: &'static str = "const __grid_constant__ AttentionSizes";
}

impl AttentionSizes {
    fn features(&self) -> usize {
        (self.heads * self.width) as usize
    }

    /// How many numbers there are up to the end of the last row of queries, and below, of keys or values.
    fn query_numbers(&self, items: usize) -> usize {
        rows(items * self.queries as usize, self.query_row as usize, self.features())
    }

    fn key_numbers(&self, items: usize) -> usize {
        rows(items * self.keys as usize, self.key_row as usize, self.features())
    }

    /// How many numbers an output or its gradient has.
    fn outputs(&self, items: usize) -> usize {
        items * self.queries as usize * self.features()
    }

    /// How many heads of so many items there are, and below, queries of all of them.
    fn sets(&self, items: usize) -> usize {
        items * self.heads as usize
    }

    fn all_queries(&self, items: usize) -> usize {
        self.sets(items) * self.queries as usize
    }

    fn samples(&self, items: usize) -> usize {
        items.div_ceil(self.views as usize)
    }
}

/// How many words of four bytes this many numbers take.
fn words(numbers: usize, narrow: bool) -> usize {
    if narrow { numbers.div_ceil(2) } else { numbers }
}

kernels! {
    /// Computes the output of each query, and the logarithm to base 2 of the sum of its weights.
    AttentionForward = "attention_forward_32" | "attention_forward_48" | "attention_forward_64" | "attention_forward_80"
        | "attention_forward_96" | "attention_forward_128" by size [large]
    {
        q: In<[u32; 4]>[sizes.query_numbers(items) / tiles.piece],
        k: In<[u32; 4]>[sizes.key_numbers(items) / tiles.piece],
        v: In<[u32; 4]>[sizes.key_numbers(items) / tiles.piece],
        q_largest: Maybe<In<u32>>[sizes.samples(items)],
        k_largest: Maybe<In<u32>>[sizes.samples(items)],
        v_largest: Maybe<In<u32>>[sizes.samples(items)],
        y: Out<u32>[words(sizes.outputs(items), narrow)],
        logarithms: Out<f32>[sizes.all_queries(items)],
        sizes: ByValue<AttentionSizes>,
        narrow: Flag,
    } given { size: usize, tiles: HeadTiles, items: usize }
    over tiles.grid(sizes.queries as usize, sizes.sets(items), 1, 0);

    /// Computes the product of each head's output with its gradient, query by query, as products of gradients and values are scaled.
    AttentionAlong = "attention_along" {
        y: In<[u32; 4]>[words(n * width, narrow) / 4],
        g: In<[u32; 4]>[words(n * width, narrow) / 4],
        v_largest: Maybe<In<u32>>[(n / (heads * queries)).div_ceil(views)],
        g_largest: Maybe<In<u32>>[(n / (heads * queries)).div_ceil(views)],
        along: Out<f32>[n],
        heads: Count[heads > 0],
        width: Count[width.is_multiple_of(MULTIPLE)],
        queries: Count[queries > 0 && n.is_multiple_of(heads * queries)],
        views: Count[views > 0],
        taken: f32,
        n: Long,
        narrow: Flag,
    } over LaunchGrid::each(n);

    /// Computes the gradients of the queries.
    AttentionQueries = "attention_queries_32" | "attention_queries_48" | "attention_queries_64" | "attention_queries_80"
        | "attention_queries_96" | "attention_queries_128" by size [large]
    {
        q: In<[u32; 4]>[sizes.query_numbers(items) / tiles.piece],
        k: In<[u32; 4]>[sizes.key_numbers(items) / tiles.piece],
        v: In<[u32; 4]>[sizes.key_numbers(items) / tiles.piece],
        q_largest: Maybe<In<u32>>[sizes.samples(items)],
        k_largest: Maybe<In<u32>>[sizes.samples(items)],
        v_largest: Maybe<In<u32>>[sizes.samples(items)],
        g: In<[u32; 4]>[sizes.outputs(items) / tiles.piece],
        g_largest: Maybe<In<u32>>[sizes.samples(items)],
        logarithms: In<f32>[sizes.all_queries(items)],
        along: In<f32>[sizes.all_queries(items)],
        dq: Out<u32>[words(sizes.query_numbers(items), narrow)],
        sizes: ByValue<AttentionSizes>,
        narrow: Flag[!(narrow && accumulate)],
        accumulate: Flag,
    } given { size: usize, tiles: HeadTiles, items: usize }
    over tiles.grid(sizes.queries as usize, sizes.sets(items), 2, 0);

    /// Computes the gradients of the keys and the values.
    AttentionKeys = "attention_keys_32" | "attention_keys_48" | "attention_keys_64" | "attention_keys_80" | "attention_keys_96"
        | "attention_keys_128" by size [large]
    {
        q: In<[u32; 4]>[sizes.query_numbers(items) / tiles.piece],
        k: In<[u32; 4]>[sizes.key_numbers(items) / tiles.piece],
        v: In<[u32; 4]>[sizes.key_numbers(items) / tiles.piece],
        q_largest: Maybe<In<u32>>[sizes.samples(items)],
        k_largest: Maybe<In<u32>>[sizes.samples(items)],
        v_largest: Maybe<In<u32>>[sizes.samples(items)],
        g: In<[u32; 4]>[sizes.outputs(items) / tiles.piece],
        g_largest: Maybe<In<u32>>[sizes.samples(items)],
        logarithms: In<f32>[sizes.all_queries(items)],
        along: In<f32>[sizes.all_queries(items)],
        dk: Maybe<Out<u32>>[words(sizes.key_numbers(items), narrow)],
        dv: Maybe<Out<u32>>[words(sizes.key_numbers(items), narrow)],
        sizes: ByValue<AttentionSizes>,
        narrow: Flag[!(narrow && (accumulate || accumulate_values))],
        accumulate: Flag,
        accumulate_values: Flag,
    } given { size: usize, tiles: HeadTiles, items: usize }
    over tiles.grid(sizes.keys as usize, sizes.sets(items), 2, 2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::kernels::SHARED_LIMIT;

    #[test]
    fn every_width_has_tiles_that_fit_any_card() {
        for precision in [Precision::F32, Precision::Tf32, Precision::Bf16] {
            for width in (8..=128).step_by(8) {
                let tiles = HeadTiles::new(width, precision).unwrap();
                assert!(tiles.size() >= width && tiles.size() < width + 32, "{tiles:?}");
                // The gradients of keys take the most: tiles of two matrices and two columns of numbers.
                let grid = tiles.grid(197, 12, 2, 2);
                assert!(grid.shared <= SHARED_LIMIT, "{width}, {precision:?}: {} bytes", grid.shared);
                assert_eq!(grid.blocks[0], 12 * 197usize.div_ceil(grid.threads / 2));
            }
            for width in [1, 4, 12, 63, 136] {
                assert_eq!(HeadTiles::new(width, precision), None, "{width}");
            }
        }
    }
}
