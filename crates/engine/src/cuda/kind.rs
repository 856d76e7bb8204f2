//! What the steps of a program do, with their sizes and where their tables lie.

use dapple_graph::{Affine, ParameterId};

use super::geometry::Geometry;
use super::tile::Tile;

/// A convolution.
#[derive(Debug, Clone)]
pub(crate) struct Conv {
    pub(crate) geometry: Geometry,
    pub(crate) weight: ParameterId,
    pub(crate) bias: Option<ParameterId>,
    pub(crate) standardise: Option<f32>,
    /// Tilings of each sample's weight gradient, of the forward pass and of the data gradient, where they have one. The data
    /// gradient has one for every remainder by the stride.
    pub(crate) gradient_tile: Option<Tiled>,
    pub(crate) forward_tile: Option<Tiled>,
    pub(crate) backward_tiles: Option<Vec<Tiled>>,
    /// The convolution of the positions that are read, where others are passed by.
    pub(crate) read: Option<Geometry>,
    /// The tiling of the sum of all samples' weight gradients, of the positions that are read.
    pub(crate) sum_tile: Option<Tiled>,
    /// Tap and position tables of a weight gradient without a tiling.
    pub(crate) tables: (usize, usize),
    /// Which input position each tap of each output position reads, where that may be asked.
    pub(crate) sources: usize,
    /// The window, and that of the output's own positions.
    pub(crate) windows: (usize, usize),
    /// Where the standardised weights and one over the deviations of their filters lie.
    pub(crate) used: Option<(usize, usize)>,
}

/// A tiling on the card: itself, where its tables lie, and where its weights lie in the order it reads them.
#[derive(Debug, Clone)]
pub(crate) struct Tiled {
    pub(crate) tile: Tile,
    pub(crate) offsets: usize,
    pub(crate) taps: usize,
    pub(crate) arranged: usize,
}

/// A box of values that goes from one tensor to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// Tables for there and back.
    pub(crate) table: usize,
    pub(crate) back: usize,
    /// Values in the box, and whether it is copied four at a time.
    pub(crate) len: usize,
    pub(crate) fours: bool,
    /// First element in the input and in the output.
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// What a step does.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Input,
    Parameter(ParameterId),
    Conv(Box<Conv>),
    Linear {
        weight: ParameterId,
        bias: Option<ParameterId>,
        rows: usize,
        features: usize,
        out: usize,
    },
    /// Group norm, or with `stored` batch norm; with `residual` a second input is added, and a ReLU may follow.
    Group {
        groups: usize,
        size: usize,
        inner: usize,
        eps: f32,
        affine: Option<Affine>,
        stored: Option<(ParameterId, ParameterId)>,
        residual: bool,
        relu: bool,
    },
    Layer {
        features: usize,
        rows: usize,
        eps: f32,
        affine: Option<Affine>,
    },
    Unary {
        code: i32,
        factor: f32,
    },
    MaxPool(usize),
    AveragePool(usize),
    AdaptivePool(usize),
    Upsample(usize),
    Add,
    Multiply,
    /// Drops each run of `together` values as a whole.
    Dropout {
        rate: f32,
        together: usize,
    },
    /// One box per input.
    Move(Vec<Move>),
    Gather {
        table: usize,
        count: usize,
        size: usize,
        rows: usize,
    },
    MatMul {
        batches: usize,
        m: usize,
        k: usize,
        n: usize,
        transpose: bool,
    },
    Softmax {
        features: usize,
        rows: usize,
    },
    Attention {
        heads: usize,
        width: usize,
        queries: usize,
        keys: usize,
    },
}

/// The codes of activations, as the kernels have them.
pub(crate) const RELU: i32 = 0;
pub(super) const GELU: i32 = 1;
pub(super) const SILU: i32 = 2;
pub(super) const TANH: i32 = 3;
pub(super) const SCALE: i32 = 4;
pub(super) const RELU6: i32 = 5;

impl Kind {
    /// Whether the backward pass reads an input; `trains` says whether the weight trains.
    pub(crate) fn reads_input(&self, slot: usize, trains: bool) -> bool {
        match self {
            Self::Conv(_) | Self::Linear { .. } => trains,
            Self::Group { .. } => slot == 0,
            Self::Layer { .. } | Self::Multiply | Self::MatMul { .. } | Self::Attention { .. } => true,
            Self::Unary { code, .. } => [GELU, SILU, TANH, RELU6].contains(code),
            _ => false,
        }
    }

    /// Whether the backward pass reads the output.
    pub(crate) fn reads_output(&self) -> bool {
        matches!(self, Self::Softmax { .. } | Self::Unary { code: RELU, .. }) || self.masks()
    }

    /// Whether the backward pass first takes its own gradient through a ReLU, in the gradient's memory.
    pub(crate) fn masks(&self) -> bool {
        matches!(self, Self::Group { residual: true, relu: true, .. })
    }

    /// Whether an input's gradient is the step's own, once that is masked.
    pub(crate) fn passes_on(&self, slot: usize) -> bool {
        matches!((self, slot), (Self::Add, _) | (Self::Group { residual: true, .. }, 1))
    }

    /// Numbers kept per item from the forward pass for the backward pass.
    pub(crate) fn kept(&self, len: usize) -> usize {
        match self {
            Self::Group { groups, stored: None, .. } => 2 * groups,
            Self::Layer { rows, .. } => 2 * rows,
            Self::MaxPool(_) => len,
            Self::Attention { heads, queries, keys, .. } => heads * queries * keys,
            _ => 0,
        }
    }

    /// Numbers of scratch per item in the backward pass.
    pub(crate) fn scratch(&self) -> usize {
        match self {
            Self::Attention { heads, queries, keys, .. } => heads * queries * keys,
            _ => 0,
        }
    }

    /// The weight, where the step multiplies by one.
    pub(crate) fn weight(&self) -> Option<ParameterId> {
        match self {
            Self::Conv(conv) => Some(conv.weight),
            Self::Linear { weight, .. } => Some(*weight),
            _ => None,
        }
    }
}
