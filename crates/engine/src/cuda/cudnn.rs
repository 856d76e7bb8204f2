//! Convolutions by cuDNN: descriptors, and the choice of an algorithm.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cudarc::cudnn::{result, sys};
use cudarc::driver::CudaStream;

use super::device::Pointer;
use super::error::{CudaError, call};
use super::geometry::Geometry;

/// An open handle.
pub(crate) struct Cudnn {
    handle: sys::cudnnHandle_t,
}

// SAFETY: a handle may be used from any thread, one at a time; the executor that owns it is borrowed mutably while it runs.
unsafe impl Send for Cudnn {}
// SAFETY: no method uses the handle without the executor's unique borrow.
unsafe impl Sync for Cudnn {}

/// The right to use a handle of cuDNN, which one thread of a process has at a time. Handles of different threads may be used at once, it says,
/// but with sixteen executors of one process it failed or crashed now and then. A call puts work on the card and returns within
/// microseconds, so waiting costs nothing but while another measures.
fn alone() -> MutexGuard<'static, ()> {
    static CALLING: Mutex<()> = Mutex::new(());
    CALLING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is computed from the other two: the output, the data gradient or the sum of weight gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
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
    /// An algorithm that takes every shape and always adds in the same order.
    pub(crate) fn plain(direction: Direction) -> Self {
        match direction {
            Direction::Forward => {
                Self::Forward(sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM)
            }
            Direction::Data => {
                Self::Data(sys::cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)
            }
            Direction::Filter => {
                Self::Filter(sys::cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1)
            }
        }
    }
}

/// The three tensors of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tensors {
    pub(crate) input: Pointer,
    pub(crate) weight: Pointer,
    pub(crate) output: Pointer,
}

/// Shapes of a convolution over a number of items, as cuDNN wants them.
#[derive(Debug)]
pub(crate) struct Descriptors {
    input: sys::cudnnTensorDescriptor_t,
    output: sys::cudnnTensorDescriptor_t,
    weight: sys::cudnnFilterDescriptor_t,
    convolution: sys::cudnnConvolutionDescriptor_t,
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
}

/// Results cuDNN is asked for when it measures its algorithms.
const CANDIDATES: usize = 12;

/// A measured algorithm: itself, milliseconds, bytes of workspace.
pub(crate) type Measured = (Algorithm, f32, usize);

/// The fastest of cuDNN's measurements that adds in a fixed order, fits the workspace and keeps to the precision asked for.
macro_rules! fastest {
    ($variant:ident, $performance:expr, $count:expr, $limit:expr, $rounds:expr) => {
        $performance[..$count.max(0) as usize]
            .iter()
            .filter(|found| {
                found.status == sys::cudnnStatus_t::CUDNN_STATUS_SUCCESS
                    && found.determinism == sys::cudnnDeterminism_t::CUDNN_DETERMINISTIC
                    && found.memory <= $limit
                    && ($rounds || found.mathType == sys::cudnnMathType_t::CUDNN_FMA_MATH)
            })
            .min_by(|a, b| a.time.total_cmp(&b.time))
            .map(|found| (Algorithm::$variant(found.algo), found.time, found.memory))
    };
}

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

    /// Measures the algorithms of a direction. Overwrites what the direction computes.
    pub(crate) fn measure(
        &self,
        direction: Direction,
        descriptors: &Descriptors,
        tensors: Tensors,
        (workspace, limit): (Pointer, usize),
        rounds: bool,
    ) -> Option<Measured> {
        let Descriptors { input, output, weight, convolution } = *descriptors;
        let [x, w, y, workspace] = [tensors.input, tensors.weight, tensors.output, workspace]
            .map(|pointer| pointer.0 as *mut c_void);
        let mut count = 0;
        let _alone = alone();
        let wanted = CANDIDATES as i32;
        // SAFETY: the tensors have the shapes of the descriptors, the workspace has `limit` bytes, and the results have room for
        // as many as are asked for; a zeroed result is a valid one.
        unsafe {
            match direction {
                Direction::Forward => {
                    let mut results = [std::mem::zeroed::<sys::cudnnConvolutionFwdAlgoPerf_t>(); CANDIDATES];
                    let to = results.as_mut_ptr();
                    sys::cudnnFindConvolutionForwardAlgorithmEx(
                        self.handle,
                        input,
                        x,
                        weight,
                        w,
                        convolution,
                        output,
                        y,
                        wanted,
                        &mut count,
                        to,
                        workspace,
                        limit,
                    )
                    .result()
                    .ok()?;
                    fastest!(Forward, results, count, limit, rounds)
                }
                Direction::Data => {
                    let mut results =
                        [std::mem::zeroed::<sys::cudnnConvolutionBwdDataAlgoPerf_t>(); CANDIDATES];
                    let to = results.as_mut_ptr();
                    sys::cudnnFindConvolutionBackwardDataAlgorithmEx(
                        self.handle,
                        weight,
                        w,
                        output,
                        y,
                        convolution,
                        input,
                        x,
                        wanted,
                        &mut count,
                        to,
                        workspace,
                        limit,
                    )
                    .result()
                    .ok()?;
                    fastest!(Data, results, count, limit, rounds)
                }
                Direction::Filter => {
                    let mut results =
                        [std::mem::zeroed::<sys::cudnnConvolutionBwdFilterAlgoPerf_t>(); CANDIDATES];
                    let to = results.as_mut_ptr();
                    sys::cudnnFindConvolutionBackwardFilterAlgorithmEx(
                        self.handle,
                        input,
                        x,
                        output,
                        y,
                        convolution,
                        weight,
                        w,
                        wanted,
                        &mut count,
                        to,
                        workspace,
                        limit,
                    )
                    .result()
                    .ok()?;
                    fastest!(Filter, results, count, limit, rounds)
                }
            }
        }
    }

    /// Bytes of workspace an algorithm needs; `None` where it does not take the shape.
    pub(crate) fn workspace(&self, algorithm: Algorithm, descriptors: &Descriptors) -> Option<usize> {
        let Descriptors { input, output, weight, convolution } = *descriptors;
        let _alone = alone();
        // SAFETY: open handle and descriptors.
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

    /// Runs an algorithm; with `accumulate` the result is added to what is there.
    pub(crate) fn run(
        &self,
        algorithm: Algorithm,
        descriptors: &Descriptors,
        tensors: Tensors,
        (workspace, bytes): (Pointer, usize),
        accumulate: bool,
    ) -> Result<(), CudaError> {
        let Descriptors { input, output, weight, convolution } = *descriptors;
        let [x, w, y, workspace] = [tensors.input, tensors.weight, tensors.output, workspace]
            .map(|pointer| pointer.0 as *mut c_void);
        let (one, keep) = (1.0f32, if accumulate { 1.0f32 } else { 0.0 });
        let _alone = alone();
        let (one, keep) = ((&raw const one).cast::<c_void>(), (&raw const keep).cast::<c_void>());
        // SAFETY: the tensors have the shapes of the descriptors and the workspace the bytes the algorithm asked for; the two
        // factors are read before the call returns.
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
        call("convolution", done.result())
    }
}

impl Drop for Cudnn {
    fn drop(&mut self) {
        let _alone = alone();
        // SAFETY: the handle was opened by `open` and is closed once.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}
