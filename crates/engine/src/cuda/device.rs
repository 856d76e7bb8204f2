//! One card: its context, its libraries, and copies to and from its memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::cublas::{CudaBlas, sys as blas_sys};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaStream, DriverError, result, sys};

use super::Precision;
use super::cudnn::Cudnn;
use super::error::{CudaError, call};
use super::kernels::{self, DECLARED, KernelProgram, SHARED_LIMIT};
use super::lower::CardSteps;
use super::slice::{DeviceElement, DeviceMemory, DeviceSlice};

/// The version of CUDA that the driver must support at least.
const NEEDED: (i32, i32) = (12, 0);
/// The compute capability of the cards whose tensor cores multiply for groups of warps. Later ones have other instructions.
const GROUPS: (i32, i32) = (9, 0);

/// A card, and everything that is opened once for it.
pub(crate) struct Device {
    kernels: BTreeMap<&'static str, CudaFunction>,
    pub(crate) cudnn: Cudnn,
    pub(super) blas: CudaBlas,
    /// The stream that copies to the card while the other one computes.
    pub(crate) copies: Arc<CudaStream>,
    // The stream and the context come after the libraries' handles, so that these are closed first.
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) precision: Precision,
    /// How many bytes of shared memory a block of a large kernel may ask for.
    pub(crate) shared: usize,
    /// How many multiprocessors there are, if kernels for groups of warps are loaded.
    pub(crate) groups: Option<usize>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Device").field("ordinal", &self.context.ordinal()).finish_non_exhaustive()
    }
}

/// The number of cards of this machine.
///
/// # Errors
/// If there is no driver, or it cannot start.
pub fn device_count() -> Result<usize, CudaError> {
    // SAFETY: only tries to load the library by its usual names.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::Library { library: "the CUDA driver" });
    }
    // This is where a driver that cannot start says why. One of its answers is that there is no device.
    match CudaContext::device_count() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        count => Ok(call("starting the driver", count)?.max(0) as usize),
    }
}

/// What tells each card of this machine from all others, in the order of their numbers.
///
/// # Errors
/// If there is no driver, or it cannot start.
pub fn card_identities() -> Result<Vec<String>, CudaError> {
    let identity = |ordinal: usize| {
        let device = call("choosing the device", result::device::get(ordinal as i32))?;
        let uuid = call("asking for a card's identity", result::device::get_uuid(device))?;
        Ok(uuid.bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    };
    (0..device_count()?).map(identity).collect()
}

impl Device {
    /// Looks for every library and opens a card. Matrix products round their factors as `precision` says.
    pub(crate) fn open(ordinal: usize, precision: Precision) -> Result<Self, CudaError> {
        let count = device_count()?;
        // SAFETY: these only try to load shared libraries by their usual names.
        let present = unsafe {
            [
                ("NVRTC", cudarc::nvrtc::sys::is_culib_present()),
                ("cuBLAS", blas_sys::is_culib_present()),
                ("cuDNN", cudarc::cudnn::sys::is_culib_present()),
            ]
        };
        if let Some((library, _)) = present.into_iter().find(|(_, present)| !present) {
            return Err(CudaError::Library { library });
        }
        if ordinal >= count {
            return Err(CudaError::NoDevice { ordinal, count });
        }
        let mut version = 0;
        // SAFETY: the call writes one integer.
        call("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) }.result())?;
        let found = (version / 1000, version % 1000 / 10);
        if found < NEEDED {
            let ((found_major, found_minor), (needed_major, needed_minor)) = (found, NEEDED);
            return Err(CudaError::Driver { found_major, found_minor, needed_major, needed_minor });
        }
        let context = call("opening the device", CudaContext::new(ordinal))?;
        // SAFETY: all work goes through one stream, and the copies' stream is ordered against it by events in `step`.
        unsafe { context.disable_event_tracking() };
        let (major, minor) = call("compute capability", context.compute_capability())?;
        if major < 8 {
            let device = context.name().unwrap_or_default();
            return Err(CudaError::Capability { device, major, minor });
        }
        let stream = call("making a stream", context.new_stream())?;
        let copies = call("making a stream", context.new_stream())?;
        let blas = call("opening cuBLAS", CudaBlas::new(stream.clone()))?;
        let cudnn = Cudnn::open(&stream)?;
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared = call("asking for shared memory", context.attribute(attribute))?.max(0) as usize;
        let shared = shared.saturating_sub(DECLARED).max(SHARED_LIMIT);
        let kernels = kernels::load(&context, precision, KernelProgram::Common, shared)?;
        Ok(Self { context, stream, copies, blas, cudnn, kernels, precision, shared, groups: None })
    }

    /// Loads kernels that only some graphs need: attention in heads of its sizes, and if it multiplies in bf16, products of groups of warps
    /// where the card has them. In TF32 these have not been held to the laws of clipping on a card.
    pub(crate) fn load_for(&mut self, steps: &CardSteps) -> Result<(), CudaError> {
        for &size in &steps.head_sizes {
            self.load(KernelProgram::Heads(size))?;
        }
        let capability = call("compute capability", self.context.compute_capability())?;
        let bf16 = steps.halved > 0 && self.precision == Precision::Bf16;
        if bf16 && self.groups.is_none() && capability == GROUPS {
            self.load(KernelProgram::Groups)?;
            let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
            let count = call("counting multiprocessors", self.context.attribute(attribute))?;
            self.groups = Some(count.max(1) as usize);
        }
        Ok(())
    }

    fn load(&mut self, program: KernelProgram) -> Result<(), CudaError> {
        self.kernels.extend(kernels::load(&self.context, self.precision, program, self.shared)?);
        Ok(())
    }

    /// Makes this thread use the card.
    pub(crate) fn bind(&self) -> Result<(), CudaError> {
        call("choosing the device", self.context.bind_to_thread())
    }

    /// Waits until everything that was started on the card has run or failed.
    pub(crate) fn settle(&self) {
        let _ = self.copies.synchronize();
        let _ = self.stream.synchronize();
    }

    /// The name of the card.
    pub(crate) fn name(&self) -> String {
        self.context.name().unwrap_or_default()
    }

    /// A kernel by its name.
    pub(super) fn kernel(&self, name: &str) -> Option<&CudaFunction> {
        self.kernels.get(name)
    }

    /// Allocates memory on the card for this many numbers of four bytes, which are not filled yet.
    pub(crate) fn allocate(&self, numbers: usize) -> Result<DeviceMemory, CudaError> {
        let free = self.context.mem_get_info().map_or(0, |(free, _)| free);
        // SAFETY: every pattern of bits is a number, and whoever allocates writes before it reads anything that matters.
        let memory = unsafe { self.stream.alloc::<f32>(numbers.max(1)) }.map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                CudaError::OutOfMemory { wanted_mb: (4 * numbers) >> 20, free_mb: free >> 20 }
            }
            error => CudaError::Call { call: "allocating memory", reason: format!("{error:?}") },
        })?;
        Ok(DeviceMemory::new(memory, numbers, &self.stream))
    }

    /// Fills a slice with zeros.
    pub(crate) fn clear<T: DeviceElement>(&self, target: DeviceSlice<'_, T>) -> Result<(), CudaError> {
        let bytes = target.len() * size_of::<T>();
        // SAFETY: the slice is memory of the card with this many bytes, which outlives what the stream has to do.
        call("clearing memory", unsafe {
            result::memset_d8_async(target.address(), 0, bytes, self.stream.cu_stream())
        })
    }

    /// An event that comes after everything started so far.
    pub(crate) fn event(&self) -> Result<CudaEvent, CudaError> {
        call(
            "recording an event",
            self.stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)),
        )
    }

    /// Copies to the front of a slice. When this returns, the driver has read `source`.
    pub(crate) fn upload<T: DeviceElement>(
        &self,
        source: &[T],
        target: DeviceSlice<'_, T>,
    ) -> Result<(), CudaError> {
        // SAFETY: no source that is given here is page-locked, so the driver has copied it before the call returns.
        unsafe { Self::upload_on(&self.stream, source, target) }
    }

    /// Copies to the front of a slice on a given stream.
    ///
    /// # Safety
    /// If the source is page-locked, it must be neither changed nor freed before the stream has passed the copy.
    pub(crate) unsafe fn upload_on<T: DeviceElement>(
        stream: &CudaStream,
        source: &[T],
        target: DeviceSlice<'_, T>,
    ) -> Result<(), CudaError> {
        if source.is_empty() {
            return Ok(());
        }
        let target = target.first(source.len());
        // SAFETY: the target has room for the source, and the caller keeps the source where the driver reads it later.
        call("copying to the GPU", unsafe {
            result::memcpy_htod_async(target.address(), source, stream.cu_stream())
        })
    }

    /// Copies from the front of a slice, after everything before it has run.
    pub(crate) fn download<T: DeviceElement>(
        &self,
        source: DeviceSlice<'_, T>,
        target: &mut [T],
    ) -> Result<(), CudaError> {
        if target.is_empty() {
            return Ok(());
        }
        let source = source.first(target.len());
        // SAFETY: the source holds as many values as the target, which is borrowed until the stream is through.
        call("copying from the GPU", unsafe {
            result::memcpy_dtoh_async(target, source.address(), self.stream.cu_stream())
        })?;
        call("waiting for the GPU", self.stream.synchronize())
    }
}
