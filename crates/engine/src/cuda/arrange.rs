//! Arranges weights as the kernels of convolutions read them.

use super::convolution::weight;
use super::device::Device;
use super::error::CudaError;
use super::kernels::{ArrangeWeights, Standardise};
use super::memory::CardModel;
use crate::op::conv::CudaConvKernel;

/// Standardises a convolution's weights if that is asked for, and puts them in the order of its tilings. `start` is where its parameter
/// lies.
pub(crate) fn convolution(
    device: &Device,
    model: &CardModel,
    conv: &CudaConvKernel,
    start: usize,
) -> Result<(), CudaError> {
    let geometry = &conv.geometry;
    if let (Some(eps), Some((used, inverses))) = (conv.standardise, conv.used) {
        Standardise {
            filters: geometry.out,
            weight: model.parameters().after(start),
            used: model.used().after(used),
            inverses: model.inverses().after(inverses),
            n: geometry.inner(),
            eps,
        }
        .launch(device)?;
    }
    let forward = conv.forward_tile.iter().map(|tiled| (tiled, false));
    let backward = conv.backward_tiles.iter().flatten().map(|tiled| (tiled, true));
    for (tiled, backward) in forward.chain(backward) {
        let arranged = ArrangeWeights {
            groups: geometry.groups,
            weight: weight(start, conv, model),
            arranged: model.arranged().after(tiled.arranged),
            list: model.tables().after(tiled.taps),
            out: geometry.out / geometry.groups,
            channels: geometry.channels / geometry.groups,
            window: geometry.taps(),
            taps: tiled.tile.taps.len(),
            inner: tiled.tile.inner,
            backward,
            n: tiled.tile.inner * tiled.rows,
        };
        // SAFETY: a tiling lists taps of its own window.
        unsafe { arranged.launch(device)? };
    }
    Ok(())
}
