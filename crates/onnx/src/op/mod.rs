//! The operations, each of which writes itself.
//!
//! `dapple-graph` says which operations there are. If one is added there, the compiler tells what is missing here.

mod attention;
mod conv;
mod norm;
mod pooled_attention;
mod pooling;
mod simple;
mod tokens;
mod window;

use dapple_graph::Op;

use crate::file::OnnxFile;
use crate::node::WrittenNode;

/// An operation as a file holds it.
pub(crate) trait OnnxOperation {
    /// Adds the operators that compute the operation, and returns the name of the value that they make.
    fn write(&self, node: &WrittenNode<'_>, file: &mut OnnxFile<'_>) -> String;
}

/// Makes the function that tells how any operation writes itself.
macro_rules! dispatch {
    ($($operation:ident)+) => {
        /// An operation as a file holds it.
        pub(crate) fn of(op: &Op) -> &dyn OnnxOperation {
            match op {
                $(Op::$operation(operation) => operation,)+
            }
        }
    };
}

dapple_graph::for_each_operation!(dispatch);
