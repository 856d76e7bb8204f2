//! Attention.

use super::GraphOperation;
use crate::graph::Parameter;

/// Multi-head scaled dot-product attention of query, key and value, each `[tokens, features]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// Number of heads; divides the features.
    pub heads: usize,
}

impl GraphOperation for Attention {
    fn name(&self) -> &'static str {
        "Attention"
    }

    fn arity(&self) -> Option<usize> {
        Some(3)
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let heads = self.heads;
        let [query, key, value] = [inputs[0], inputs[1], inputs[2]];
        let fits = query.len() == 2 && key.len() == 2 && key == value && query[1] == key[1];
        if !fits || heads == 0 || query[1] % heads != 0 {
            return Err(format!("query {query:?}, key {key:?}, value {value:?} do not suit {heads} heads"));
        }
        Ok(query.to_vec())
    }
}
