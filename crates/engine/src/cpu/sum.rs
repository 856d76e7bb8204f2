//! The running sum of clipped gradients.

use crate::error::EngineError;
use crate::layout::Layout;

/// A sum of clipped gradients: the trainable parameters one after the other, each in the order in which the kernels make it.
/// [`crate::Loaded::gradient`] turns it into a flat gradient in place.
#[derive(Debug, Clone, PartialEq)]
pub struct GradientSum {
    pub(crate) values: Vec<f32>,
}

impl GradientSum {
    /// Zeros in a buffer that is kept if it is large enough.
    pub(crate) fn new(layout: &Layout, mut buffer: Vec<f32>) -> Self {
        buffer.clear();
        buffer.resize(layout.len(), 0.0);
        Self { values: buffer }
    }

    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        if self.values.len() == layout.len() { Ok(()) } else { Err(EngineError::Parameters) }
    }
}
