//! Sums over several cards by NCCL, which is looked for when a group is made.

use std::time::{Duration, Instant};

use cudarc::driver::CudaSlice;
use cudarc::nccl::{result, sys};

use super::device::{Device, address};
use super::error::{self, CudaError};

/// What an error of NCCL's names.
const CALL: &str = "adding over the cards";
/// A sum over the cards takes milliseconds; one that takes this long has lost a card that nobody reported.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a sum that is under way.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// One communicator for each card of a group, all in this process.
#[derive(Debug)]
pub(crate) struct Communicators {
    /// None once a sum has failed.
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
    /// Looks for the library.
    pub(crate) fn check() -> Result<(), CudaError> {
        // SAFETY: only tries to load the library by its usual names.
        match unsafe { sys::is_culib_present() } {
            true => Ok(()),
            false => Err(CudaError::Library { library: "NCCL" }),
        }
    }

    /// Joins cards, of which none may be named twice.
    pub(crate) fn new(devices: &[usize]) -> Result<Self, CudaError> {
        Self::check()?;
        let ordinals: Vec<i32> = devices.iter().map(|&device| device as i32).collect();
        let mut handles = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: both lists have as many entries as the count says.
        let joined =
            unsafe { result::comm_init_all(handles.as_mut_ptr(), devices.len() as i32, ordinals.as_ptr()) };
        call("joining the cards", joined)?;
        Ok(Self { handles })
    }

    /// Replaces every card's numbers by the sum over all cards, which is the same bits on each, and waits for it. Every card must have
    /// finished what it did before.
    ///
    /// A card that is lost in the middle would leave the others waiting for it: so the wait watches all of them, and the first error, or
    /// a wait without end, takes the sum back from every card. The communicators cannot be used after that.
    pub(crate) fn all_reduce(&mut self, places: &[(&Device, &CudaSlice<f32>)]) -> Result<(), CudaError> {
        if self.handles.len() != places.len() {
            return Err(CudaError::Call { call: CALL, reason: "an earlier sum failed".into() });
        }
        let done = self.start(places).and_then(|()| self.wait(places));
        if done.is_err() {
            for handle in self.handles.drain(..) {
                // SAFETY: each was made by `new` and ends here, once. What it says adds nothing to the error that is told.
                let _ = unsafe { result::comm_abort(handle) };
            }
        }
        done
    }

    fn start(&self, places: &[(&Device, &CudaSlice<f32>)]) -> Result<(), CudaError> {
        call(CALL, result::group_start())?;
        let each = places.iter().zip(&self.handles).try_for_each(|((device, values), &handle)| {
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
            call(CALL, started).map(|_| ())
        });
        // A group that was begun must be ended, whatever came of it.
        let ended = call(CALL, result::group_end()).map(|_| ());
        each.and(ended)
    }

    fn wait(&self, places: &[(&Device, &CudaSlice<f32>)]) -> Result<(), CudaError> {
        let began = Instant::now();
        let mut ends = places.iter().map(|(device, _)| device.event()).collect::<Result<Vec<_>, _>>()?;
        loop {
            let mut waiting = Vec::new();
            for end in ends {
                if !error::call(CALL, end.try_is_complete())? {
                    waiting.push(end);
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            for &handle in &self.handles {
                let mut status = sys::ncclResult_t::ncclSuccess;
                // SAFETY: the communicator is alive, and the call writes one status.
                call(CALL, unsafe { sys::ncclCommGetAsyncError(handle, &mut status) }.result())?;
                call(CALL, status.result())?;
            }
            if began.elapsed() > PATIENCE {
                return Err(CudaError::Call { call: CALL, reason: "a card does not answer".into() });
            }
            std::thread::sleep(LOOK_EVERY);
            ends = waiting;
        }
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
