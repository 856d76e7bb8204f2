//! Attention in tiles, without a matrix of all scores. Except for the products along the output, every grid consists of tiles of tokens,
//! heads, and items.

use super::declare::{Count, Flag, In, Long, Maybe, Out, kernels};
use crate::cuda::launch::LaunchGrid;

/// How many features a head has.
pub(crate) const HEAD: usize = 64;
/// How many tokens a tile has.
const HEAD_TILE: usize = 64;
/// How many bytes a tile of halves takes.
const HEAD_BYTES: usize = 2 * HEAD_TILE * HEAD;

/// A grid with a block of four warps for each tile of each head of each item.
fn tiles(tokens: usize, heads: usize, items: usize, shared: usize) -> LaunchGrid {
    LaunchGrid { blocks: [tokens.div_ceil(HEAD_TILE), heads, items], threads: 128, shared }
}

/// How many words of four bytes this many numbers take.
fn words(numbers: usize, narrow: bool) -> usize {
    if narrow { numbers / 2 } else { numbers }
}

kernels! {
    /// Computes the output of each query, and the logarithm to base 2 of the sum of its weights.
    AttentionForward = "attention_forward" {
        halves: In<[u32; 4]>[3 * items * tokens * heads * HEAD / 8],
        largest: Maybe<In<u32>>[items.div_ceil(views)],
        y: Out<u32>[words(items * tokens * heads * HEAD, narrow)],
        logarithms: Out<f32>[items * heads * tokens],
        tokens: Count,
        views: Count[views > 0],
        narrow: Flag,
    } given { items: usize, heads: usize } over tiles(tokens, heads, items, 0);

    /// Computes the product of each head's output with its gradient, token by token.
    AttentionAlong = "attention_along" {
        y: In<u32>[words(n * HEAD, narrow)],
        g: In<u32>[words(n * HEAD, narrow)],
        along: Out<f32>[n],
        heads: Count[heads > 0],
        tokens: Count[tokens > 0 && n.is_multiple_of(heads * tokens)],
        n: Long,
        narrow: Flag,
    } over LaunchGrid::warps(n);

    /// Computes the gradients of the queries, or of the keys and the values.
    AttentionGradient = "attention_queries" | "attention_keys" by part [large] {
        halves: In<[u32; 4]>[3 * items * tokens * heads * HEAD / 8],
        largest: Maybe<In<u32>>[items.div_ceil(views)],
        g: In<[u32; 4]>[items * tokens * heads * HEAD / 8],
        g_largest: Maybe<In<u32>>[items.div_ceil(views)],
        logarithms: In<f32>[items * heads * tokens],
        along: In<f32>[items * heads * tokens],
        dx: Out<u32>[words(3 * items * tokens * heads * HEAD, narrow)],
        tokens: Count,
        views: Count[views > 0],
        narrow: Flag[!(narrow && accumulate)],
        accumulate: Flag,
    } given { part: usize, items: usize, heads: usize } over tiles(tokens, heads, items, 6 * HEAD_BYTES);
}
