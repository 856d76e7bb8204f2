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
    /// Whole numbers of 32 bits, or plain numbers without clipping.
    values: DeviceMemory,
    /// What was carried over of the whole numbers, in 64 bits each, to which the values are added; `None` for plain numbers.
    carried: Option<DeviceMemory>,
    /// Memory for what will be carried over, if there is some from before.
    room: Option<DeviceMemory>,
    /// Host memory for the gradient when it comes back.
    pub(super) buffer: Vec<f32>,
    pub(super) len: usize,
    /// What a whole number stands for, or `Some(None)` for plain numbers. It is `None` while nothing was added, when all values are zero.
    unit: Option<Option<f64>>,
    pub(super) samples: usize,
    /// How many samples were not carried over.
    held: usize,
    /// Whether it is the sum for the parameters themselves rather than for standardised weights, after which nothing may be added.
    pub(super) finished: bool,
}

/// The memory of a sum. An executor keeps that of the last sum for the next one, because it takes the driver longer to provide so much than
/// it takes the card to fill it.
#[derive(Debug)]
pub(super) struct SumMemory {
    values: DeviceMemory,
    carried: Option<DeviceMemory>,
}

impl CudaGradientSum {
    /// Prepares the sum for this many more samples, clipped by this rule.
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
            let carried = match self.room.take() {
                Some(room) => room,
                None => device.allocate(2 * self.len)?,
            };
            device.clear(carried.slice::<i64>())?;
            self.carried = Some(carried);
        }
        self.samples = total;
        self.unit = Some(rule.unit());
        Ok(())
    }

    /// What a whole number stands for; `None` for plain numbers.
    pub(super) fn unit(&self) -> Option<f64> {
        self.unit.flatten()
    }

    /// Makes room for this many more samples, at most [`HELD`], and returns the numbers to which they are to be added.
    ///
    /// # Guarantee
    /// The numbers hold no more than [`HELD`] samples, so no whole number of 32 bits overflows; see [`ClippingRule`].
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

    /// Carries whole numbers of 32 bits over and leaves zeros there. What was carried over is then shifted up by this many binary digits.
    ///
    /// # Guarantee
    /// Nothing is rounded, so the sum stands for the same as before. Whole numbers of 64 bits do not overflow for any sum within a rule's
    /// capacity.
    pub(super) fn carry(&mut self, device: &Device, digits: u32) -> Result<(), CudaError> {
        let (Some(Some(unit)), Some(carried)) = (self.unit, self.wide()) else { return Ok(()) };
        let sum = self.values().cast();
        Carry { sum, carried, digits: digits as usize, n: self.len }.launch(device)?;
        self.held = 0;
        self.unit = Some(Some(unit / f64::from(1 << digits)));
        Ok(())
    }

    /// The values themselves: whole numbers of 32 bits, or plain numbers.
    pub(super) fn values(&self) -> DeviceSlice<'_, f32> {
        self.values.slice()
    }

    /// The whole numbers that were carried over; `None` for plain numbers.
    pub(super) fn wide(&self) -> Option<DeviceSlice<'_, i64>> {
        self.unit()?;
        self.carried.as_ref().map(DeviceMemory::slice)
    }

    /// Notes that the values are now plain numbers, which include what was carried over.
    pub(super) fn made_plain(&mut self) {
        self.unit = Some(None);
        self.room = self.carried.take();
    }

    /// The memory on the card, once the numbers are no longer needed.
    pub(super) fn into_memory(self) -> SumMemory {
        SumMemory { values: self.values, carried: self.carried.or(self.room) }
    }

    /// Brings the numbers to the host. Whole numbers are all carried over first.
    pub(super) fn read(&mut self, executor: &mut CudaExecutor) -> Result<Total, CudaError> {
        let CudaExecutor { device, whole, .. } = executor;
        self.carry(device, 0)?;
        let mut numbers = std::mem::take(&mut self.buffer);
        numbers.resize(self.len, 0.0);
        let Some(place) = self.wide() else {
            whole.fetch(device, self.values(), &mut numbers)?;
            return Ok(match self.unit {
                Some(_) => Total::new(numbers, Vec::new(), None),
                // Nothing was added, and zero has the same bits as a whole number and as a plain one.
                None => Total::new(numbers, Vec::new(), Some(1.0)),
            });
        };
        numbers.fill(0.0);
        let mut carried = vec![0i64; self.len];
        device.download(place, &mut carried)?;
        Ok(Total::new(numbers, carried, self.unit()))
    }

    /// Replaces the numbers by others of the same kind. Whole numbers must have been carried over.
    pub(super) fn write(&mut self, device: &Device, total: &Total) -> Result<(), CudaError> {
        let (numbers, carried) = total.numbers();
        match self.wide() {
            Some(place) => device.upload(carried, place),
            None => device.upload(numbers, self.values()),
        }
    }
}

impl CudaExecutor {
    /// Makes an empty sum for [`super::CudaLoaded::clipped_sum`] to add to.
    ///
    /// # Errors
    /// If the card has too little memory.
    pub fn gradient_sum(&mut self) -> Result<CudaGradientSum, CudaError> {
        self.gradient_sum_in(Vec::new())
    }

    /// Makes an empty sum whose gradient will come back in the memory of an earlier one.
    ///
    /// # Errors
    /// If the card has too little memory.
    pub fn gradient_sum_in(&mut self, buffer: Vec<f32>) -> Result<CudaGradientSum, CudaError> {
        let len = self.layout.len();
        let (values, room) = match self.spare.take() {
            Some(SumMemory { values, carried }) => (values, carried),
            None => (self.device.allocate(len)?, None),
        };
        self.device.clear(values.slice::<f32>())?;
        self.count(sum_bytes(len));
        Ok(CudaGradientSum {
            values,
            carried: None,
            room,
            buffer,
            len,
            unit: None,
            samples: 0,
            held: 0,
            finished: false,
        })
    }

    /// Makes a sum that is already the gradient of the parameters themselves, to which nothing may be added.
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

/// How many bytes a sum of `len` numbers takes: 32 bits for each, and 64 for what was carried over of it.
pub(super) fn sum_bytes(len: usize) -> usize {
    12 * len
}
