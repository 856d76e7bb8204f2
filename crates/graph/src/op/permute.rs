//! Reordering axes.

use super::GraphOperation;
use crate::graph::Parameter;

/// Reorders the axes: with these `axes`, output axis `i` is input axis `axes[i]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permute(pub Vec<usize>);

impl GraphOperation for Permute {
    fn name(&self) -> &'static str {
        "Permute"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let axes = &self.0;
        let mut sorted = axes.clone();
        sorted.sort_unstable();
        if !sorted.iter().copied().eq(0..inputs[0].len()) {
            return Err(format!("{axes:?} does not reorder the axes of {:?}", inputs[0]));
        }
        Ok(axes.iter().map(|&axis| inputs[0][axis]).collect())
    }
}
