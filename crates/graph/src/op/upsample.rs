//! Resampling of images.

use super::GraphOperation;
use super::shape::spatial;
use crate::graph::Parameter;

/// Bilinear resampling of an image to this height and width, without aligning the corners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upsample(pub [usize; 2]);

impl GraphOperation for Upsample {
    fn name(&self) -> &'static str {
        "Upsample"
    }

    fn shape(&self, inputs: &[&[usize]], _: &[Parameter]) -> Result<Vec<usize>, String> {
        let (channels, spatial) = spatial(inputs[0])?;
        let size = self.0;
        if spatial.len() != 2 || size.contains(&0) {
            return Err(format!("a spatial shape {spatial:?} cannot be resampled to {size:?}"));
        }
        Ok(vec![channels, size[0], size[1]])
    }
}
