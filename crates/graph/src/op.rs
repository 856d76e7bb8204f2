//! The operations a graph is made of.
//!
//! Shapes are per sample and have no batch axis: `[channels, height, width]` for images, `[channels, depth, height, width]` for
//! clips, `[tokens, features]` for sequences, `[features]` for vectors.

use crate::graph::ParameterId;

/// A sliding window over the spatial axes (two for images, three for clips).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Window size along each spatial axis.
    pub kernel: Vec<usize>,
    /// Step between windows along each spatial axis.
    pub stride: Vec<usize>,
    /// Zeros added on both sides of each spatial axis.
    pub padding: Vec<usize>,
    /// Distance between the taps of a window along each spatial axis.
    pub dilation: Vec<usize>,
}

impl Window {
    /// A window of `size` along `rank` axes, stride one, no padding.
    pub fn new(rank: usize, size: usize) -> Self {
        Self {
            kernel: vec![size; rank],
            stride: vec![1; rank],
            padding: vec![0; rank],
            dilation: vec![1; rank],
        }
    }

    /// A window of `size` by `size` over an image.
    pub fn square(size: usize) -> Self {
        Self::new(2, size)
    }

    /// Sets the stride of every axis.
    #[must_use]
    pub fn stride(mut self, stride: usize) -> Self {
        self.stride.fill(stride);
        self
    }

    /// Sets the padding of every axis.
    #[must_use]
    pub fn padding(mut self, padding: usize) -> Self {
        self.padding.fill(padding);
        self
    }

    /// Sets the dilation of every axis.
    #[must_use]
    pub fn dilation(mut self, dilation: usize) -> Self {
        self.dilation.fill(dilation);
        self
    }

    /// Number of positions in one window.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Spatial shape of the output for a spatial input shape; `None` where the window does not fit.
    pub fn output(&self, spatial: &[usize]) -> Option<Vec<usize>> {
        let rank = spatial.len();
        let same = [&self.kernel, &self.stride, &self.padding, &self.dilation];
        if same.iter().any(|axis| axis.len() != rank) {
            return None;
        }
        (0..rank)
            .map(|axis| {
                let reach =
                    self.dilation[axis].checked_mul(self.kernel[axis].checked_sub(1)?)?.checked_add(1)?;
                let padded = spatial[axis].checked_add(self.padding[axis].checked_mul(2)?)?;
                Some(padded.checked_sub(reach)?.checked_div(self.stride[axis])? + 1)
            })
            .collect()
    }
}

/// Affine parameters of a normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affine {
    /// Scale, one value per channel or feature.
    pub weight: ParameterId,
    /// Shift, one value per channel or feature.
    pub bias: ParameterId,
}

/// One operation. Its inputs are listed by the node that holds it.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// The sample itself.
    Input,
    /// The value of a parameter, for example a class token or a position embedding.
    Parameter(ParameterId),
    /// Convolution (cross-correlation) over two or three spatial axes: `[c, ..] -> [out, ..]`.
    Conv {
        /// The sliding window.
        window: Window,
        /// Number of channel groups; equal to the channels for a depthwise convolution.
        groups: usize,
        /// `[out, c / groups, kernel..]`.
        weight: ParameterId,
        /// `[out]`.
        bias: Option<ParameterId>,
        /// Weight standardisation: every output filter is shifted to mean zero and divided by its standard deviation,
        /// `(w - mean) / sqrt(var + eps)`, before it is used. The value is eps.
        standardise: Option<f32>,
    },
    /// `y = x W^T + b` along the last axis: `[.., in] -> [.., out]`.
    Linear {
        /// `[out, in]`.
        weight: ParameterId,
        /// `[out]`.
        bias: Option<ParameterId>,
    },
    /// Group normalisation over channel groups and all positions.
    GroupNorm {
        /// Number of groups.
        groups: usize,
        /// Added to the variance.
        eps: f32,
        /// Scale and shift per channel.
        affine: Option<Affine>,
    },
    /// Layer normalisation over the last axis.
    LayerNorm {
        /// Added to the variance.
        eps: f32,
        /// Scale and shift per feature.
        affine: Option<Affine>,
    },
    /// Batch normalisation. With `training` it takes its statistics from the batch, which mixes examples: the validator
    /// refuses it. Without, it applies the stored statistics.
    BatchNorm {
        /// Added to the variance.
        eps: f32,
        /// Whether the statistics come from the batch.
        training: bool,
        /// Scale and shift per channel.
        affine: Affine,
        /// Stored mean per channel.
        mean: ParameterId,
        /// Stored variance per channel.
        variance: ParameterId,
    },
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x Phi(x)` with the normal distribution function.
    Gelu,
    /// `x sigmoid(x)`.
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// Largest value of each window.
    MaxPool(Window),
    /// Mean of each window; padding counts as zeros.
    AvgPool(Window),
    /// Mean over windows chosen so that the spatial output has this shape.
    AdaptiveAvgPool(Vec<usize>),
    /// Bilinear resampling of an image to this height and width (corners not aligned).
    Upsample([usize; 2]),
    /// Elementwise sum of two equal shapes.
    Add,
    /// Elementwise product of two equal shapes.
    Mul,
    /// Joins its inputs along an axis.
    Concat {
        /// The axis.
        axis: usize,
    },
    /// Elements `start..end` of an axis.
    Slice {
        /// The axis.
        axis: usize,
        /// First index.
        start: usize,
        /// One past the last index.
        end: usize,
    },
    /// Reorders the axes: output axis `i` is input axis `axes[i]`.
    Permute(Vec<usize>),
    /// The same elements, in row-major order, under another shape.
    Reshape(Vec<usize>),
    /// `[.., m, k] x [.., k, n] -> [.., m, n]`; with `transpose`, the right side is `[.., n, k]`.
    MatMul {
        /// Whether the right side is transposed.
        transpose: bool,
    },
    /// Softmax along the last axis.
    Softmax,
    /// Multi-head scaled dot-product attention of query, key and value, each `[tokens, features]`.
    Attention {
        /// Number of heads; divides the features.
        heads: usize,
    },
    /// Rows (entries of the first axis) at these indices, in this order.
    Gather(Vec<usize>),
    /// Multiplies by a constant.
    Scale(f32),
    /// While training, zeroes each value with this probability and scales the rest up.
    Dropout(f32),
    /// While training, zeroes each channel as a whole with this probability and scales the rest up.
    ChannelDropout(f32),
}

impl Op {
    /// The name of the operation.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Input => "Input",
            Self::Parameter(_) => "Parameter",
            Self::Conv { window, .. } => match window.kernel.len() {
                3 => "Conv3d",
                _ => "Conv2d",
            },
            Self::Linear { .. } => "Linear",
            Self::GroupNorm { .. } => "GroupNorm",
            Self::LayerNorm { .. } => "LayerNorm",
            Self::BatchNorm { training: true, .. } => "BatchNorm",
            Self::BatchNorm { training: false, .. } => "FrozenBatchNorm",
            Self::Relu => "ReLU",
            Self::Relu6 => "ReLU6",
            Self::Gelu => "GELU",
            Self::Silu => "SiLU",
            Self::Tanh => "Tanh",
            Self::MaxPool(_) => "MaxPool",
            Self::AvgPool(_) => "AvgPool",
            Self::AdaptiveAvgPool(_) => "AdaptiveAvgPool",
            Self::Upsample(_) => "Upsample",
            Self::Add => "Add",
            Self::Mul => "Mul",
            Self::Concat { .. } => "Concat",
            Self::Slice { .. } => "Slice",
            Self::Permute(_) => "Permute",
            Self::Reshape(_) => "Reshape",
            Self::MatMul { .. } => "MatMul",
            Self::Softmax => "Softmax",
            Self::Attention { .. } => "Attention",
            Self::Gather(_) => "Gather",
            Self::Scale(_) => "Scale",
            Self::Dropout(_) => "Dropout",
            Self::ChannelDropout(_) => "ChannelDropout",
        }
    }

    /// The parameters the operation reads, in a fixed order.
    pub fn parameters(&self) -> Vec<ParameterId> {
        let affine = |affine: &Option<Affine>| affine.map_or(Vec::new(), |a| vec![a.weight, a.bias]);
        match self {
            Self::Parameter(id) => vec![*id],
            Self::Conv { weight, bias, .. } | Self::Linear { weight, bias } => {
                std::iter::once(*weight).chain(*bias).collect()
            }
            Self::GroupNorm { affine: a, .. } | Self::LayerNorm { affine: a, .. } => affine(a),
            Self::BatchNorm { affine: a, mean, variance, .. } => vec![a.weight, a.bias, *mean, *variance],
            _ => Vec::new(),
        }
    }
}

/// How the output of a graph is compared with a target; always the mean over what one sample holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Cross-entropy of the logits with a class or with class probabilities. Logits are `[classes]`, or `[classes, ..]` with a class
    /// per position; positions that hold [`IGNORED`] do not count.
    CrossEntropy {
        /// Share of the target's mass that is spread evenly over all classes.
        label_smoothing: f32,
    },
    /// Mean squared error.
    SquaredError,
}

/// The class that marks a position without a label.
pub const IGNORED: u32 = u32::MAX;
