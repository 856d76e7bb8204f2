//! Each sample's weight gradient of a layer over tokens, on cards whose tensor cores multiply for groups of four warps.

use std::ffi::c_void;

use cudarc::driver::sys;

use super::declare::{ByValue, Count, In, Long, Maybe, Out, Structure, kernels, rows as strided};
use super::gradient::{HalvedGradientTiles, gradient_tiles};
use crate::cuda::device::Device;
use crate::cuda::error::{CudaError, call};
use crate::cuda::launch::{LaunchGrid, internal};
use crate::cuda::slice::DeviceSlice;

/// How many rows a slice of a sample has, and how many columns are copied at a time.
const SLICE: usize = 16;
const COLUMNS: usize = 64;
/// How many bytes a slice of inputs takes, how many one of gradients, and by how much both may have to move to be aligned.
const INPUTS: usize = 8 << 10;
const GRADIENTS: usize = 4 << 10;
const ALIGNMENT: usize = 1 << 10;
/// How many slices fit, and how many if there is room for the gradients of two tiles.
const MOST_SLICES: usize = 18;
const DOUBLE_SLICES: usize = 13;

/// Whether a sample's rows fit, and its features fill an even number of tiles of 128.
pub(crate) fn suits_groups(features: usize, rows: usize) -> bool {
    rows.div_ceil(SLICE) <= MOST_SLICES && gradient_tiles(1, features).is_multiple_of(2)
}

/// How many bytes of shared memory a sample of this many rows takes.
fn shared(rows: usize) -> usize {
    let slices = rows.div_ceil(SLICE);
    let tiles = if slices > DOUBLE_SLICES { 1 } else { 2 };
    slices * (INPUTS + tiles * GRADIENTS) + ALIGNMENT
}

/// Samples' rows of halves, as the driver describes them to the hardware that copies.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct TensorMap(sys::CUtensorMap);

const _: () = assert!(size_of::<TensorMap>() == 128);

// SAFETY: both sides have 128 bytes that only the driver and the hardware understand, and the source asserts the same size.
unsafe impl Structure for TensorMap {
    const TYPE: &'static str = "const __grid_constant__ TensorMap";
}

impl TensorMap {
    /// Describes rows of eights of halves.
    fn new(
        halves: DeviceSlice<'_, [u32; 4]>,
        (samples, rows, columns): (usize, usize, usize),
    ) -> Result<Self, CudaError> {
        if halves.len() < samples * rows * columns / 8 {
            return Err(internal("grouped_gradient", "rows lie outside of their memory".into()));
        }
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        let sizes = [columns, rows, samples].map(|size| size as u64);
        // The bytes from one row to the next, and from one sample to the next.
        let strides = [2 * columns, 2 * columns * rows].map(|stride| stride as u64);
        let (boxes, steps) = ([COLUMNS, SLICE, 1].map(|size| size as u32), [1u32; 3]);
        // SAFETY: the driver reads three sizes, two strides, a box and its steps, and writes one map. It only notes the address.
        let made = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
                3,
                halves.address() as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                boxes.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        call("describing rows", made.result())?;
        Ok(Self(map))
    }
}

kernels! {
    /// Does the same as [`super::HalvedGradientTiles`], with as many blocks as run at once, for sizes that [`suits_groups`] allows. The number
    /// of partial sums is the same, too, but each is of 64 outputs and 256 features.
    GroupedGradientTiles = "grouped_gradient" [large] {
        x: ByValue<TensorMap>,
        x_largest: Maybe<In<u32>>[samples],
        g: ByValue<TensorMap>,
        g_largest: Maybe<In<u32>>[samples],
        d: Out<[u32; 4]>[samples * out * features / 8],
        features: Count[features.is_multiple_of(8)],
        out: Count[out.is_multiple_of(8)],
        rows: Count[suits_groups(features, rows)],
        taken: f32,
        bias: Maybe<Out<f32>>[strided(samples, bias_stride, out)],
        bias_stride: Long,
        scales: Out<f32>[strided(samples, scale_stride, 1)],
        scale_stride: Count,
        partials: Out<f64>[strided(samples, partial_stride, gradient_tiles(out, features))],
        partial_stride: Count,
        samples: Count,
    } given { blocks: usize }
    over LaunchGrid { blocks: [blocks, 1, 1], threads: 320, shared: shared(rows) },
    unsafe: "`x` and `g` describe `samples` times `rows` rows of halves that lie in memory.";
}

impl HalvedGradientTiles<'_> {
    /// Computes the same gradients by groups of warps, with a block for each multiprocessor.
    pub(crate) fn launch_groups(self, device: &Device, multiprocessors: usize) -> Result<(), CudaError> {
        let Self { samples, features, out, rows, .. } = self;
        let tiles = GroupedGradientTiles {
            blocks: multiprocessors,
            x: TensorMap::new(self.x, (samples, rows, features))?,
            x_largest: self.x_largest,
            g: TensorMap::new(self.g, (samples, rows, out))?,
            g_largest: self.g_largest,
            d: self.d,
            features,
            out,
            rows,
            taken: self.taken,
            bias: self.bias,
            bias_stride: self.bias_stride,
            scales: self.scales,
            scale_stride: self.scale_stride,
            partials: self.partials,
            partial_stride: self.partial_stride,
            samples,
        };
        // SAFETY: both maps were just made of slices that hold these rows, and whose memory outlives what the stream has to do.
        unsafe { tiles.launch(device) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::kernels::DECLARED;

    /// The card's blocks have 227 KB of shared memory. Every layer that suits groups has two partial sums for each of their tiles, so that
    /// none of the partial sums that are planned for is left out.
    #[test]
    fn what_suits_groups_fits_and_has_all_partial_sums() {
        for (features, rows, suits) in [
            (768, 197, true),
            (3072, 208, true),
            (192, 65, true),
            (768, 16, true),
            (768, 288, true),
            (768, 289, false),
            (384, 197, false),
            (64, 65, false),
        ] {
            assert_eq!(suits_groups(features, rows), suits, "{rows} rows of {features}");
            let own = features.div_ceil(256) * 2;
            assert!(!suits || own == gradient_tiles(1, features), "{rows} rows of {features}");
            assert!(!suits || shared(rows) + DECLARED <= 227 << 10, "{rows} rows of {features}");
        }
    }
}
