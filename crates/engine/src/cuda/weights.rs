//! Writes down every sample's weight gradient of a convolution, by our own kernels, by matrix products or by cuDNN.

use super::convolution::{ConvolutionChoice, OpenCard};
use super::cudnn::{Algorithm, Descriptors, Tensors};
use super::error::CudaError;
use super::kernels::{ImageWeightGradient, SumParts, Unfold, WeightGradient};
use super::launch::LaunchGrid;
use super::product::MatrixSide;
use super::slice::DeviceSlice;
use super::tile::{FILTERS, STEP, runs};
use crate::op::conv::CudaConvKernel;

/// How many weights one block of the kernel without a tiling computes for 64 filters.
const TILE_COLUMNS: usize = 128;
/// How many bytes of shared memory that kernel needs for two stages of tiles, padded as in the kernel.
const WEIGHT_SHARED: usize = 2 * 4 * (64 + 128) * 36;
/// How many blocks of threads keep a large card busy, and the fewest steps that are worth a block.
const BUSY: usize = 800;
const STEPS: usize = 8;
/// How many rows a block of threads unfolds, the same as in its kernel.
const UNFOLDED_ROWS: usize = 16;
/// The most rows of a grid.
const MOST_ROWS: usize = 65_535;

/// Computes every sample's weight gradient as one matrix product for each view, `dw = g x^T`.
fn weight_product(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    (input, gradient): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
    (target, stride): (DeviceSlice<'_, f32>, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let (out, channels, positions) = (conv.geometry.out, conv.geometry.channels, conv.geometry.positions());
    for view in 0..views {
        let (plane, image) = (out * positions, channels * positions);
        let left = MatrixSide::new(gradient.after(view * plane), positions, views * plane);
        let right = MatrixSide::new(input.after(view * image), positions, views * image);
        let sides = (left, right.transposed());
        let factors = (1.0, if view > 0 { 1.0 } else { 0.0 });
        let target = MatrixSide::new(target, channels, stride);
        card.device.product((out, positions, channels), sides, target, factors, samples)?;
    }
    Ok(())
}

/// Computes every sample's weight gradient in the way that was chosen, unless that is cuDNN's.
pub(crate) fn sample_gradients(
    choice: ConvolutionChoice,
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    sides: (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
    target: (DeviceSlice<'_, f32>, usize),
    sizes: (usize, usize),
) -> Result<(), CudaError> {
    match choice {
        ConvolutionChoice::Product => weight_product(card, conv, sides, target, sizes),
        ConvolutionChoice::Unfolded => weight_unfolded(card, conv, sides, target, sizes),
        _ => weight_gradient(card, conv, sides, target, sizes),
    }
}

/// Computes every sample's weight gradient by one call of cuDNN for each view of each sample. The algorithm comes with the shapes of one
/// item and the bytes it works in.
pub(crate) fn filter_gradients(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    (algorithm, descriptors, bytes): (Algorithm, &Descriptors, usize),
    (input, gradient): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
    (target, stride): (DeviceSlice<'_, f32>, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let geometry = &conv.geometry;
    let (image, plane) = (geometry.channels * geometry.positions_in(), geometry.out * geometry.positions());
    for item in 0..samples * views {
        let tensors = Tensors {
            input: input.after(item * image),
            weight: target.after(item / views * stride),
            output: gradient.after(item * plane),
        };
        let workspace = (card.work.workspace(), bytes);
        card.device.cudnn.run(algorithm, descriptors, tensors, workspace, !item.is_multiple_of(views))?;
    }
    Ok(())
}

/// Whether an image can be unfolded and fits into the workspace.
pub(crate) fn unfolds(card: OpenCard<'_>, conv: &CudaConvKernel) -> bool {
    let geometry = &conv.geometry;
    let rows = geometry.inner().max(geometry.out);
    geometry.groups == 1 && rows <= MOST_ROWS && 4 * geometry.unfolded_len() <= card.work.workspace_bytes()
}

/// Computes every sample's weight gradient as one matrix product of the output's gradient with the unfolded image, for as many samples at a
/// time as the workspace has room for.
fn weight_unfolded(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    (input, gradient): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
    (target, stride): (DeviceSlice<'_, f32>, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let OpenCard { device, model, work } = card;
    let geometry = &conv.geometry;
    let (inner, out, positions, pitch) =
        (geometry.inner(), geometry.out, geometry.positions(), geometry.unfolded_pitch());
    let together = (work.workspace_bytes() / (4 * geometry.unfolded_len())).clamp(1, MOST_ROWS);
    let (image, plane) = (geometry.channels * geometry.positions_in(), out * positions);
    let unfold = |x, columns, (window, taps): (usize, usize), (rows, len): (usize, usize), count| {
        let blocks = [pitch.div_ceil(256), rows.div_ceil(UNFOLDED_ROWS), count];
        let unfold = Unfold {
            grid: LaunchGrid { blocks, threads: 256, shared: 0 },
            x,
            columns,
            table: model.tables().after(window),
            item_len: views * len,
            taps,
            rows,
            positions,
            pitch,
        };
        // SAFETY: both windows are the convolution's own, and `x` holds the images of `count` samples.
        unsafe { unfold.launch(device) }
    };
    for first in (0..samples).step_by(together) {
        let count = together.min(samples - first);
        let columns = work.workspace();
        let padded = columns.after(count * inner * pitch);
        for view in 0..views {
            let item = first * views + view;
            let taps = (conv.windows.0, geometry.taps());
            unfold(input.after(item * image), columns, taps, (inner, image), count)?;
            let mut left = MatrixSide::new(gradient.after(item * plane), positions, views * plane);
            // Products are slow if four does not divide the length of a row.
            if pitch != positions {
                unfold(left.data, padded, (conv.windows.1, 1), (out, plane), count)?;
                left = MatrixSide::new(padded, pitch, out * pitch);
            }
            let sides = (left, MatrixSide::new(columns, pitch, inner * pitch).transposed());
            let to = MatrixSide::new(target.after(first * stride), inner, stride);
            let factors = (1.0, if view > 0 { 1.0 } else { 0.0 });
            device.product((out, pitch, inner), sides, to, factors, count)?;
        }
    }
    Ok(())
}

/// Computes every sample's weight gradient by our own kernels.
fn weight_gradient(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    (input, gradient): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
    (target, stride): (DeviceSlice<'_, f32>, usize),
    (samples, views): (usize, usize),
) -> Result<(), CudaError> {
    let OpenCard { device, work, .. } = card;
    let geometry = &conv.geometry;
    let filters = geometry.groups * (geometry.out / geometry.groups).div_ceil(FILTERS);
    let columns = match &conv.gradient_tile {
        Some(tiled) => tiled.tile.blocks,
        None => geometry.inner().div_ceil(TILE_COLUMNS),
    };
    let len = geometry.weight_len();
    let steps = views * geometry.positions().div_ceil(STEP);
    let room = work.workspace_bytes() / (4 * len * samples).max(1);
    let parts = parts(columns * filters * samples, steps).min(room.max(1));
    let (to, to_stride) = if parts == 1 { (target, stride) } else { (work.workspace(), len) };
    let blocks = [columns, filters, samples * parts];
    for span in runs(device.precision, steps, STEP, parts) {
        gradient_steps(card, conv, (input, gradient), (to, to_stride), blocks, (views, parts), span)?;
    }
    if parts == 1 {
        return Ok(());
    }
    SumParts { partial: to, d: target, stride, len, parts, n: samples * len }.launch(device)
}

/// Runs steps `first..last` of every sample, each part of which takes some of them.
fn gradient_steps(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    (x, g): (DeviceSlice<'_, f32>, DeviceSlice<'_, f32>),
    (d, stride): (DeviceSlice<'_, f32>, usize),
    blocks: [usize; 3],
    (views, parts): (usize, usize),
    (first, last): (usize, usize),
) -> Result<(), CudaError> {
    let OpenCard { device, model, .. } = card;
    let geometry = &conv.geometry;
    let table = |start: usize| model.tables().after(start);
    if let Some(tiled) = &conv.gradient_tile {
        let gradient = ImageWeightGradient {
            size: tiled.tile.size(),
            grid: LaunchGrid { blocks, threads: 256, shared: tiled.tile.shared },
            input_len: geometry.channels * geometry.positions_in(),
            output_len: geometry.out * geometry.positions(),
            weight_len: geometry.weight_len(),
            g,
            x,
            d,
            image: tiled.tile.strip,
            offsets: table(tiled.offsets),
            stride,
            views,
            parts,
            first,
            last,
        };
        // SAFETY: the tiling is of this convolution, and its weights, offsets and stages are what its own sizes say.
        return unsafe { gradient.launch(device) };
    }
    let gradient = WeightGradient {
        grid: LaunchGrid { blocks, threads: 128, shared: WEIGHT_SHARED },
        g,
        x,
        d,
        taps: table(conv.tables.0).cast(),
        places: table(conv.tables.1).cast(),
        stride,
        out: geometry.out / geometry.groups,
        inner: geometry.inner(),
        positions: geometry.positions(),
        plane: geometry.positions_in(),
        depth: geometry.input[0],
        height: geometry.input[1],
        width: geometry.input[2],
        groups: geometry.groups,
        channels: geometry.channels / geometry.groups,
        views,
        parts,
        first,
        last,
    };
    // SAFETY: both tables are of this convolution, in whole tiles, and a block has two stages.
    unsafe { gradient.launch(device) }
}

/// Into how many parts a sample's positions are cut, so that the whole card has work.
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
