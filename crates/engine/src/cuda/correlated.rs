//! Noise that cancels across steps, on the card: sums of successive steps are released together.

use super::device::Device;
use super::error::CudaError;
use super::kernels::{AddSteps, TakeOffLearned};
use super::slice::DeviceMemory;
use super::update::{CudaState, LatticeNoise};
use super::{CudaExecutor, CudaGradientSum, CudaLoaded};
use crate::error::EngineError;

/// The sums of the last steps, and the gradients that were learned from them, on the card.
///
/// Step `t` releases `u_t = sum_k c_k x_{t-k} + Z_t`, where `x_t` is its sum, and learns from `u_t - sum_{k > 0} c_k y_{t-k}`, where `y` are the
/// gradients before. Rows are written in turns.
#[derive(Debug)]
pub(super) struct CardCorrelatedSums {
    /// The coefficients, in multiples of `unit`.
    coefficients: DeviceMemory,
    bands: usize,
    unit: f64,
    /// The sums, one row for each coefficient, so that this step's overwrites none that it needs.
    sums: DeviceMemory,
    /// The gradients, one row for each coefficient but the first.
    gradients: DeviceMemory,
    together: DeviceMemory,
    /// What a whole number of the sums stands for; `None` as long as all are zero.
    counted_in: Option<f64>,
    /// How many steps were released.
    steps: usize,
}

impl CardCorrelatedSums {
    fn new(device: &Device, coefficients: &[i32], unit: f64, len: usize) -> Result<Self, CudaError> {
        let bands = coefficients.len();
        let own = device.allocate(bands)?;
        device.upload(coefficients, own.slice())?;
        Ok(Self {
            coefficients: own,
            bands,
            unit,
            sums: device.allocate(2 * bands * len)?,
            gradients: device.allocate((bands - 1) * len)?,
            together: device.allocate(2 * len)?,
            counted_in: None,
            steps: 0,
        })
    }

    /// How many bytes all of this takes for `bands` coefficients and sums of `len` numbers.
    fn bytes(bands: usize, len: usize) -> usize {
        4 * bands + (12 * bands + 4) * len
    }
}

impl CudaExecutor {
    /// Lets the sums of successive updates be released together: each with those before it, times these coefficients, the first of which
    /// belongs to the newest sum. They are in multiples of `unit`, a power of two. There are at least two.
    ///
    /// # Errors
    /// Fewer coefficients, a unit that is no power of two, or too little memory on the card.
    pub fn correlate(
        &mut self,
        state: &mut CudaState,
        coefficients: &[i32],
        unit: f64,
    ) -> Result<(), CudaError> {
        if coefficients.len() < 2 || !power_of_two(unit) {
            return Err(EngineError::Parameters.into());
        }
        let len = self.layout.len();
        self.device.bind()?;
        state.correlated = Some(CardCorrelatedSums::new(&self.device, coefficients, unit, len)?);
        self.held += CardCorrelatedSums::bytes(coefficients.len(), len);
        self.count(0);
        Ok(())
    }
}

impl CudaLoaded<'_> {
    /// Releases a sum with those before it, and turns it into the gradient to learn from.
    ///
    /// # Guarantee
    /// The gradient is a function of what earlier steps released and of the noisy sum of [`CudaLoaded::add_noise`], whose `x` is the sum of
    /// the steps' whole numbers times their coefficients. That is computed without rounding. For the same key it has the bits of the host's.
    ///
    /// # Errors
    /// Those of [`CudaLoaded::add_noise`]; a sum of plain numbers or in other units than those before; and numbers that double precision
    /// does not hold. Then the sum must not be used, and what is kept of earlier steps is as before.
    pub(super) fn release(
        &mut self,
        sum: &mut CudaGradientSum,
        state: &mut CudaState,
        noise: &LatticeNoise<'_>,
    ) -> Result<(), CudaError> {
        self.finish(sum)?;
        let CudaState { correlated: Some(correlated), failed, .. } = state else {
            return Err(EngineError::Parameters.into());
        };
        let (n, failed) = (sum.len, failed.slice());
        // An empty sum has no unit of its own.
        let unit = match (sum.unit(), correlated.counted_in, sum.samples) {
            (None, counted_in, 0) => counted_in,
            (Some(unit), counted_in, _) if counted_in.is_none_or(|before| before == unit) => Some(unit),
            _ => return Err(EngineError::Parameters.into()),
        };
        let before = correlated.steps.min(correlated.bands - 1);
        let device = &self.executor.device;
        device.clear(failed)?;
        let coefficients = correlated.coefficients.slice();
        let together = correlated.together.slice();
        AddSteps {
            together,
            sums: correlated.sums.slice(),
            carried: sum.wide(),
            coefficients,
            before,
            row: correlated.steps % correlated.bands,
            rows: correlated.bands,
            n,
            failed,
        }
        .launch(device)?;
        let mut flag = [0i32];
        device.download(failed, &mut flag)?;
        if flag != [0] {
            return Err(EngineError::Sum { capacity: n }.into());
        }
        let unit_of_all = unit.unwrap_or(1.0) * correlated.unit;
        self.add_noise_to(sum.values(), n, Some((together, unit_of_all)), failed, noise)?;
        sum.made_plain();
        TakeOffLearned {
            released: sum.values(),
            gradients: correlated.gradients.slice(),
            coefficients,
            unit: correlated.unit,
            before,
            row: correlated.steps % (correlated.bands - 1),
            rows: correlated.bands - 1,
            n,
        }
        .launch(&self.executor.device)?;
        correlated.counted_in = unit;
        correlated.steps += 1;
        Ok(())
    }
}

/// Whether multiplying by a number only moves the point of another.
pub(super) fn power_of_two(number: f64) -> bool {
    number.is_normal() && number > 0.0 && number.to_bits() << 12 == 0
}
