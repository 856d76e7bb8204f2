//! One card: its context, its libraries, and launches of kernels.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublas::{CudaBlas, result as blas, sys as blas_sys};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, DriverError, result, sys};

use super::Precision;
use super::cudnn::Cudnn;
use super::error::{CudaError, call};
use super::kernels::{self, DECLARED, SHARED_LIMIT};

/// CUDA version of the driver interface that is used.
const NEEDED: (i32, i32) = (12, 0);

/// What matrices hold.
const NUMBER: blas_sys::cudaDataType = blas_sys::cudaDataType::CUDA_R_32F;

/// An address on the card, counted in single-precision numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pointer(pub(crate) u64);

impl Pointer {
    /// No address: kernels skip what they would read or write there.
    pub(crate) const NULL: Self = Self(0);

    /// The address `numbers` further on.
    pub(crate) fn at(self, numbers: usize) -> Self {
        Self(self.0 + 4 * numbers as u64)
    }
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument<'a> {
    /// A number, as eight bytes whose front the kernel reads.
    Word(u64),
    /// A structure of integers.
    Block(&'a [i32]),
}

impl<'a> From<&'a Vec<i32>> for Argument<'a> {
    fn from(value: &'a Vec<i32>) -> Self {
        Self::Block(value)
    }
}

impl From<Pointer> for Argument<'_> {
    fn from(value: Pointer) -> Self {
        Self::Word(value.0)
    }
}

impl From<i32> for Argument<'_> {
    fn from(value: i32) -> Self {
        Self::Word(u64::from(value as u32))
    }
}

impl From<bool> for Argument<'_> {
    fn from(value: bool) -> Self {
        Self::Word(u64::from(value))
    }
}

/// Sizes travel as 32 or 64 bits alike: none that a kernel takes as an `int` exceeds 31 bits.
impl From<usize> for Argument<'_> {
    fn from(value: usize) -> Self {
        Self::Word(value as u64)
    }
}

impl From<f32> for Argument<'_> {
    fn from(value: f32) -> Self {
        Self::Word(u64::from(value.to_bits()))
    }
}

impl From<f64> for Argument<'_> {
    fn from(value: f64) -> Self {
        Self::Word(value.to_bits())
    }
}

/// A list of arguments for [`Device::launch`].
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => { &[$($crate::cuda::device::Argument::from($argument)),*] };
}
pub(crate) use arguments;

/// How many blocks of how many threads, with how many bytes of shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) blocks: (u32, u32, u32),
    pub(crate) threads: u32,
    pub(crate) shared: u32,
}

impl Grid {
    /// One thread per value.
    pub(crate) fn each(values: usize) -> Self {
        Self::blocks(values.div_ceil(256), 256)
    }

    /// One thread for four values.
    pub(crate) fn fours(values: usize) -> Self {
        Self::each(values.div_ceil(4))
    }

    /// One warp per value, eight to a block.
    pub(crate) fn warps(values: usize) -> Self {
        Self::blocks(values.div_ceil(8), 256)
    }

    pub(crate) fn blocks(blocks: usize, threads: u32) -> Self {
        Self { blocks: (blocks as u32, 1, 1), threads, shared: 0 }
    }
}

/// A side of a matrix product: where it lies, its leading dimension, its distance between products, whether it is transposed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    pub(crate) data: Pointer,
    pub(crate) leading: usize,
    pub(crate) stride: usize,
    pub(crate) transposed: bool,
}

impl Side {
    pub(crate) fn new(data: Pointer, leading: usize, stride: usize) -> Self {
        Self { data, leading, stride, transposed: false }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { transposed: true, ..self }
    }
}

/// A card and everything that is opened once.
pub(crate) struct Device {
    kernels: BTreeMap<&'static str, CudaFunction>,
    pub(crate) cudnn: Cudnn,
    blas: CudaBlas,
    /// Copies to the card while the other stream computes.
    pub(crate) copies: Arc<CudaStream>,
    // Behind the libraries' handles, which are closed first.
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) precision: Precision,
    /// Bytes of shared memory that a block of a large kernel may ask for.
    pub(crate) shared: usize,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Device").field("ordinal", &self.context.ordinal()).finish_non_exhaustive()
    }
}

/// Number of cards of this machine.
///
/// # Errors
/// If there is no driver, or it cannot start.
pub fn device_count() -> Result<usize, CudaError> {
    // SAFETY: only tries to load the library by its usual names.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::Library { library: "the CUDA driver" });
    }
    // A driver that cannot start says why here; "no device" is one of its answers.
    match CudaContext::device_count() {
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => Ok(0),
        count => Ok(call("starting the driver", count)?.max(0) as usize),
    }
}

impl Device {
    /// Opens a card, after looking for every library. Products that may round do so as `precision` says.
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
        let kernels = kernels::load(&context, precision, shared)?;
        Ok(Self { context, stream, copies, blas, cudnn, kernels, precision, shared })
    }

    /// Makes this thread use the card.
    pub(crate) fn bind(&self) -> Result<(), CudaError> {
        call("choosing the device", self.context.bind_to_thread())
    }

    /// Waits until nothing is at work on the card, or has failed.
    pub(crate) fn settle(&self) {
        let _ = self.copies.synchronize();
        let _ = self.stream.synchronize();
    }

    /// Name of the card.
    pub(crate) fn name(&self) -> String {
        self.context.name().unwrap_or_default()
    }

    /// Starts a kernel. The arguments stand beside the launch in the order of the kernel's parameters.
    pub(crate) fn launch(
        &self,
        kernel: &'static str,
        grid: Grid,
        arguments: &[Argument<'_>],
    ) -> Result<(), CudaError> {
        if grid.blocks.0 == 0 || grid.blocks.1 == 0 || grid.blocks.2 == 0 {
            return Ok(());
        }
        let Some(function) = self.kernels.get(kernel) else {
            return Err(CudaError::Call { call: kernel, reason: "no such kernel".into() });
        };
        let mut list: Vec<*mut c_void> = arguments
            .iter()
            .map(|argument| match argument {
                Argument::Word(word) => std::ptr::from_ref(word).cast_mut().cast(),
                Argument::Block(block) => block.as_ptr().cast_mut().cast(),
            })
            .collect();
        // SAFETY: every argument outlives the launch, which copies it. Addresses come from the memory plan, which gives every value
        // the numbers its shape needs, and kernels check their index against the count they are given.
        let started = unsafe {
            result::launch_kernel(
                function.cu_function(),
                grid.blocks,
                (grid.threads, 1, 1),
                grid.shared,
                self.stream.cu_stream(),
                &mut list,
            )
        };
        call(kernel, started)
    }

    /// `c = scale a b + keep c` in row-major order for `count` products of an `m x k` by a `k x n` matrix, whose factors may be rounded
    /// as the executor's precision allows.
    pub(crate) fn product(
        &self,
        (m, k, n): (usize, usize, usize),
        (a, b): (Side, Side),
        c: Side,
        (scale, keep): (f32, f32),
        count: usize,
    ) -> Result<(), CudaError> {
        let compute = match self.precision {
            Precision::F32 => blas_sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => blas_sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Precision::Bf16 => blas_sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16BF,
        };
        if m * n * count == 0 {
            return Ok(());
        }
        let operation = |side: Side| match side.transposed {
            true => blas_sys::cublasOperation_t::CUBLAS_OP_T,
            false => blas_sys::cublasOperation_t::CUBLAS_OP_N,
        };
        // cuBLAS counts columns first, so it is given c^T = b^T a^T.
        // SAFETY: sizes and strides describe matrices inside of planned buffers; scale and keep are read before the call returns.
        let done = unsafe {
            blas::gemm_strided_batched_ex(
                *self.blas.handle(),
                operation(b),
                operation(a),
                n as i32,
                m as i32,
                k as i32,
                (&raw const scale).cast(),
                b.data.0 as *const c_void,
                NUMBER,
                b.leading as i32,
                b.stride as i64,
                a.data.0 as *const c_void,
                NUMBER,
                a.leading as i32,
                a.stride as i64,
                (&raw const keep).cast(),
                c.data.0 as *mut c_void,
                NUMBER,
                c.leading as i32,
                c.stride as i64,
                count as i32,
                compute,
                blas_sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        call("matrix product", done)
    }

    /// Memory on the card, not yet filled.
    pub(crate) fn allocate(&self, numbers: usize) -> Result<CudaSlice<f32>, CudaError> {
        let free = self.context.mem_get_info().map_or(0, |(free, _)| free);
        // SAFETY: whoever allocates writes before reading: uploads, kernels that write their whole output, or `clear`.
        unsafe { self.stream.alloc::<f32>(numbers.max(1)) }.map_err(|error| match error {
            DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
                CudaError::OutOfMemory { wanted_mb: (4 * numbers) >> 20, free_mb: free >> 20 }
            }
            error => CudaError::Call { call: "allocating memory", reason: format!("{error:?}") },
        })
    }

    pub(crate) fn clear(&self, start: Pointer, numbers: usize) -> Result<(), CudaError> {
        // SAFETY: the range lies inside of an allocation of this device.
        call("clearing memory", unsafe {
            result::memset_d8_async(start.0, 0, 4 * numbers, self.stream.cu_stream())
        })
    }

    /// An event behind everything started so far.
    pub(crate) fn event(&self) -> Result<CudaEvent, CudaError> {
        call(
            "recording an event",
            self.stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)),
        )
    }

    /// Copies to the card. The driver has read `source` when this returns.
    pub(crate) fn upload<T: Copy>(&self, source: &[T], target: Pointer) -> Result<(), CudaError> {
        Self::upload_on(&self.stream, source, target)
    }

    /// Copies to the card on a given stream.
    pub(crate) fn upload_on<T: Copy>(
        stream: &CudaStream,
        source: &[T],
        target: Pointer,
    ) -> Result<(), CudaError> {
        if source.is_empty() {
            return Ok(());
        }
        // SAFETY: the target has room for the source; memory that is not page-locked is staged before the call returns.
        call("copying to the GPU", unsafe { result::memcpy_htod_async(target.0, source, stream.cu_stream()) })
    }

    /// Copies from the card, after everything before it has run.
    pub(crate) fn download<T: Copy>(&self, source: Pointer, target: &mut [T]) -> Result<(), CudaError> {
        if target.is_empty() {
            return Ok(());
        }
        // SAFETY: the source holds as many values as the target, which is not touched until the stream is through.
        call("copying from the GPU", unsafe {
            result::memcpy_dtoh_async(target, source.0, self.stream.cu_stream())
        })?;
        call("waiting for the GPU", self.stream.synchronize())
    }
}

/// Address of an allocation.
pub(crate) fn address(slice: &CudaSlice<f32>, stream: &CudaStream) -> Pointer {
    use cudarc::driver::DevicePtr;
    let (pointer, _guard) = slice.device_ptr(stream);
    Pointer(pointer)
}
