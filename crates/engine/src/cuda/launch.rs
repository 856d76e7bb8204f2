//! How kernels are started.

use std::ffi::c_void;

use cudarc::driver::result;

use super::device::Device;
use super::error::{CudaError, call};

/// How many blocks a launch has, how many threads each block has, and how many bytes of shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchGrid {
    pub(crate) blocks: [usize; 3],
    pub(crate) threads: usize,
    pub(crate) shared: usize,
}

impl LaunchGrid {
    /// A grid with one thread for each value.
    pub(crate) fn each(values: usize) -> Self {
        Self::blocks(values.div_ceil(256), 256)
    }

    /// A grid with one thread for every four values.
    pub(crate) fn fours(values: usize) -> Self {
        Self::each(values.div_ceil(4))
    }

    /// A grid with one warp for each value, eight of them in a block.
    pub(crate) fn warps(values: usize) -> Self {
        Self::blocks(values.div_ceil(8), 256)
    }

    /// A grid that is one row of blocks.
    pub(crate) fn blocks(blocks: usize, threads: usize) -> Self {
        Self { blocks: [blocks, 1, 1], threads, shared: 0 }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.contains(&0)
    }
}

/// Starts a kernel. `parameters` are the addresses of its arguments, in their order.
///
/// # Safety
/// Each address is that of a value with the type of the kernel's parameter, and with these values a grid of this size touches only memory
/// that was allocated on the card.
pub(super) unsafe fn start(
    device: &Device,
    kernel: &'static str,
    grid: LaunchGrid,
    parameters: &mut [*mut c_void],
) -> Result<(), CudaError> {
    let Some(function) = device.kernel(kernel) else {
        return Err(internal(kernel, "no such kernel".into()));
    };
    let narrow = |size: usize| {
        u32::try_from(size).map_err(|_| internal(kernel, format!("{size} is too large for a grid")))
    };
    let [x, y, z] = grid.blocks;
    let blocks = (narrow(x)?, narrow(y)?, narrow(z)?);
    let (threads, shared) = (narrow(grid.threads)?, narrow(grid.shared)?);
    let stream = device.stream.cu_stream();
    // SAFETY: the caller promises what concerns the kernel; function and stream are the device's own, and the driver copies the arguments
    // before it returns.
    let started = unsafe {
        result::launch_kernel(function.cu_function(), blocks, (threads, 1, 1), shared, stream, parameters)
    };
    call(kernel, started)
}

/// An error that can only be a fault of the executor itself.
pub(super) fn internal(kernel: &'static str, reason: String) -> CudaError {
    CudaError::Call { call: kernel, reason }
}
