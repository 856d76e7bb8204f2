//! Page-locked host memory. Copies from and to it run at the full speed of the bus, while everything else goes on.

use std::ffi::c_void;

use cudarc::driver::result;
use rayon::prelude::*;

use super::device::Device;
use super::error::{CudaError, call};
use super::slice::DeviceSlice;

/// How many numbers one thread copies at a time.
const CHUNK: usize = 1 << 16;
/// How many numbers are sent as one part, which travels while the next part is still copied into the buffer.
const PART: usize = 1 << 21;

/// A buffer of page-locked numbers that grows as needed.
#[derive(Debug)]
pub(crate) struct Staging {
    start: *mut f32,
    len: usize,
}

// SAFETY: the buffer is plain memory with one owner.
unsafe impl Send for Staging {}
// SAFETY: it is only reached through a unique borrow.
unsafe impl Sync for Staging {}

impl Default for Staging {
    fn default() -> Self {
        Self { start: std::ptr::null_mut(), len: 0 }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.release();
    }
}

impl Staging {
    fn release(&mut self) {
        if !self.start.is_null() {
            // SAFETY: `start` came from `malloc_host` and is freed once; copies that use it were waited for.
            let _ = unsafe { result::free_host(self.start.cast::<c_void>()) };
            (self.start, self.len) = (std::ptr::null_mut(), 0);
        }
    }

    /// The first `len` numbers. No copy may be under way.
    fn numbers(&mut self, len: usize) -> Result<&mut [f32], CudaError> {
        if len > self.len {
            self.release();
            // SAFETY: asks for plain host memory.
            let start = call("allocating page-locked memory", unsafe { result::malloc_host(4 * len, 0) })?;
            let start = start.cast::<f32>();
            // SAFETY: the allocation holds `len` numbers; zeros are valid ones.
            unsafe { start.write_bytes(0, len) };
            (self.start, self.len) = (start, len);
        }
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: the allocation holds at least `len` initialised numbers, and the borrow is unique.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start, len) })
    }

    /// Starts a copy to the front of a slice.
    ///
    /// # Safety
    /// No earlier copy from this buffer is still under way, and the buffer is neither used again nor dropped before this copy is through.
    pub(crate) unsafe fn send<T: Word>(
        &mut self,
        stream: &cudarc::driver::CudaStream,
        source: &[T],
        target: DeviceSlice<'_, f32>,
    ) -> Result<(), CudaError> {
        let numbers = self.numbers(source.len())?;
        for (index, (from, to)) in source.chunks(PART).zip(numbers.chunks_mut(PART)).enumerate() {
            copy(from, to, T::bits);
            // SAFETY: the caller does not use this buffer again before the copy is through.
            unsafe { Device::upload_on(stream, to, target.after(index * PART))? };
        }
        Ok(())
    }

    /// Copies from the front of a slice, after everything before it has run.
    pub(crate) fn fetch(
        &mut self,
        device: &Device,
        source: DeviceSlice<'_, f32>,
        target: &mut [f32],
    ) -> Result<(), CudaError> {
        // A copy from this buffer may still be under way.
        device.settle();
        let numbers = self.numbers(target.len())?;
        device.download(source, numbers)?;
        copy(numbers, target, |number| *number);
        Ok(())
    }
}

/// A type of four bytes, which can lie where a number does.
pub(crate) trait Word: Copy + Sync {
    /// The same bits, taken for a number.
    fn bits(&self) -> f32;
}

impl Word for f32 {
    fn bits(&self) -> f32 {
        *self
    }
}

impl Word for u32 {
    fn bits(&self) -> f32 {
        f32::from_bits(*self)
    }
}

/// Copies with all threads, because one alone would be slower than the bus.
fn copy<T: Sync>(source: &[T], target: &mut [f32], bits: impl Fn(&T) -> f32 + Sync) {
    target.par_chunks_mut(CHUNK).zip(source.par_chunks(CHUNK)).for_each(|(to, from)| {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = bits(from));
    });
}
