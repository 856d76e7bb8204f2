//! The running sum of clipped gradients.

use rayon::prelude::*;

use crate::error::EngineError;
use crate::layout::Layout;

/// A sum of clipped gradients, in the order in which the kernels make them. [`crate::Loaded::gradient`] turns it into a flat gradient.
#[derive(Debug, Clone)]
pub struct GradientSum {
    /// The trainable parameters one after the other, each in the order in which the kernels make it.
    pub(crate) values: Vec<f32>,
    /// Whether nothing was added yet: the values then stand for zeros, whatever they hold.
    pub(crate) empty: bool,
}

/// Numbers that one thread works on at a time.
pub(crate) const BLOCK: usize = 16 * 1024;

impl GradientSum {
    /// An empty sum in a buffer that is kept if it is large enough.
    pub(crate) fn new(layout: &Layout, mut buffer: Vec<f32>) -> Self {
        buffer.resize(layout.len(), 0.0);
        Self { values: buffer, empty: true }
    }

    /// Makes zeros of an empty sum.
    pub(crate) fn reserve(&mut self) {
        if std::mem::replace(&mut self.empty, false) {
            self.values.par_chunks_mut(BLOCK).for_each(|block| block.fill(0.0));
        }
    }

    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        if self.values.len() == layout.len() { Ok(()) } else { Err(EngineError::Parameters) }
    }
}
