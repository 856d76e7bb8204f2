//! How an executor uses a card.

/// How an executor uses a card. Only `precision` changes a result beyond rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CudaOptions {
    /// Which card.
    pub device: usize,
    /// Samples that run together at the most; zero chooses by the memory they need.
    pub microbatch: usize,
    /// Samples that a batch is planned for, a public number: microbatches are equal parts of so many. Whatever batch comes, each of its
    /// microbatches is that large, the last one filled up, so that how a sample is computed does not tell who else was drawn. Zero
    /// takes what memory allows.
    pub batch: usize,
    /// Who computes convolutions.
    pub convolutions: Convolutions,
    /// How products round their factors.
    pub precision: Precision,
    /// Measures how long each kind of operation takes; see [`super::CudaExecutor::shares`].
    pub measure: bool,
}

/// How products round their factors. Values, parameters, noise and the optimiser are in single precision (or double) always, norms in double
/// precision, and the clipped sum is of whole numbers.
///
/// # Guarantee
/// Clipping bounds what it sums whatever the precision: where a sample's gradient is written down, its norm is that of the very numbers
/// that are added up; where only its norm is made, in double precision, it is raised by what the products of the sum may round by. What
/// tensor cores round by is not documented: that bound is an assumption (`ghost.rs` states it, `docs/gpu.md` what was measured).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// Not beyond single precision: 24 bits, and 21 where a product is split into three.
    #[default]
    F32,
    /// To 11 bits. Faster.
    Tf32,
    /// To 8 bits in our own kernels and in matrix products, to 11 bits where cuDNN runs a convolution.
    Bf16,
}

/// Who computes convolutions where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Convolutions {
    /// For every shape, whoever was measured to be faster.
    #[default]
    Fastest,
    /// The executor's own kernels, and where there are none the plainest of cuDNN's: every process chooses alike.
    Own,
    /// cuDNN.
    Cudnn,
    /// Matrix products wherever they can stand for a convolution, of unfolded images where a window has several positions; else our own
    /// kernels.
    Products,
}
