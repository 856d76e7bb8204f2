//! Softmax, the loss, and the addresses of batched matrix products.

use super::declare::{Code, Count, Flag, In, Long, Out, kernels, rows as strided};
use crate::cuda::launch::LaunchGrid;

/// The numbers that the kernel of the loss gives to the kinds of targets.
pub(crate) const CLASSES: i32 = 0;
pub(crate) const PROBABILITIES: i32 = 1;
pub(crate) const VALUES: i32 = 2;

kernels! {
    /// Takes the softmax of every row, whose values are multiplied by `scale` first. Rows begin `leading` numbers apart.
    Softmax = "softmax" {
        x: In<f32>[strided(rows, leading, features)],
        y: Out<f32>[strided(rows, leading, features)],
        features: Count,
        leading: Count,
        rows: Long,
        scale: f32,
    } over LaunchGrid::warps(rows);

    /// Computes the gradient of a softmax.
    SoftmaxBackward = "softmax_backward" {
        y: In<f32>[strided(rows, leading, features)],
        g: In<f32>[strided(rows, leading, features)],
        dx: Out<f32>[strided(rows, leading, features)],
        features: Count,
        leading: Count,
        rows: Long,
        scale: f32,
        accumulate: Flag,
    } over LaunchGrid::warps(rows);

    /// Lists where the matrices of products lie: for each side, the address for every item and head.
    MatrixAddresses = "matrix_addresses" {
        a: In<f32>,
        b: In<f32>,
        c: Out<f32>,
        addresses: Out<u64>[3 * n],
        a_outer: Long,
        a_inner: Long,
        b_outer: Long,
        b_inner: Long,
        c_outer: Long,
        c_inner: Long,
        heads: Count[heads > 0],
        n: Long,
    } over LaunchGrid::each(n);

    /// Counts the labels in each part of an item's positions, with a block for each item and part.
    CountLabels = "count_labels" {
        labels: In<u32>[grid.blocks[0] * positions],
        counts: Out<i32>[grid.blocks[0] * grid.blocks[1]],
        positions: Count,
    } given { grid: LaunchGrid } over grid;

    /// Computes `weight` times the loss of each part of an item's positions, and `scale` times the gradient of that. Logits are
    /// `[classes, positions]`; targets are a label for each position, or as many numbers as there are logits.
    LossOfParts = "loss" {
        kind: Code,
        output: In<f32>[grid.blocks[0] * classes * positions],
        targets: In<u32>[grid.blocks[0] * positions * if kind == CLASSES { 1 } else { classes }],
        counts: In<i32>[grid.blocks[0] * grid.blocks[1]],
        gradient: Out<f32>[grid.blocks[0] * classes * positions],
        sums: Out<f64>[grid.blocks[0] * grid.blocks[1]],
        classes: Count,
        positions: Count,
        smoothing: f32,
        weight: f64,
        scale: f64,
    } given { grid: LaunchGrid } over grid;

    /// Adds the losses of each item's parts, in the order of the parts.
    AddLosses = "add_losses" {
        sums: In<f64>[items * parts],
        losses: Out<f64>[items],
        parts: Count,
        items: Count,
        accumulate: Flag,
    } over LaunchGrid::each(items);
}
