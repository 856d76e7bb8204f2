//! Convolutions by cuDNN: its descriptors, and the choice among its algorithms.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::cudnn::{result, sys};
use cudarc::driver::CudaStream;

use super::error::{CudaError, call};
use super::geometry::Geometry;
use super::slice::DeviceSlice;

/// What the error of a failed convolution calls it.
const CALL: &str = "convolution";

/// An open handle of cuDNN.
pub(crate) struct Cudnn {
    handle: sys::cudnnHandle_t,
}

// SAFETY: a handle may be used from any thread, one at a time; the executor that owns it is borrowed mutably while it runs.
unsafe impl Send for Cudnn {}
// SAFETY: no method uses the handle without the executor's unique borrow.
unsafe impl Sync for Cudnn {}

/// The right to call cuDNN, which one thread of a process has at a time. cuDNN's documentation allows threads to use different handles at
/// once, but with sixteen executors in one process it failed or crashed now and then. A call only puts work on the card and returns within
/// microseconds, so waiting costs next to nothing, except while another executor measures.
fn alone() -> MutexGuard<'static, ()> {
    static CALLING: Mutex<()> = Mutex::new(());
    CALLING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which of the three tensors is computed from the other two: the output, the data gradient or the weight gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConvolutionDirection {
    Forward,
    Data,
    Filter,
}

/// One of cuDNN's algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Forward(sys::cudnnConvolutionFwdAlgo_t),
    Data(sys::cudnnConvolutionBwdDataAlgo_t),
    Filter(sys::cudnnConvolutionBwdFilterAlgo_t),
}

impl Algorithm {
    /// An algorithm that takes any shape and always adds in the same order.
    pub(crate) fn plain(direction: ConvolutionDirection) -> Self {
        match direction {
            ConvolutionDirection::Forward => {
                Self::Forward(sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM)
            }
            ConvolutionDirection::Data => {
                Self::Data(sys::cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)
            }
            ConvolutionDirection::Filter => {
                Self::Filter(sys::cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)
            }
        }
    }
}

/// The three tensors of a convolution.
#[derive(Clone, Copy)]
pub(crate) struct Tensors<'m> {
    pub(crate) input: DeviceSlice<'m, f32>,
    pub(crate) weight: DeviceSlice<'m, f32>,
    pub(crate) output: DeviceSlice<'m, f32>,
}

/// The shapes of a convolution over a number of items, in the form that cuDNN wants.
#[derive(Debug)]
pub(crate) struct Descriptors {
    input: sys::cudnnTensorDescriptor_t,
    output: sys::cudnnTensorDescriptor_t,
    weight: sys::cudnnFilterDescriptor_t,
    convolution: sys::cudnnConvolutionDescriptor_t,
    /// How many numbers each of the three tensors has.
    lens: [usize; 3],
}

// SAFETY: descriptors are plain data behind a pointer; nothing changes them after they are made.
unsafe impl Send for Descriptors {}
// SAFETY: as above.
unsafe impl Sync for Descriptors {}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: each was created by `new` and is destroyed once. A failure would leave a few bytes behind.
        unsafe {
            let _ = result::destroy_tensor_descriptor(self.input);
            let _ = result::destroy_tensor_descriptor(self.output);
            let _ = result::destroy_filter_descriptor(self.weight);
            let _ = result::destroy_convolution_descriptor(self.convolution);
        }
    }
}

impl Descriptors {
    pub(crate) fn new(geometry: &Geometry, items: usize, rounds: bool) -> Result<Self, CudaError> {
        let what = "describing a convolution";
        let made = Self {
            input: call(what, result::create_tensor_descriptor())?,
            output: call(what, result::create_tensor_descriptor())?,
            weight: call(what, result::create_filter_descriptor())?,
            convolution: call(what, result::create_convolution_descriptor())?,
            lens: [
                items * geometry.channels * geometry.positions_in(),
                geometry.weight_len(),
                items * geometry.out * geometry.positions(),
            ],
        };
        let axes = 3 - geometry.rank..3;
        let ints =
            |values: &[usize; 3]| -> Vec<i32> { values[axes.clone()].iter().map(|&v| v as i32).collect() };
        let shape = |first: usize, second: usize, rest: &[usize; 3]| -> Vec<i32> {
            [first as i32, second as i32].into_iter().chain(ints(rest)).collect()
        };
        let strides = |shape: &[i32]| -> Vec<i32> {
            (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect()
        };
        let kind = sys::cudnnDataType_t::CUDNN_DATA_FLOAT;
        let (input, output) =
            (shape(items, geometry.channels, &geometry.input), shape(items, geometry.out, &geometry.output));
        let weight = shape(geometry.out, geometry.channels / geometry.groups, &geometry.kernel);
        let (padding, stride, dilation) =
            (ints(&geometry.padding), ints(&geometry.stride), ints(&geometry.dilation));
        let math = match rounds {
            true => sys::cudnnMathType_t::CUDNN_DEFAULT_MATH,
            false => sys::cudnnMathType_t::CUDNN_FMA_MATH,
        };
        // SAFETY: the descriptors were just made, and every array has as many entries as its count says.
        unsafe {
            for (descriptor, shape) in [(made.input, &input), (made.output, &output)] {
                let strides = strides(shape);
                let rank = shape.len() as i32;
                call(
                    what,
                    result::set_tensornd_descriptor(descriptor, kind, rank, shape.as_ptr(), strides.as_ptr()),
                )?;
            }
            let format = sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW;
            let rank = weight.len() as i32;
            call(what, result::set_filternd_descriptor(made.weight, kind, format, rank, weight.as_ptr()))?;
            let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
            let rank = geometry.rank as i32;
            let (padding, stride, dilation) = (padding.as_ptr(), stride.as_ptr(), dilation.as_ptr());
            call(
                what,
                result::set_convolutionnd_descriptor(
                    made.convolution,
                    rank,
                    padding,
                    stride,
                    dilation,
                    mode,
                    kind,
                ),
            )?;
            call(what, result::set_convolution_group_count(made.convolution, geometry.groups as i32))?;
            call(what, result::set_convolution_math_type(made.convolution, math))?;
        }
        Ok(made)
    }

    /// The addresses of the tensors and of the workspace, if these are as large as they need to be.
    fn addresses(
        &self,
        tensors: Tensors<'_>,
        workspace: DeviceSlice<'_, f32>,
        bytes: usize,
    ) -> Result<Addresses, CudaError> {
        let slices = [tensors.input, tensors.weight, tensors.output];
        let fits = slices.iter().zip(self.lens).all(|(slice, len)| slice.len() >= len);
        if !fits || bytes > 4 * workspace.len() {
            let reason = "a tensor or the workspace is too small".into();
            return Err(CudaError::Call { call: CALL, reason });
        }
        let [x, w, y] = slices;
        Ok([x, w, y, workspace].map(|slice| slice.address() as *mut c_void))
    }
}

/// How many results cuDNN is asked for when it measures its algorithms.
const CANDIDATES: usize = 12;

/// An algorithm, the milliseconds it took, and the bytes of workspace it needs.
pub(crate) type MeasuredAlgorithm = (Algorithm, f32, usize);

/// Measures the algorithms of one direction with cuDNN's function for it, and takes the fastest that adds in a fixed order, fits the
/// workspace and keeps to the precision asked for.
macro_rules! fastest {
    ($find:ident($($argument:expr),*) -> $variant:ident($performance:ty), $workspace:expr, $limit:expr, $rounds:expr) => {{
        let mut count = 0;
        // SAFETY: a zeroed result is a valid one.
        let mut results = [unsafe { std::mem::zeroed::<$performance>() }; CANDIDATES];
        // SAFETY: the handle and the descriptors are open, the tensors and the workspace were checked to lie in slices of the card's memory,
        // and there is room for as many results as are asked for.
        let found = unsafe {
            sys::$find($($argument,)* CANDIDATES as i32, &mut count, results.as_mut_ptr(), $workspace, $limit)
        };
        found.result().ok()?;
        results[..count.max(0) as usize]
            .iter()
            .filter(|found| {
                found.status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS
                    && found.determinism == sys::cudnnDeterminism_t::CUDNN_DETERMINISTIC
                    && found.memory <= $limit
                    && ($rounds || found.mathType == sys::cudnnMathType_t::CUDNN_FMA_MATH)
            })
            .min_by(|a, b| a.time.total_cmp(&b.time))
            .map(|found| (Algorithm::$variant(found.algo), found.time, found.memory))
    }};
}

/// The addresses of the three tensors and of the workspace.
type Addresses = [*mut c_void; 4];

impl Cudnn {
    pub(crate) fn open(stream: &CudaStream) -> Result<Self, CudaError> {
        let found = result::get_version();
        if found < 90_000 {
            return Err(CudaError::Cudnn { found });
        }
        let _alone = alone();
        let handle = call("opening cuDNN", result::create_handle())?;
        // SAFETY: both handles are open; the stream lives as long as the device that holds both.
        call("opening cuDNN", unsafe { result::set_stream(handle, stream.cu_stream().cast()) })?;
        Ok(Self { handle })
    }

    /// Measures the algorithms of a direction, and overwrites what the direction computes.
    pub(crate) fn measure(
        &self,
        direction: ConvolutionDirection,
        descriptors: &Descriptors,
        tensors: Tensors<'_>,
        (workspace, limit): (DeviceSlice<'_, f32>, usize),
        rounds: bool,
    ) -> Option<MeasuredAlgorithm> {
        let Descriptors { input, output, weight, convolution, .. } = *descriptors;
        let [x, w, y, workspace] = descriptors.addresses(tensors, workspace, limit).ok()?;
        let (handle, _alone) = (self.handle, alone());
        match direction {
            ConvolutionDirection::Forward => fastest!(
                cudnnFindConvolutionForwardAlgorithmEx(handle, input, x, weight, w, convolution, output, y)
                    -> Forward(sys::cudnnConvolutionFwdAlgoPerf_t),
                workspace, limit, rounds
            ),
            ConvolutionDirection::Data => fastest!(
                cudnnFindConvolutionBackwardDataAlgorithmEx(handle, weight, w, output, y, convolution, input, x)
                    -> Data(sys::cudnnConvolutionBwdDataAlgoPerf_t),
                workspace, limit, rounds
            ),
            ConvolutionDirection::Filter => fastest!(
                cudnnFindConvolutionBackwardFilterAlgorithmEx(handle, input, x, output, y, convolution, weight, w)
                    -> Filter(sys::cudnnConvolutionBwdFilterAlgoPerf_t),
                workspace, limit, rounds
            ),
        }
    }

    /// How many bytes of workspace an algorithm needs; `None` if it does not take the shape.
    pub(crate) fn workspace(&self, algorithm: Algorithm, descriptors: &Descriptors) -> Option<usize> {
        let Descriptors { input, output, weight, convolution, .. } = *descriptors;
        let _alone = alone();
        // SAFETY: the handle and the descriptors are open, and the call writes one size.
        unsafe {
            match algorithm {
                Algorithm::Forward(algorithm) => result::get_convolution_forward_workspace_size(
                    self.handle,
                    input,
                    weight,
                    convolution,
                    output,
                    algorithm,
                ),
                Algorithm::Data(algorithm) => result::get_convolution_backward_data_workspace_size(
                    self.handle,
                    weight,
                    output,
                    convolution,
                    input,
                    algorithm,
                ),
                Algorithm::Filter(algorithm) => result::get_convolution_backward_filter_workspace_size(
                    self.handle,
                    input,
                    output,
                    convolution,
                    weight,
                    algorithm,
                ),
            }
        }
        .ok()
    }

    /// Runs an algorithm. With `accumulate` the result is added to what is there.
    pub(crate) fn run(
        &self,
        algorithm: Algorithm,
        descriptors: &Descriptors,
        tensors: Tensors<'_>,
        (workspace, bytes): (DeviceSlice<'_, f32>, usize),
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let Descriptors { input, output, weight, convolution, .. } = *descriptors;
        let [x, w, y, workspace] = descriptors.addresses(tensors, workspace, bytes)?;
        let (one, keep) = (1.0f32, if accumulate { 1.0f32 } else { 0.0 });
        let _alone = alone();
        let (one, keep) = ((&raw const one).cast::<c_void>(), (&raw const keep).cast::<c_void>());
        // SAFETY: the tensors were checked to have as many numbers as the descriptors say, and the workspace to have the bytes that the
        // algorithm asked for; handle and descriptors are open, and the two factors are read before the call returns.
        let done = unsafe {
            match algorithm {
                Algorithm::Forward(algorithm) => sys::cudnnConvolutionForward(
                    self.handle,
                    one,
                    input,
                    x,
                    weight,
                    w,
                    convolution,
                    algorithm,
                    workspace,
                    bytes,
                    keep,
                    output,
                    y,
                ),
                Algorithm::Data(algorithm) => sys::cudnnConvolutionBackwardData(
                    self.handle,
                    one,
                    weight,
                    w,
                    output,
                    y,
                    convolution,
                    algorithm,
                    workspace,
                    bytes,
                    keep,
                    input,
                    x,
                ),
                Algorithm::Filter(algorithm) => sys::cudnnConvolutionBackwardFilter(
                    self.handle,
                    one,
                    input,
                    x,
                    output,
                    y,
                    convolution,
                    algorithm,
                    workspace,
                    bytes,
                    keep,
                    weight,
                    w,
                ),
            }
        };
        call(CALL, done.result())
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        let _alone = alone();
        // SAFETY: the handle was opened by `open` and is closed once.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}
