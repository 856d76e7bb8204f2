//! The running sum of clipped gradients.

use pulp::bytemuck;
use rayon::prelude::*;

use crate::clipping::ClippingRule;
use crate::error::EngineError;
use crate::layout::Layout;

/// A sum of clipped gradients, in the order in which the kernels make them. [`crate::Loaded::total`] turns it into a flat gradient.
#[derive(Debug, Clone)]
pub struct GradientSum {
    /// The trainable parameters one after the other, each in the order in which the kernels make it: whole numbers, or without clipping
    /// plain ones.
    memory: Vec<f32>,
    /// What a whole number stands for, or that they are plain; `None` while nothing was added: the memory then stands for zeros, whatever
    /// it holds.
    unit: Option<Option<f64>>,
    samples: usize,
}

/// Numbers that one thread works on at a time.
pub(crate) const BLOCK: usize = 16 * 1024;

impl GradientSum {
    /// An empty sum in a buffer that is kept if it is large enough.
    pub(crate) fn new(layout: &Layout, mut buffer: Vec<f32>) -> Self {
        buffer.resize(layout.len(), 0.0);
        Self { memory: buffer, unit: None, samples: 0 }
    }

    /// Makes ready for so many more samples by a rule.
    pub(crate) fn reserve(&mut self, rule: &ClippingRule, samples: usize) -> Result<(), EngineError> {
        let total = self.samples.saturating_add(samples);
        if total > rule.capacity() || self.unit.is_some_and(|unit| unit != rule.unit()) {
            return Err(EngineError::Sum { capacity: rule.capacity() });
        }
        self.samples = total;
        if self.unit.is_none() {
            self.memory.par_chunks_mut(BLOCK).for_each(|block| block.fill(0.0));
            self.unit = Some(rule.unit());
        }
        Ok(())
    }

    pub(crate) fn check(&self, layout: &Layout) -> Result<(), EngineError> {
        if self.memory.len() == layout.len() { Ok(()) } else { Err(EngineError::Parameters) }
    }

    /// The memory, as whole numbers or as plain ones.
    pub(crate) fn numbers(&mut self) -> Numbers<'_> {
        match self.unit.flatten() {
            Some(_) => Numbers::Whole(bytemuck::cast_slice_mut(&mut self.memory)),
            None => Numbers::Plain(&mut self.memory),
        }
    }

    /// The memory and the unit of whole numbers in it; `None` while it is empty.
    pub(crate) fn into_total(self) -> Result<Total, Vec<f32>> {
        match self.unit {
            Some(unit) => Ok(Total::new(self.memory, unit)),
            None => Err(self.memory),
        }
    }
}

/// The numbers of a sum.
pub(crate) enum Numbers<'a> {
    /// In two's complement.
    Whole(&'a mut [u32]),
    Plain(&'a mut [f32]),
}

/// A number that sums are made of.
pub(crate) trait Summand: Copy + Default + Send + Sync {
    /// Whether gradients of standardised filters came into it less their mean and over the deviation.
    const CLIPPED: bool;
    fn wide(self) -> f64;
    /// The nearest.
    fn narrow(value: f64) -> Self;
}

impl Summand for f32 {
    const CLIPPED: bool = false;

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }
}

impl Summand for u32 {
    const CLIPPED: bool = true;

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self as i32)
    }

    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value.round_ties_even() as i32 as u32
    }
}

/// A finished sum in the order of the layout.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    memory: Vec<f32>,
    unit: Option<f64>,
}

impl Total {
    /// Numbers in the order of a layout: the bits of whole ones and what one stands for, or plain ones.
    pub(crate) fn new(memory: Vec<f32>, unit: Option<f64>) -> Self {
        Self { memory, unit }
    }

    /// Adds another of the same rule. Whole numbers add up without rounding; of plain ones the order counts.
    #[cfg(feature = "cuda")]
    pub(crate) fn add(&mut self, other: &Self) -> Result<(), EngineError> {
        if (self.memory.len(), self.unit) != (other.memory.len(), other.unit) {
            return Err(EngineError::Parameters);
        }
        let whole = self.unit.is_some();
        for (to, from) in self.memory.iter_mut().zip(&other.memory) {
            *to = if whole { f32::from_bits(to.to_bits().wrapping_add(from.to_bits())) } else { *to + *from };
        }
        Ok(())
    }

    /// The numbers: the bits of whole ones, or plain ones.
    #[cfg(feature = "cuda")]
    pub(crate) fn numbers(&self) -> &[f32] {
        &self.memory
    }

    /// A total of zero, whatever the rule: the bits of zero are the same in whole numbers and in plain ones.
    pub(crate) fn zero(mut memory: Vec<f32>) -> Self {
        memory.fill(0.0);
        Self { memory, unit: Some(1.0) }
    }

    /// The bits of whole numbers in memory that can hold plain ones afterwards, and what one stands for; `None` where the total is of plain
    /// numbers.
    pub fn whole_mut(&mut self) -> Option<(&mut [f32], f64)> {
        self.unit.map(|unit| (&mut self.memory[..], unit))
    }

    /// The memory, with whatever was made of the whole numbers in it.
    pub fn into_memory(self) -> Vec<f32> {
        self.memory
    }

    /// The total in single precision, in its own memory.
    pub fn into_gradient(mut self) -> Vec<f32> {
        if let Some(unit) = self.unit {
            self.memory.par_chunks_mut(BLOCK).for_each(|block| {
                for value in block {
                    *value = (f64::from(value.to_bits() as i32) * unit) as f32;
                }
            });
        }
        self.memory
    }
}
