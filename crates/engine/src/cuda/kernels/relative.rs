//! What relative positions add to attention.

use super::declare::{Count, Flag, In, Long, Out, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;

/// How many numbers a table of relative positions begins with.
const RELATIVE: usize = 8;
/// How many features' gradients a block adds up.
const LANES: usize = 32;
/// How many threads such a block has, which the kernel relies on.
const THREADS: usize = 256;

kernels! {
    /// Makes each query's terms for every place of a key along each axis, `[row, of_query]`. There is a row for every item, head and
    /// position.
    RelativeTerms = "relative_terms" {
        q: In<f32>[rows / positions * (1 + positions) * width],
        time: In<f32>,
        height: In<f32>,
        breadth: In<f32>,
        terms: Out<f32>[rows * of_query],
        table: In<i32>[RELATIVE],
        heads: Count[heads > 0],
        width: Count,
        rows: Long,
    } given { positions: usize, of_query: usize } over LaunchGrid::warps(rows), unsafe: "The table is of `positions` queries, keys with `of_query` places along the axes together, and rows that `time`, `height` and `breadth` have.";

    /// Sets the scores of every query, including those without a position, to what the terms add to them.
    RelativeScores = "relative_scores" {
        terms: In<f32>[rows / (1 + positions) * positions * of_query],
        scores: Out<f32>[strided(rows, leading, keys)],
        table: In<i32>[RELATIVE],
        leading: Count,
        rows: Long,
    } given { positions: usize, of_query: usize, keys: usize } over LaunchGrid::warps(rows), unsafe: "The table is of `positions` queries and `keys - 1` keys with `of_query` places along the axes together.";

    /// Makes the gradients of the terms from those of the scores.
    RelativeSums = "relative_sums" {
        scores: In<f32>[strided(rows / positions * (1 + positions), leading, keys)],
        terms: Out<f32>[rows * of_query],
        table: In<i32>[RELATIVE],
        leading: Count,
        rows: Long,
    } given { positions: usize, of_query: usize, keys: usize } over LaunchGrid::warps(rows), unsafe: "The table is of `positions` queries and `keys - 1` keys with `of_query` places along the axes together.";

    /// Adds to the gradients of the queries what comes through their terms, and what comes through the output that they were added to.
    RelativeQueries = "relative_queries" {
        terms: In<f32>[rows * of_query],
        g: In<f32>[rows / positions * (1 + positions) * width],
        time: In<f32>,
        height: In<f32>,
        breadth: In<f32>,
        dq: Out<f32>[rows / positions * (1 + positions) * width],
        table: In<i32>[RELATIVE],
        heads: Count[heads > 0],
        width: Count,
        rows: Long,
    } given { positions: usize, of_query: usize } over LaunchGrid::warps(rows), unsafe: "The table is of `positions` queries, keys with `of_query` places along the axes together, and rows that `time`, `height` and `breadth` have.";

    /// Computes each sample's gradient of an axis's table.
    RelativeValues = "relative_values" {
        terms: In<f32>[samples * views * heads * positions * of_query],
        q: In<f32>[samples * views * (1 + positions) * heads * width],
        d: Out<f32>[strided(samples, stride, rows * width)],
        stride: Long,
        table: In<i32>[RELATIVE],
        readers: In<i32>[rows + 1],
        axis: Count[axis < 3],
        heads: Count[heads > 0],
        width: Count,
        views: Count,
        accumulate: Flag,
    } given { samples: usize, rows: usize, positions: usize, of_query: usize }
    over LaunchGrid { blocks: [samples, rows, width.div_ceil(LANES)], threads: THREADS, shared: 0 },
    unsafe: "The table is of `positions` queries and keys with `of_query` places along the axes together; the readers are pairs of places along this axis, for each of `rows`.";

    /// Copies items of `len` values each, and sets the first values of every item to zero.
    BehindFirst = "behind_first" { x: In<f32>[n], y: Out<f32>[n], first: Count, len: Count[len > 0], n: Long }
        over LaunchGrid::each(n);
}
