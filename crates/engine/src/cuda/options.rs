//! The options of an executor on a card.

/// How an executor uses a card. Nothing but `precision` changes a result beyond rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CudaOptions {
    /// The number of the card.
    pub device: usize,
    /// How many samples run together at most; zero chooses by the memory they need.
    pub microbatch: usize,
    /// How many samples a batch is planned for, which is a public number. Microbatches are equal parts of it. Whatever batch comes, each of
    /// its microbatches has that size, and the last one is filled up, so that how a sample is computed does not depend on how many others
    /// were drawn. Zero takes what memory allows.
    pub batch: usize,
    /// What computes convolutions.
    pub convolutions: Convolutions,
    /// How products round their factors.
    pub precision: Precision,
    /// Measures how long each kind of operation takes; see [`super::CudaExecutor::shares`].
    pub measure: bool,
}

/// How products round their factors. Whatever is chosen, parameters, noise and the optimiser are in single or double precision, norms are
/// upper bounds that are added up in double precision, and the clipped sum is of whole numbers. Values are in single precision, except that
/// in `Bf16` operations over tokens hand each other numbers of 16 bits.
///
/// # Guarantee
/// Clipping bounds what is added, whatever the precision. If a sample's gradient is written down, its norm is that of the very numbers that
/// are added. If only its norm is computed, in double precision, the norm is raised by as much as the products of the sum may round. How
/// tensor cores round is not documented, so that bound is an assumption, which `ghost.rs` states; `docs/gpu.md` says what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// No more than single precision does, which is 24 bits, or 21 if a product is split into three.
    #[default]
    F32,
    /// To 11 bits, which is faster.
    Tf32,
    /// To 8 bits in our own kernels and in matrix products, and to 11 bits if cuDNN runs a convolution. What one operation over tokens hands
    /// to the next is rounded to 8 bits, too.
    Bf16,
}

/// What computes convolutions, if there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Convolutions {
    /// Whatever was measured to be fastest, for each shape.
    #[default]
    Fastest,
    /// The executor's own kernels, or the plainest of cuDNN's if there are none, so that every process chooses alike.
    Own,
    /// cuDNN.
    Cudnn,
    /// Matrix products wherever they can take the place of a convolution, with unfolded images if a window has several positions; otherwise
    /// the executor's own kernels.
    Products,
}
