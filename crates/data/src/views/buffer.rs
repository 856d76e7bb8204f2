//! Memory that a thread uses again. Fresh memory of an image's size costs more than filling it, because the system hands it out page by
//! page.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// How many buffers a thread keeps for later.
const KEPT: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Numbers that are zero, or a copy of others, at first: nothing of an earlier image is left in them.
#[derive(Debug)]
pub(super) struct Buffer(Vec<f32>);

impl Buffer {
    pub(super) fn zeros(length: usize) -> Self {
        let mut values = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        values.clear();
        values.resize(length, 0.0);
        Self(values)
    }

    /// The same numbers again.
    pub(super) fn copy_of(numbers: &[f32]) -> Self {
        let mut values = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        values.clear();
        values.extend_from_slice(numbers);
        Self(values)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.0);
        // A thread that ends may have lost its spare buffers already; then this one is simply freed.
        let _ = SPARE.try_with(|spare| {
            if let Ok(mut spare) = spare.try_borrow_mut()
                && spare.len() < KEPT
            {
                spare.push(values);
            }
        });
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}
