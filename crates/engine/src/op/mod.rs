//! The operations, with one folder for each, which says what the operation is and how every executor runs it.
//!
//! `dapple-graph` says which operations there are. If one is added there, the compiler tells what is missing here.

mod activation;
mod adaptive_avg_pool;
mod add;
mod attention;
mod avg_pool;
mod batch_norm;
mod channel_scale;
mod concat;
pub(crate) mod conv;
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
mod reshape;
mod slice;
pub(crate) mod softmax;
mod token_conv;
mod transposed_conv;
mod upsample;

use dapple_graph::Op;

use crate::cpu::operation::CpuOperation;
#[cfg(feature = "cuda")]
use crate::cuda::operation::CudaOperation;
use crate::reference::ReferenceOperation;

/// Makes the functions that turn any operation into what each executor runs.
macro_rules! dispatch {
    ($($operation:ident)+) => {
        /// An operation as the oracle runs it.
        pub(crate) fn reference(op: &Op) -> &dyn ReferenceOperation {
            match op {
                $(Op::$operation(operation) => operation,)+
            }
        }

        /// An operation as the card runs it.
        #[cfg(feature = "cuda")]
        pub(crate) fn cuda(op: &Op) -> &dyn CudaOperation {
            match op {
                $(Op::$operation(operation) => operation,)+
            }
        }

        /// An operation as the CPU runs it.
        pub(crate) fn cpu(op: &Op) -> &dyn CpuOperation {
            match op {
                $(Op::$operation(operation) => operation,)+
            }
        }
    };
}

dapple_graph::for_each_operation!(dispatch);
