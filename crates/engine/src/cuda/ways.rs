//! The ways in which we run a direction of a convolution without cuDNN.

use super::convolution::OpenCard;
use super::cudnn::{ConvolutionDirection, Tensors};
use super::error::CudaError;
use super::kernels::{AveragePool, AveragePoolBackward, ImageConvolve};
use super::launch::LaunchGrid;
use super::product::MatrixSide;
use super::tile::{FILTERS, runs};
use crate::op::conv::{CudaConvKernel, Tiled};

/// The tilings of a direction; empty if our kernels cannot run it.
pub(super) fn tiled(conv: &CudaConvKernel, direction: ConvolutionDirection) -> &[Tiled] {
    match direction {
        ConvolutionDirection::Forward => conv.forward_tile.as_slice(),
        ConvolutionDirection::Data => conv.backward_tiles.as_deref().unwrap_or(&[]),
        ConvolutionDirection::Filter => &[],
    }
}

pub(super) fn run_own(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    direction: ConvolutionDirection,
    tensors: Tensors<'_>,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let OpenCard { device, model, .. } = card;
    let geometry = &conv.geometry;
    let (rows, source, target) = match direction {
        ConvolutionDirection::Data => (geometry.channels, tensors.output, tensors.input),
        _ => (geometry.out, tensors.input, tensors.output),
    };
    let tiles = tiled(conv, direction);
    // A stride that is larger than the window skips some inputs, whose gradient is zero.
    if direction == ConvolutionDirection::Data
        && !accumulate
        && tiles.len() < geometry.stride.iter().product()
    {
        device.clear(target.first(items * rows * geometry.positions_in()))?;
    }
    let planes = [geometry.channels * geometry.positions_in(), geometry.out * geometry.positions()];
    let [input_len, output_len] =
        if direction == ConvolutionDirection::Data { [planes[1], planes[0]] } else { planes };
    let filters = (rows / geometry.groups).div_ceil(FILTERS);
    for tiled in tiles {
        let tile = &tiled.tile;
        let grid = LaunchGrid {
            blocks: [tile.tiles(items), filters, geometry.groups],
            threads: 256,
            shared: tile.shared,
        };
        for (first, last) in runs(device.precision, tile.steps, tile.step_products, 1) {
            let convolve = ImageConvolve {
                grid,
                input_len,
                output_len,
                weight_len: tiled.rows * tile.inner,
                weight: model.arranged().after(tiled.arranged),
                x: source,
                y: target,
                image: tile.strip,
                items,
                accumulate,
                first,
                last,
            };
            // SAFETY: the tiling is of this direction of this convolution, and so are the weights that were arranged for it.
            unsafe { convolve.launch(device)? };
        }
    }
    Ok(())
}

/// Runs a direction as one matrix product for each item: `y = w x`, or `dx = w^T g`.
pub(super) fn run_product(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    direction: ConvolutionDirection,
    tensors: Tensors<'_>,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let (out, channels, positions) = (conv.geometry.out, conv.geometry.channels, conv.geometry.positions());
    let weight = MatrixSide::new(tensors.weight, channels, 0);
    let input = MatrixSide::new(tensors.input, positions, channels * positions);
    let output = MatrixSide::new(tensors.output, positions, out * positions);
    let factors = (1.0, if accumulate { 1.0 } else { 0.0 });
    match direction {
        ConvolutionDirection::Data => {
            let sides = (weight.transposed(), output);
            card.device.product((channels, out, positions), sides, input, factors, items)
        }
        _ => card.device.product((out, channels, positions), (weight, input), output, factors, items),
    }
}

/// Whether the convolution skips positions, and those that it reads fit into the workspace.
pub(super) fn subsamples(card: OpenCard<'_>, conv: &CudaConvKernel, items: usize) -> bool {
    let geometry = &conv.geometry;
    geometry.is_subsampled()
        && 4 * items * geometry.channels * geometry.positions() <= card.work.workspace_bytes()
}

/// Runs a direction of a convolution that skips positions. Those that it reads are gathered by pooling with windows of one position.
pub(super) fn run_subsampled(
    card: OpenCard<'_>,
    conv: &CudaConvKernel,
    direction: ConvolutionDirection,
    tensors: Tensors<'_>,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let OpenCard { device, model, work } = card;
    let (geometry, table) = (&conv.geometry, model.tables().after(conv.windows.0));
    let read = Tensors { input: work.workspace(), ..tensors };
    match direction {
        ConvolutionDirection::Data => {
            run_product(card, conv, direction, read, items, false)?;
            let n = items * geometry.channels * geometry.positions_in();
            let spread = AveragePoolBackward { g: read.input, dx: tensors.input, table, n, accumulate };
            // SAFETY: the table is of the convolution's own window, and `read` has as many planes as its input.
            unsafe { spread.launch(device) }
        }
        _ => {
            let n = items * geometry.channels * geometry.positions();
            let taken = AveragePool { x: tensors.input, y: read.input, table, n };
            // SAFETY: as above.
            unsafe { taken.launch(device)? };
            run_product(card, conv, direction, read, items, accumulate)
        }
    }
}
