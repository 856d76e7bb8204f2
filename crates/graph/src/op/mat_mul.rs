//! Matrix products of two values.

use super::GraphOperation;
use crate::graph::Parameter;

/// A matrix product, `[.., m, k] x [.., k, n] -> [.., m, n]`. With `transpose`, the right side is `[.., n, k]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatMul {
    /// Whether the right side is transposed.
    pub transpose: bool,
}

impl GraphOperation for MatMul {
    fn name(&self) -> &'static str {
        "MatMul"
    }

    fn arity(&self) -> Option<usize> {
        Some(2)
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let (left, right) = (inputs[0], inputs[1]);
        let refuse = || {
            let transposed = if self.transpose { " transposed" } else { "" };
            format!("{left:?} cannot be multiplied by {right:?}{transposed}")
        };
        let rank = left.len();
        if rank < 2 || right.len() != rank || left[..rank - 2] != right[..rank - 2] {
            return Err(refuse());
        }
        let (inner, columns) = match self.transpose {
            true => (right[rank - 1], right[rank - 2]),
            false => (right[rank - 2], right[rank - 1]),
        };
        if left[rank - 1] != inner {
            return Err(refuse());
        }
        let mut shape = left.to_vec();
        shape[rank - 1] = columns;
        Ok(shape)
    }
}
