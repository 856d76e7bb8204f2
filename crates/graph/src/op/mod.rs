//! The operations a graph is made of, one module each.
//!
//! Shapes are per sample and have no batch axis: `[channels, height, width]` for images, `[channels, depth, height, width]` for
//! clips, `[tokens, features]` for sequences, `[features]` for vectors.
//!
//! An operation is a type that implements [`GraphOperation`] and stands in the list at the end of this file. [`Op`] is made from that list,
//! and other crates get it as [`for_each_operation!`](crate::for_each_operation), so that whoever runs graphs cannot forget an operation.

mod activation;
mod adaptive_avg_pool;
mod add;
mod affine;
mod attention;
mod avg_pool;
mod batch_norm;
mod channel_scale;
mod concat;
mod conv;
mod dropout;
mod gather;
mod group_norm;
mod input;
mod layer_norm;
mod linear;
mod mat_mul;
mod max_pool;
mod mul;
mod parameter_value;
mod permute;
mod pooled_attention;
mod relative_table;
mod reshape;
pub(crate) mod shape;
mod slice;
mod softmax;
mod token_conv;
mod transposed_conv;
mod upsample;
mod window;

pub use activation::Activation;
pub use adaptive_avg_pool::AdaptiveAvgPool;
pub use add::Add;
pub use affine::Affine;
pub use attention::Attention;
pub use avg_pool::AvgPool;
pub use batch_norm::BatchNorm;
pub use channel_scale::ChannelScale;
pub use concat::Concat;
pub use conv::Conv;
pub use dropout::Dropout;
pub use gather::Gather;
pub use group_norm::GroupNorm;
pub use input::Input;
pub use layer_norm::{LayerNorm, NormAxes};
pub use linear::Linear;
pub use mat_mul::MatMul;
pub use max_pool::MaxPool;
pub use mul::Mul;
pub use parameter_value::ParameterValue;
pub use permute::Permute;
pub use pooled_attention::PooledAttention;
pub use relative_table::{RelativeRow, RelativeTable};
pub use reshape::Reshape;
pub use slice::Slice;
pub use softmax::Softmax;
pub use token_conv::TokenConv;
pub use transposed_conv::TransposedConv;
pub use upsample::Upsample;
pub use window::Window;

use crate::graph::{Parameter, ParameterId};

/// What a graph asks of an operation.
pub trait GraphOperation {
    /// The name by which people know the operation.
    fn name(&self) -> &'static str;

    /// The parameters it reads, in a fixed order.
    fn parameters(&self) -> Vec<ParameterId> {
        Vec::new()
    }

    /// The number of inputs it takes; `None` if it takes any number, but at least one.
    fn arity(&self) -> Option<usize> {
        Some(1)
    }

    /// The shape of the output for inputs of these shapes. There are as many inputs as the operation takes, and none is empty. `parameters`
    /// are all of the graph's, among which the operation finds its own.
    ///
    /// # Errors
    /// What does not fit, if the operation cannot take these inputs or its parameters do not suit them.
    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String>;

    /// Whether one example could influence the result for another. A graph with such an operation is refused.
    fn mixes_examples(&self) -> bool {
        false
    }
}

impl Op {
    /// The name of the operation.
    pub fn name(&self) -> &'static str {
        self.operation().name()
    }

    /// The parameters the operation reads, in a fixed order.
    pub fn parameters(&self) -> Vec<ParameterId> {
        self.operation().parameters()
    }

    /// The shape of the output, or what does not fit.
    pub(crate) fn infer(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String> {
        let arity = self.operation().arity().unwrap_or(inputs.len().max(1));
        if inputs.len() != arity {
            return Err(format!("takes {arity} inputs and was given {}", inputs.len()));
        }
        if inputs.iter().any(|shape| shape.contains(&0)) {
            return Err(format!("an input of shape {inputs:?} holds no values"));
        }
        self.operation().shape(inputs, parameters)
    }
}

/// Makes the enum of all operations from their list. The first argument is a dollar sign, because the macro that this one defines needs
/// one and cannot get it otherwise.
macro_rules! operations {
    ($dollar:tt $($operation:ident)+) => {
        /// One operation. Its inputs are listed by the node that holds it.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Op {
            $(#[doc = concat!("See [`", stringify!($operation), "`].")] $operation($operation),)+
        }

        impl Op {
            /// The operation as a graph sees it.
            pub fn operation(&self) -> &dyn GraphOperation {
                match self {
                    $(Self::$operation(operation) => operation,)+
                }
            }
        }

        $(impl From<$operation> for Op {
            fn from(operation: $operation) -> Self {
                Self::$operation(operation)
            }
        })+

        /// Calls a macro with the names of all operations, which name both the types in [`op`](crate::op) and the variants of
        /// [`Op`](crate::Op).
        ///
        /// If an executor matches on operations by such a macro, the compiler tells what it still lacks for a new one.
        #[macro_export]
        macro_rules! for_each_operation {
            ($dollar callback:ident) => {
                $dollar callback! { $($operation)+ }
            };
        }
    };
}

operations! { $
    Input
    ParameterValue
    Conv
    TransposedConv
    Linear
    GroupNorm
    LayerNorm
    BatchNorm
    ChannelScale
    Activation
    MaxPool
    AvgPool
    AdaptiveAvgPool
    Upsample
    Add
    Mul
    Concat
    Slice
    Permute
    Reshape
    Gather
    MatMul
    Softmax
    Attention
    TokenConv
    PooledAttention
    Dropout
}
