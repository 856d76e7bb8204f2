//! Every sample's weight gradient of a convolution, written down: by our own kernels, or by matrix products.

use super::convolution::{Card, Choice};
use super::cudnn::{Algorithm, Descriptors, Tensors};
use super::device::{Grid, Pointer, Side, arguments};
use super::error::CudaError;
use super::kind::Conv;
use super::tile::{FILTERS, STEP, runs};

/// Weights that one block of the weight gradient without a tiling computes for 64 filters.
const TILE_COLUMNS: usize = 128;
/// Bytes of its shared memory: two stages of tiles, padded as in the kernel.
const WEIGHT_SHARED: u32 = 2 * 4 * (64 + 128) * 36;
/// Blocks of threads that keep a large card busy, and the fewest steps worth a block.
const BUSY: usize = 800;
const STEPS: usize = 8;
/// Rows that a block of threads unfolds, as its kernel has it.
const UNFOLDED_ROWS: usize = 16;
/// Rows of a grid.
const MOST_ROWS: usize = 65_535;

/// Every sample's weight gradient as one matrix product for each view: `dw = g x^T`.
fn weight_product(
    card: Card<'_>,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let (out, channels, positions) = (conv.geometry.out, conv.geometry.channels, conv.geometry.positions());
    for view in 0..views {
        let side = |start: Pointer, rows: usize| {
            let len = rows * positions;
            Side::new(start.at(view * len), positions, views * len)
        };
        let sides = (side(gradient, out), side(input, channels).transposed());
        let factors = (1.0, if view > 0 { 1.0 } else { 0.0 });
        let target = Side::new(target, channels, stride);
        card.device.product((out, positions, channels), sides, target, factors, samples)?;
    }
    Ok(())
}

/// Every sample's weight gradient in one of the ways there are.
pub(crate) fn sample_gradients(
    choice: Choice,
    card: Card<'_>,
    conv: &Conv,
    sides: (Pointer, Pointer),
    target: (Pointer, usize),
    sizes: (usize, usize),
) -> Result<(), CudaError> {
    match choice {
        Choice::Product => weight_product(card, conv, sides, target, sizes),
        Choice::Unfolded => weight_unfolded(card, conv, sides, target, sizes),
        _ => weight_gradient(card, conv, sides, target, sizes),
    }
}

/// Every sample's weight gradient by one call of cuDNN for each view of each sample, with an algorithm, the shapes of one item, and the
/// bytes it works in.
pub(crate) fn filter_gradients(
    card: Card<'_>,
    conv: &Conv,
    (algorithm, descriptors, bytes): (Algorithm, &Descriptors, usize),
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let geometry = &conv.geometry;
    let (image, plane) = (geometry.channels * geometry.positions_in(), geometry.out * geometry.positions());
    for item in 0..samples * views {
        let weight = target.at(item / views * stride);
        let tensors = Tensors { input: input.at(item * image), weight, output: gradient.at(item * plane) };
        let workspace = (card.work.workspace, bytes);
        card.device.cudnn.run(algorithm, descriptors, tensors, workspace, !item.is_multiple_of(views))?;
    }
    Ok(())
}

/// Whether an image can be unfolded in the workspace.
pub(crate) fn unfolds(card: Card<'_>, conv: &Conv) -> bool {
    let geometry = &conv.geometry;
    let rows = geometry.inner().max(geometry.out);
    geometry.groups == 1 && rows <= MOST_ROWS && 4 * geometry.unfolded_len() <= card.work.workspace_bytes
}

/// Every sample's weight gradient as one matrix product of the output's gradient with the unfolded image, as many samples at a time as
/// the workspace has room for.
fn weight_unfolded(
    card: Card<'_>,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let Card { device, model, work } = card;
    let geometry = &conv.geometry;
    let (inner, out, positions, pitch) =
        (geometry.inner(), geometry.out, geometry.positions(), geometry.unfolded_pitch());
    let together = (work.workspace_bytes / (4 * geometry.unfolded_len())).clamp(1, MOST_ROWS);
    let (image, plane) = (geometry.channels * geometry.positions_in(), out * positions);
    let unfold = |from: Pointer, to: Pointer, window: usize, rows: usize, taps: usize, len: usize, count| {
        let blocks = (pitch.div_ceil(256) as u32, rows.div_ceil(UNFOLDED_ROWS) as u32, count as u32);
        let list = arguments![from, to, model.tables.at(window), views * len, taps, rows, positions, pitch];
        device.launch("unfold", Grid { blocks, threads: 256, shared: 0 }, list)
    };
    for first in (0..samples).step_by(together) {
        let count = together.min(samples - first);
        let columns = work.workspace;
        let padded = columns.at(count * inner * pitch);
        for view in 0..views {
            let item = first * views + view;
            unfold(input.at(item * image), columns, conv.windows.0, inner, geometry.taps(), image, count)?;
            let mut left = Side::new(gradient.at(item * plane), positions, views * plane);
            // Rows that four does not divide are multiplied slowly.
            if pitch != positions {
                unfold(left.data, padded, conv.windows.1, out, 1, plane, count)?;
                left = Side::new(padded, pitch, out * pitch);
            }
            let sides = (left, Side::new(columns, pitch, inner * pitch).transposed());
            let to = Side::new(target.at(first * stride), inner, stride);
            let factors = (1.0, if view > 0 { 1.0 } else { 0.0 });
            device.product((out, pitch, inner), sides, to, factors, count)?;
        }
    }
    Ok(())
}

/// Every sample's weight gradient by our own kernels.
fn weight_gradient(
    card: Card<'_>,
    conv: &Conv,
    (input, gradient): (Pointer, Pointer),
    (target, stride): (Pointer, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let Card { device, model, work } = card;
    let geometry = &conv.geometry;
    let (out, channels) = (geometry.out / geometry.groups, geometry.channels / geometry.groups);
    let filters = geometry.groups * out.div_ceil(FILTERS);
    let columns = match &conv.gradient_tile {
        Some(tiled) => tiled.tile.blocks,
        None => geometry.inner().div_ceil(TILE_COLUMNS),
    };
    let len = geometry.weight_len();
    let steps = views * geometry.positions().div_ceil(STEP);
    let room = work.workspace_bytes / (4 * len * samples).max(1);
    let parts = parts(columns * filters * samples, steps).min(room.max(1));
    let (to, to_stride) = if parts == 1 { (target, stride) } else { (work.workspace, len) };
    let blocks = (columns as u32, filters as u32, (samples * parts) as u32);
    for (first, last) in runs(device.precision, steps, STEP, parts) {
        match &conv.gradient_tile {
            Some(tiled) => {
                let kernel = match tiled.tile.fragments {
                    1 => "image_weight_gradient_1",
                    5 => "image_weight_gradient_5",
                    _ => "image_weight_gradient_9",
                };
                let grid = Grid { blocks, threads: 256, shared: tiled.tile.shared as u32 };
                let (table, offsets) = (&tiled.tile.table, model.tables.at(tiled.offsets));
                let list =
                    arguments![gradient, input, to, table, offsets, to_stride, views, parts, first, last];
                device.launch(kernel, grid, list)?;
            }
            None => device.launch(
                "weight_gradient",
                Grid { blocks, threads: 128, shared: WEIGHT_SHARED },
                arguments![
                    gradient,
                    input,
                    to,
                    model.tables.at(conv.tables.0),
                    model.tables.at(conv.tables.1),
                    to_stride,
                    out,
                    geometry.inner(),
                    geometry.positions(),
                    geometry.positions_in(),
                    geometry.input[0],
                    geometry.input[1],
                    geometry.input[2],
                    geometry.groups,
                    channels,
                    views,
                    parts,
                    first,
                    last,
                ],
            )?,
        }
    }
    if parts == 1 {
        return Ok(());
    }
    let n = samples * len;
    device.launch("sum_parts", Grid::each(n), arguments![to, target, stride, len, parts, n])
}

/// Into how many parts a sample's positions are cut, so that the card has work everywhere.
fn parts(blocks: usize, steps: usize) -> usize {
    (BUSY / blocks.max(1)).min(steps / STEPS).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_blocks_with_many_steps_are_cut() {
        assert_eq!(parts(2048, 32), 1);
        assert_eq!(parts(4, 2001), 200);
        assert_eq!(parts(4, 40), 5);
        assert_eq!(parts(0, 0), 1);
    }
}
