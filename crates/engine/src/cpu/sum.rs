//! The running sum of clipped gradients.

use crate::error::EngineError;
use crate::layout::Layout;

/// A sum of clipped gradients, in the order in which the kernels make them. [`crate::Loaded::gradient`] turns it into a flat gradient.
#[derive(Debug, Clone)]
pub struct GradientSum {
    /// The trainable parameters one after the other.
    pub(crate) values: Vec<f32>,
    /// Parameters that the kernels make in an order of their own; empty until something is added.
    pub(crate) arranged: Vec<f32>,
    /// Whether nothing was added yet: the values then stand for zeros, whatever they hold.
    pub(crate) empty: bool,
}

impl GradientSum {
    /// An empty sum in a buffer that is kept if it is large enough.
    pub(crate) fn new(layout: &Layout, mut buffer: Vec<f32>) -> Self {
        buffer.resize(layout.len(), 0.0);
        Self { values: buffer, arranged: Vec::new(), empty: true }
    }

    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        if self.values.len() == layout.len() { Ok(()) } else { Err(EngineError::Parameters) }
    }
}
