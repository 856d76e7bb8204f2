//! The running sum of clipped gradients.

use crate::error::EngineError;
use crate::layout::Layout;

/// A sum of clipped gradients, in the order in which the kernels make them. [`crate::Loaded::gradient`] turns it into a flat gradient.
#[derive(Debug, Clone, PartialEq)]
pub struct GradientSum {
    pub(crate) parts: Vec<Vec<f32>>,
}

impl GradientSum {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { parts: layout.entries().iter().map(|entry| vec![0.0; entry.range.len()]).collect() }
    }

    /// Back to zero, without giving up the memory.
    pub fn clear(&mut self) {
        self.parts.iter_mut().for_each(|part| part.fill(0.0));
    }

    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        let fits = self.parts.len() == layout.entries().len()
            && self.parts.iter().zip(layout.entries()).all(|(part, entry)| part.len() == entry.range.len());
        if fits { Ok(()) } else { Err(EngineError::Parameters) }
    }
}
