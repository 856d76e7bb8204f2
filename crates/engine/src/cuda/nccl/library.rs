//! NCCL's functions, loaded from the library if it is found. Every version 2 has them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::super::error::CudaError;

/// The name that NCCL itself gives its library, and the one in its development package.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// Codes of `nccl.h`, which are part of its binary interface.
pub(super) const INT_64: c_int = 4;
pub(super) const FLOAT: c_int = 7;
pub(super) const SUM: c_int = 0;
const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;

/// `ncclComm_t`.
pub(super) type Handle = *mut c_void;

/// `ncclUniqueId`, which is passed as a value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub(super) [u8; 128]);

/// The functions that a group uses, with the signatures of `nccl.h`.
#[derive(Debug)]
pub(super) struct Nccl {
    pub(super) get_unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    pub(super) comm_init_rank: unsafe extern "C" fn(*mut Handle, c_int, UniqueId, c_int) -> c_int,
    pub(super) comm_init_all: unsafe extern "C" fn(*mut Handle, c_int, *const c_int) -> c_int,
    pub(super) all_reduce:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Handle, *mut c_void) -> c_int,
    pub(super) group_start: unsafe extern "C" fn() -> c_int,
    pub(super) group_end: unsafe extern "C" fn() -> c_int,
    pub(super) comm_get_async_error: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    pub(super) comm_abort: unsafe extern "C" fn(Handle) -> c_int,
    pub(super) comm_destroy: unsafe extern "C" fn(Handle) -> c_int,
    get_error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    // The library comes last, because the functions are in it.
    _library: libloading::Library,
}

impl Nccl {
    /// The library, which stays loaded for as long as the process lives.
    pub(super) fn get() -> Result<&'static Self, CudaError> {
        static LIBRARY: OnceLock<Option<Nccl>> = OnceLock::new();
        LIBRARY.get_or_init(Self::open).as_ref().ok_or(CudaError::Library { library: "NCCL" })
    }

    fn open() -> Option<Self> {
        // SAFETY: NCCL's initialisers only set up its own tables; the signatures are those of `nccl.h`.
        unsafe {
            let library = NAMES.iter().find_map(|&name| libloading::Library::new(name).ok())?;
            Some(Self {
                get_unique_id: *library.get(c"ncclGetUniqueId").ok()?,
                comm_init_rank: *library.get(c"ncclCommInitRank").ok()?,
                comm_init_all: *library.get(c"ncclCommInitAll").ok()?,
                all_reduce: *library.get(c"ncclAllReduce").ok()?,
                group_start: *library.get(c"ncclGroupStart").ok()?,
                group_end: *library.get(c"ncclGroupEnd").ok()?,
                comm_get_async_error: *library.get(c"ncclCommGetAsyncError").ok()?,
                comm_abort: *library.get(c"ncclCommAbort").ok()?,
                comm_destroy: *library.get(c"ncclCommDestroy").ok()?,
                get_error_string: *library.get(c"ncclGetErrorString").ok()?,
                _library: library,
            })
        }
    }

    /// Turns a code that NCCL returned into an error, unless it means success.
    pub(super) fn checked(&self, call: &'static str, code: c_int) -> Result<(), CudaError> {
        if matches!(code, SUCCESS | IN_PROGRESS) {
            return Ok(());
        }
        // SAFETY: NCCL returns a text that ends with a zero and is never freed, for any code.
        let text = unsafe { CStr::from_ptr((self.get_error_string)(code)) };
        Err(CudaError::Call { call, reason: format!("NCCL: {}", text.to_string_lossy()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_told_where_there_is_a_library() {
        let nccl = match Nccl::get() {
            Ok(nccl) => nccl,
            Err(error) => return assert_eq!(error, CudaError::Library { library: "NCCL" }),
        };
        assert_eq!(nccl.checked("adding", SUCCESS), Ok(()));
        for code in [1, 2, 3, 4, 5, 6, 99] {
            let error = nccl.checked("adding", code).unwrap_err().to_string();
            assert!(error.starts_with("adding: NCCL: ") && !error.contains('\n'), "{error}");
        }
    }
}
