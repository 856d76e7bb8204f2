//! Average pooling to a given size.

use super::GraphOperation;
use super::shape::spatial;
use crate::graph::Parameter;

/// Takes the mean of windows that are chosen so that the spatial output has this shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveAvgPool(pub Vec<usize>);

impl GraphOperation for AdaptiveAvgPool {
    fn name(&self) -> &'static str {
        "AdaptiveAvgPool"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let (channels, spatial) = spatial(inputs[0])?;
        let size = &self.0;
        if spatial.len() != size.len() || size.contains(&0) {
            return Err(format!("a spatial shape {spatial:?} cannot be pooled to {size:?}"));
        }
        Ok(std::iter::once(channels).chain(size.iter().copied()).collect())
    }
}
