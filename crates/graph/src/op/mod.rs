//! The operations a graph is made of, one module each.
//!
//! Shapes are per sample and have no batch axis: `[channels, height, width]` for images, `[channels, depth, height, width]` for
//! clips, `[tokens, features]` for sequences, `[features]` for vectors.
//!
//! An operation is a type that implements [`GraphOperation`] and stands in the list at the end of this file; the list makes [`Op`], and hands
//! itself on to other crates as [`for_each_operation!`](crate::for_each_operation), so that whoever runs graphs cannot forget one.

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
mod reshape;
pub(crate) mod shape;
mod slice;
mod softmax;
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
pub use reshape::Reshape;
pub use slice::Slice;
pub use softmax::Softmax;
pub use transposed_conv::TransposedConv;
pub use upsample::Upsample;
pub use window::Window;

use crate::graph::{Parameter, ParameterId};

/// What a graph asks of an operation.
pub trait GraphOperation {
    /// Its name, as people know it.
    fn name(&self) -> &'static str;

    /// The parameters it reads, in a fixed order.
    fn parameters(&self) -> Vec<ParameterId> {
        Vec::new()
    }

    /// Inputs it takes; `None` if it takes any number, but at least one.
    fn arity(&self) -> Option<usize> {
        Some(1)
    }

    /// Shape of what it makes of inputs of these shapes, as many as it takes and none of them empty; or what does not fit.
    ///
    /// # Errors
    /// If it cannot take these inputs, or its parameters, which it finds among all of the graph's, do not suit them.
    fn shape(&self, inputs: &[&[usize]], parameters: &[Parameter]) -> Result<Vec<usize>, String>;

    /// Whether one example could influence the result for another: such a graph is refused.
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

    /// Shape of the output, or what does not fit.
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

/// Makes the enum of all operations from their list. The first argument is a dollar sign, for the macro that this one writes.
macro_rules! operations {
    ($dollar:tt $($operation:ident)+) => {
        /// One operation. Its inputs are listed by the node that holds it.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Op {
            $(#[doc = concat!("See [`", stringify!($operation), "`].")] $operation($operation),)+
        }

        impl Op {
            /// What a graph asks of it.
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

        /// Calls a macro with the names of all operations: types of [`op`](crate::op) and variants of [`Op`](crate::Op) alike.
        ///
        /// Whoever matches on operations by such a macro is told by the compiler what a new operation still lacks.
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
    Dropout
}
