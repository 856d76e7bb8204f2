//! Sums over several cards by NCCL, which is looked for when a group is made.

use cudarc::driver::CudaSlice;
use cudarc::nccl::{result, sys};

use super::device::{Device, address};
use super::error::CudaError;

/// One communicator for each card of a group, all in this process.
#[derive(Debug)]
pub(crate) struct Communicators {
    handles: Vec<sys::ncclComm_t>,
}

// SAFETY: a communicator may be used from any thread, one at a time; the group that owns it is borrowed mutably while it is.
unsafe impl Send for Communicators {}
// SAFETY: no method uses a handle without the group's unique borrow.
unsafe impl Sync for Communicators {}

fn call<T>(call: &'static str, result: Result<T, result::NcclError>) -> Result<T, CudaError> {
    result.map_err(|error| CudaError::Call { call, reason: format!("{:?}", error.0) })
}

impl Communicators {
    pub(crate) fn new(devices: &[usize]) -> Result<Self, CudaError> {
        // SAFETY: only tries to load the library by its usual names.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::Library { library: "NCCL" });
        }
        let ordinals: Vec<i32> = devices.iter().map(|&device| device as i32).collect();
        let mut handles = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: both lists have as many entries as the count says.
        let joined =
            unsafe { result::comm_init_all(handles.as_mut_ptr(), devices.len() as i32, ordinals.as_ptr()) };
        call("joining the cards", joined)?;
        Ok(Self { handles })
    }

    /// Replaces every card's numbers by the sum over all cards, which is the same bits on each.
    pub(crate) fn add_up<'s>(
        &mut self,
        places: impl Iterator<Item = (&'s Device, &'s CudaSlice<f32>)>,
    ) -> Result<(), CudaError> {
        call("adding over the cards", result::group_start())?;
        let each = places.zip(&self.handles).try_for_each(|((device, values), &handle)| {
            let start = address(values, &device.stream).0;
            // SAFETY: the sums have the same length on every card; streams and communicators are those of the cards.
            let started = unsafe {
                result::all_reduce(
                    start as *const _,
                    start as *mut _,
                    values.len(),
                    sys::ncclDataType_t::ncclFloat32,
                    sys::ncclRedOp_t::ncclSum,
                    handle,
                    device.stream.cu_stream().cast(),
                )
            };
            call("adding over the cards", started).map(|_| ())
        });
        call("adding over the cards", result::group_end())?;
        each
    }
}

impl Drop for Communicators {
    fn drop(&mut self) {
        for &handle in &self.handles {
            // SAFETY: each was made by `new` and is destroyed once. A failure would leave a little memory behind.
            let _ = unsafe { result::comm_destroy(handle) };
        }
    }
}
