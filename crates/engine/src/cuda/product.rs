//! Matrix products by cuBLAS.

use std::ffi::c_void;

use cudarc::cublas::{result, sys};

use super::Precision;
use super::device::Device;
use super::error::{CudaError, call};
use super::kernels::MatrixAddresses;
use super::slice::{DeviceElement, DeviceSlice, Half};

/// What the error of a failed product calls it.
const CALL: &str = "matrix product";

/// A type of numbers that matrices hold.
pub(crate) trait MatrixNumber: DeviceElement {
    /// The name that cuBLAS gives to the type.
    fn kind(precision: Precision) -> sys::cudaDataType;
    /// How cuBLAS is to multiply factors of this type. All sums are in single precision.
    fn compute(precision: Precision) -> sys::cublasComputeType_t;
}

impl MatrixNumber for f32 {
    fn kind(_precision: Precision) -> sys::cudaDataType {
        sys::cudaDataType::CUDA_R_32F
    }

    fn compute(precision: Precision) -> sys::cublasComputeType_t {
        match precision {
            Precision::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Precision::Bf16 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16BF,
        }
    }
}

impl MatrixNumber for Half {
    fn kind(precision: Precision) -> sys::cudaDataType {
        match precision {
            Precision::Bf16 => sys::cudaDataType::CUDA_R_16BF,
            Precision::F32 | Precision::Tf32 => sys::cudaDataType::CUDA_R_16F,
        }
    }

    fn compute(_precision: Precision) -> sys::cublasComputeType_t {
        sys::cublasComputeType_t::CUBLAS_COMPUTE_32F
    }
}

/// A side of a matrix product: where it lies, the distance between its rows, the distance between products, and whether it is transposed.
#[derive(Clone, Copy)]
pub(crate) struct MatrixSide<'m, T = f32> {
    pub(crate) data: DeviceSlice<'m, T>,
    pub(crate) leading: usize,
    pub(crate) stride: usize,
    pub(crate) transposed: bool,
}

impl<'m, T: MatrixNumber> MatrixSide<'m, T> {
    pub(crate) fn new(data: DeviceSlice<'m, T>, leading: usize, stride: usize) -> Self {
        Self { data, leading, stride, transposed: false }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { transposed: true, ..self }
    }

    /// Whether `count` matrices with this many rows and columns lie in its memory.
    fn holds(&self, count: usize, rows: usize, columns: usize) -> bool {
        let (rows, columns) = if self.transposed { (columns, rows) } else { (rows, columns) };
        let last = |count: usize, stride: usize| count.saturating_sub(1) * stride;
        let len = last(count, self.stride) + last(rows, self.leading) + columns;
        count * rows * columns == 0 || columns <= self.leading && len <= self.data.len()
    }

    fn operation(&self) -> sys::cublasOperation_t {
        match self.transposed {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        }
    }
}

/// A side of products that belong to items, which are `side.stride` apart, and within each item to heads, which are `inner` apart.
#[derive(Clone, Copy)]
pub(crate) struct HeadSide<'m> {
    pub(crate) side: MatrixSide<'m>,
    pub(crate) inner: usize,
}

impl HeadSide<'_> {
    pub(crate) fn transposed(self) -> Self {
        Self { side: self.side.transposed(), ..self }
    }

    /// Whether matrices with this many rows and columns lie in its memory, for all items and heads.
    fn holds(&self, (items, heads): (usize, usize), rows: usize, columns: usize) -> bool {
        let last = heads.saturating_sub(1) * self.inner;
        let of_last_head = |data: DeviceSlice<'_, f32>| {
            MatrixSide { data: data.after(last), ..self.side }.holds(items, rows, columns)
        };
        last <= self.side.data.len() && of_last_head(self.side.data)
    }
}

/// A size as cuBLAS takes it.
fn narrow(size: usize) -> Result<i32, CudaError> {
    let reason = || format!("{size} is too large");
    i32::try_from(size).map_err(|_| CudaError::Call { call: CALL, reason: reason() })
}

impl Device {
    /// Computes `c = scale a b + keep c` in row-major order, for `count` products of an `m x k` by a `k x n` matrix. Factors may be rounded
    /// as the executor's precision allows.
    pub(crate) fn product<F: MatrixNumber, C: MatrixNumber>(
        &self,
        (m, k, n): (usize, usize, usize),
        (a, b): (MatrixSide<'_, F>, MatrixSide<'_, F>),
        c: MatrixSide<'_, C>,
        (scale, keep): (f32, f32),
        count: usize,
    ) -> Result<(), CudaError> {
        if m * n * count == 0 {
            return Ok(());
        }
        if !(a.holds(count, m, k) && b.holds(count, k, n) && c.holds(count, m, n)) {
            let reason = format!("{count} of {m} x {k} by {k} x {n} lie outside of their memory");
            return Err(CudaError::Call { call: CALL, reason });
        }
        // cuBLAS is column-major, so it is given c^T = b^T a^T.
        // SAFETY: the matrices were just checked to lie in slices of the card's memory, which outlive what the stream has to do; scale and
        // keep are read before the call returns.
        let done = unsafe {
            result::gemm_strided_batched_ex(
                *self.blas.handle(),
                b.operation(),
                a.operation(),
                narrow(n)?,
                narrow(m)?,
                narrow(k)?,
                (&raw const scale).cast(),
                b.data.address() as *const c_void,
                F::kind(self.precision),
                narrow(b.leading)?,
                b.stride as i64,
                a.data.address() as *const c_void,
                F::kind(self.precision),
                narrow(a.leading)?,
                a.stride as i64,
                (&raw const keep).cast(),
                c.data.address() as *mut c_void,
                C::kind(self.precision),
                narrow(c.leading)?,
                c.stride as i64,
                narrow(count)?,
                F::compute(self.precision),
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        call(CALL, done)
    }

    /// Does the same as [`Self::product`] for every item and head. `addresses` has room for three addresses of each.
    pub(crate) fn head_products(
        &self,
        (m, k, n): (usize, usize, usize),
        (a, b): (HeadSide<'_>, HeadSide<'_>),
        c: HeadSide<'_>,
        (scale, keep): (f32, f32),
        (items, heads): (usize, usize),
        addresses: DeviceSlice<'_, u64>,
    ) -> Result<(), CudaError> {
        let (counts, count) = ((items, heads), items * heads);
        if m * n * count == 0 {
            return Ok(());
        }
        if !(a.holds(counts, m, k) && b.holds(counts, k, n) && c.holds(counts, m, n)) {
            let reason = format!("{count} of {m} x {k} by {k} x {n} lie outside of their memory");
            return Err(CudaError::Call { call: CALL, reason });
        }
        MatrixAddresses {
            a: a.side.data,
            b: b.side.data,
            c: c.side.data,
            addresses,
            a_outer: a.side.stride,
            a_inner: a.inner,
            b_outer: b.side.stride,
            b_inner: b.inner,
            c_outer: c.side.stride,
            c_inner: c.inner,
            heads,
            n: count,
        }
        .launch(self)?;
        let list = |side: usize| addresses.after(side * count).address();
        // cuBLAS is column-major, so it is given c^T = b^T a^T.
        // SAFETY: the kernel before writes the addresses of matrices that were just checked to lie in slices of the card's memory, which
        // outlive what the stream has to do; scale and keep are read before the call returns.
        let done = unsafe {
            sys::cublasGemmBatchedEx(
                *self.blas.handle(),
                b.side.operation(),
                a.side.operation(),
                narrow(n)?,
                narrow(m)?,
                narrow(k)?,
                (&raw const scale).cast(),
                list(1) as *const *const c_void,
                f32::kind(self.precision),
                narrow(b.side.leading)?,
                list(0) as *const *const c_void,
                f32::kind(self.precision),
                narrow(a.side.leading)?,
                (&raw const keep).cast(),
                list(2) as *const *mut c_void,
                f32::kind(self.precision),
                narrow(c.side.leading)?,
                narrow(count)?,
                f32::compute(self.precision),
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        call(CALL, done.result())
    }
}
