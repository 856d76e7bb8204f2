//! Which rows the taps of a window read and write.

use dapple_graph::Window;

use crate::cpu::kernel::{RowClass, RowPair};

/// For every tap of a window, the pairs of input row and output row for which the tap falls inside the input.
pub(crate) fn window_pairs(window: &Window, input: &[usize], output: &[usize]) -> Vec<Vec<RowPair>> {
    let rank = input.len();
    let index = |mut flat: usize, shape: &[usize]| -> Vec<usize> {
        let mut index = vec![0; rank];
        for axis in (0..rank).rev() {
            index[axis] = flat % shape[axis];
            flat /= shape[axis];
        }
        index
    };
    let positions: Vec<Vec<usize>> = (0..output.iter().product()).map(|flat| index(flat, output)).collect();
    (0..window.taps())
        .map(|tap| {
            let tap = index(tap, &window.kernel);
            let mut pairs = Vec::new();
            for (target, position) in positions.iter().enumerate() {
                let mut source = 0;
                let inside = (0..rank).all(|axis| {
                    let padded = position[axis] * window.stride[axis] + tap[axis] * window.dilation[axis];
                    let place = padded.wrapping_sub(window.padding[axis]);
                    source = source * input[axis] + place.min(input[axis]);
                    place < input[axis]
                });
                if inside {
                    pairs.push(RowPair { source: source as u32, target: target as u32 });
                }
            }
            pairs
        })
        .collect()
}

/// The same pairs with source and target exchanged, for the data gradient or for a transposed convolution. The rows that are written still
/// come in order.
pub(crate) fn reversed_pairs(taps: &[Vec<RowPair>]) -> Vec<Vec<RowPair>> {
    taps.iter().map(|pairs| pairs.iter().map(RowPair::reversed).collect()).collect()
}

/// Joins pairs into runs of neighbours.
pub(super) fn pair_runs(pairs: &[RowPair]) -> Vec<(RowPair, usize)> {
    let mut runs: Vec<(RowPair, usize)> = Vec::new();
    for pair in pairs {
        match runs.last_mut() {
            Some((first, len))
                if first.source + *len as u32 == pair.source && first.target + *len as u32 == pair.target =>
            {
                *len += 1;
            }
            _ => runs.push((*pair, 1)),
        }
    }
    runs
}

/// A run of numbers to copy from the input, or of zeros where the window leaves the input. Runs fill the gathered rows one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyRun {
    pub(super) source: Option<u32>,
    pub(super) len: u32,
}

/// The copies that gather the taps of every output row. Copies of neighbouring memory are joined.
pub(super) fn copy_runs(classes: &[RowClass], taps: usize, channels: usize) -> Vec<CopyRun> {
    let mut rows: Vec<(u32, Vec<Option<u32>>)> = Vec::new();
    for class in classes {
        for (index, &target) in class.targets.iter().enumerate() {
            let mut sources = vec![None; taps];
            for (place, &tap) in class.taps.iter().enumerate() {
                sources[tap as usize] = Some(class.sources[index * class.taps.len() + place]);
            }
            rows.push((target, sources));
        }
    }
    rows.sort_by_key(|(target, _)| *target);
    let mut runs: Vec<CopyRun> = Vec::new();
    for source in rows.into_iter().flat_map(|(_, sources)| sources) {
        let source = source.map(|row| row * channels as u32);
        match runs.last_mut() {
            Some(run) if run.source.map(|start| start + run.len) == source => run.len += channels as u32,
            _ => runs.push(CopyRun { source, len: channels as u32 }),
        }
    }
    runs
}
