//! The running sum of clipped gradients on a card.

use super::CudaExecutor;
use super::device::Device;
use super::error::CudaError;
use super::kernels::Carry;
use super::slice::{DeviceMemory, DeviceSlice};
use crate::clipping::{ClippingRule, HELD};
use crate::cpu::Total;
use crate::error::EngineError;

/// A sum of clipped gradients on the card, in the order of the executor's layout.
#[derive(Debug)]
pub struct CudaGradientSum {
    /// Whole numbers of 32 bits, or without clipping plain ones.
    values: DeviceMemory,
    /// What was carried over of whole numbers, in 64 bits each, which the others come on top of; nothing where they are plain.
    carried: Option<DeviceMemory>,
    /// Host memory that the gradient will come back in.
    pub(super) buffer: Vec<f32>,
    pub(super) len: usize,
    /// What a whole number stands for, or that they are plain; `None` while nothing was added: all are zero then.
    unit: Option<Option<f64>>,
    pub(super) samples: usize,
    /// Samples that were not carried over.
    held: usize,
    /// Whether it is the gradient of the parameters themselves rather than of standardised weights; then nothing is added any more.
    pub(super) finished: bool,
}

impl CudaGradientSum {
    /// Makes ready for so many more samples by a rule.
    pub(super) fn reserve(
        &mut self,
        device: &Device,
        rule: &ClippingRule,
        samples: usize,
    ) -> Result<(), CudaError> {
        let total = self.samples.saturating_add(samples);
        if total > rule.capacity() || self.unit.is_some_and(|unit| unit != rule.unit()) {
            return Err(EngineError::Sum { capacity: rule.capacity() }.into());
        }
        if rule.unit().is_some() && self.carried.is_none() {
            let carried = device.allocate(2 * self.len)?;
            device.clear(carried.slice::<i64>())?;
            self.carried = Some(carried);
        }
        self.samples = total;
        self.unit = Some(rule.unit());
        Ok(())
    }

    /// What a whole number stands for; `None` where they are plain.
    pub(super) fn unit(&self) -> Option<f64> {
        self.unit.flatten()
    }

    /// So many more samples, no more than [`HELD`], are about to join the numbers that come back.
    ///
    /// # Guarantee
    /// With no more than [`HELD`] samples among them, no whole number of 32 bits overflows; see [`ClippingRule`].
    pub(super) fn hold(
        &mut self,
        device: &Device,
        samples: usize,
    ) -> Result<DeviceSlice<'_, f32>, CudaError> {
        if self.unit().is_some() && self.held + samples > HELD {
            self.carry(device, 0)?;
        }
        self.held += samples;
        Ok(self.values())
    }

    /// Carries whole numbers of 32 bits over, and leaves zeros there. What was carried over is then moved up by so many binary digits.
    ///
    /// # Guarantee
    /// Nothing is rounded: the sum is the same as before. Whole numbers of 64 bits overflow for no sum within a rule's capacity.
    pub(super) fn carry(&mut self, device: &Device, digits: u32) -> Result<(), CudaError> {
        let (Some(Some(unit)), Some(carried)) = (self.unit, self.wide()) else { return Ok(()) };
        let sum = self.values().cast();
        Carry { sum, carried, digits: digits as usize, n: self.len }.launch(device)?;
        self.held = 0;
        self.unit = Some(Some(unit / f64::from(1 << digits)));
        Ok(())
    }

    /// The numbers themselves: whole ones of 32 bits, or plain ones.
    pub(super) fn values(&self) -> DeviceSlice<'_, f32> {
        self.values.slice()
    }

    /// The whole numbers that were carried over; `None` where they are plain.
    pub(super) fn wide(&self) -> Option<DeviceSlice<'_, i64>> {
        self.unit()?;
        self.carried.as_ref().map(DeviceMemory::slice)
    }

    /// What was carried over became plain numbers.
    pub(super) fn made_plain(&mut self) {
        self.unit = Some(None);
        self.carried = None;
    }

    /// The numbers on the host; whole ones are all carried over first.
    pub(super) fn read(&mut self, executor: &mut CudaExecutor) -> Result<Total, CudaError> {
        let CudaExecutor { device, whole, .. } = executor;
        self.carry(device, 0)?;
        let mut numbers = std::mem::take(&mut self.buffer);
        numbers.resize(self.len, 0.0);
        let Some(place) = self.wide() else {
            whole.fetch(device, self.values(), &mut numbers)?;
            return Ok(match self.unit {
                Some(_) => Total::new(numbers, Vec::new(), None),
                // Zeros while nothing was added, of which the bits are the same in whole numbers and in plain ones.
                None => Total::new(numbers, Vec::new(), Some(1.0)),
            });
        };
        numbers.fill(0.0);
        let mut carried = vec![0i64; self.len];
        device.download(place, &mut carried)?;
        Ok(Total::new(numbers, carried, self.unit()))
    }

    /// Replaces the numbers by others of the same kind; whole ones were carried over.
    pub(super) fn write(&mut self, device: &Device, total: &Total) -> Result<(), CudaError> {
        let (numbers, carried) = total.numbers();
        match self.wide() {
            Some(place) => device.upload(carried, place),
            None => device.upload(numbers, self.values()),
        }
    }
}

impl CudaExecutor {
    /// An empty sum for [`super::CudaLoaded::clipped_sum`] to add to.
    ///
    /// # Errors
    /// If the card has too little memory.
    pub fn gradient_sum(&mut self) -> Result<CudaGradientSum, CudaError> {
        self.gradient_sum_in(Vec::new())
    }

    /// An empty sum whose gradient will come back in the memory of an earlier one.
    ///
    /// # Errors
    /// If the card has too little memory.
    pub fn gradient_sum_in(&mut self, buffer: Vec<f32>) -> Result<CudaGradientSum, CudaError> {
        let len = self.layout.len();
        let values = self.device.allocate(len)?;
        self.device.clear(values.slice::<f32>())?;
        self.count(sum_bytes(len));
        Ok(CudaGradientSum {
            values,
            carried: None,
            buffer,
            len,
            unit: None,
            samples: 0,
            held: 0,
            finished: false,
        })
    }

    /// A sum that starts from the gradient of the parameters themselves, which nothing is added to any more.
    ///
    /// # Errors
    /// If the gradient belongs to another graph, or the card has too little memory.
    pub fn gradient_sum_of(&mut self, gradient: &[f32]) -> Result<CudaGradientSum, CudaError> {
        if gradient.len() != self.layout.len() {
            return Err(EngineError::Parameters.into());
        }
        let sum = self.gradient_sum()?;
        self.device.upload(gradient, sum.values())?;
        Ok(CudaGradientSum { unit: Some(None), finished: true, ..sum })
    }
}

/// Bytes of a sum of so many numbers: 32 bits each, and 64 of what was carried over.
pub(super) fn sum_bytes(len: usize) -> usize {
    12 * len
}
