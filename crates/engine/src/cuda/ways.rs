//! The ways of our own in which a direction of a convolution runs.

use super::convolution::Card;
use super::cudnn::{Direction, Tensors};
use super::device::{Grid, Side, arguments};
use super::error::CudaError;
use super::kind::{Conv, Tiled};
use super::tile::{FILTERS, runs};

/// The tilings of a direction; none where our kernels have no way.
pub(super) fn tiled(conv: &Conv, direction: Direction) -> &[Tiled] {
    match direction {
        Direction::Forward => conv.forward_tile.as_slice(),
        Direction::Data => conv.backward_tiles.as_deref().unwrap_or(&[]),
        Direction::Filter => &[],
    }
}

pub(super) fn run_own(
    card: Card<'_>,
    conv: &Conv,
    direction: Direction,
    tensors: Tensors,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let Card { device, model, .. } = card;
    let geometry = &conv.geometry;
    let (rows, source, target) = match direction {
        Direction::Data => (geometry.channels, tensors.output, tensors.input),
        _ => (geometry.out, tensors.input, tensors.output),
    };
    let tiles = tiled(conv, direction);
    // A stride larger than the window passes some inputs by.
    if direction == Direction::Data && !accumulate && tiles.len() < geometry.stride.iter().product() {
        device.clear(target, items * rows * geometry.positions_in())?;
    }
    let filters = (rows / geometry.groups).div_ceil(FILTERS);
    for tiled in tiles {
        let blocks = (tiled.tile.tiles(items) as u32, filters as u32, geometry.groups as u32);
        let grid = Grid { blocks, threads: 256, shared: tiled.tile.shared as u32 };
        let (weights, table) = (model.arranged.at(tiled.arranged), &tiled.tile.table);
        for (first, last) in runs(device.precision, tiled.tile.steps, tiled.tile.step_products, 1) {
            let list = arguments![weights, source, target, table, items, accumulate, first, last];
            device.launch("image_convolve", grid, list)?;
        }
    }
    Ok(())
}

/// A direction as one matrix product for each item: `y = w x`, or `dx = w^T g`.
pub(super) fn run_product(
    card: Card<'_>,
    conv: &Conv,
    direction: Direction,
    tensors: Tensors,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let (out, channels, positions) = (conv.geometry.out, conv.geometry.channels, conv.geometry.positions());
    let weight = Side::new(tensors.weight, channels, 0);
    let input = Side::new(tensors.input, positions, channels * positions);
    let output = Side::new(tensors.output, positions, out * positions);
    let factors = (1.0, if accumulate { 1.0 } else { 0.0 });
    match direction {
        Direction::Data => {
            let sides = (weight.transposed(), output);
            card.device.product((channels, out, positions), sides, input, factors, items)
        }
        _ => card.device.product((out, channels, positions), (weight, input), output, factors, items),
    }
}

/// Whether the positions that are read fit the workspace.
pub(super) fn subsamples(card: Card<'_>, conv: &Conv, items: usize) -> bool {
    let geometry = &conv.geometry;
    geometry.is_subsampled()
        && 4 * items * geometry.channels * geometry.positions() <= card.work.workspace_bytes
}

/// A direction of a convolution that passes positions by: those it reads are a pool of windows of one position.
pub(super) fn run_subsampled(
    card: Card<'_>,
    conv: &Conv,
    direction: Direction,
    tensors: Tensors,
    items: usize,
    accumulate: bool,
) -> Result<(), CudaError> {
    let Card { device, model, work } = card;
    let (geometry, window) = (&conv.geometry, model.tables.at(conv.windows.0));
    let read = Tensors { input: work.workspace, ..tensors };
    match direction {
        Direction::Data => {
            run_product(card, conv, direction, read, items, false)?;
            let n = items * geometry.channels * geometry.positions_in();
            let list = arguments![read.input, tensors.input, window, n, accumulate];
            device.launch("average_pool_backward", Grid::each(n), list)
        }
        _ => {
            let n = items * geometry.channels * geometry.positions();
            device.launch("average_pool", Grid::each(n), arguments![tensors.input, read.input, window, n])?;
            run_product(card, conv, direction, read, items, accumulate)
        }
    }
}
