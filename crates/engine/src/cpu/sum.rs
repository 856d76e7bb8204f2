//! The running sum of clipped gradients.

use crate::error::EngineError;
use crate::layout::Layout;

/// A sum of clipped gradients, in the order in which the kernels make them. [`crate::Loaded::gradient`] turns it into a flat gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct GradientSum {
    /// The trainable parameters one after the other.
    pub(crate) values: Vec<f32>,
    /// Parameters that the kernels make in an order of their own; empty until something is added.
    pub(crate) arranged: Vec<f32>,
}

impl GradientSum {
    /// Zeros in a buffer that is kept if it is large enough.
    pub(crate) fn new(layout: &Layout, mut buffer: Vec<f32>) -> Self {
        buffer.clear();
        buffer.resize(layout.len(), 0.0);
        Self { values: buffer, arranged: Vec::new() }
    }

    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        if self.values.len() == layout.len() { Ok(()) } else { Err(EngineError::Parameters) }
    }
}
