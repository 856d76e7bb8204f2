//! Noise that cancels across steps: sums of successive steps are released together, by the coefficients of a plan.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use dapple_data::StepKey;
use dapple_engine::{EngineError, Total};

use crate::error::StepError;
use crate::noise::Noise;
use crate::parallel::{self, PIECE};

/// No whole number reaches this, up to which double precision holds them exactly.
const LARGEST: u64 = 1 << 52;

/// The sums of the last steps and the gradients that were released for them.
///
/// Step `t` releases `u_t = sum_i c_i x_{t-i} + Z_t`, where `x_t` is the sum of its clipped gradients and `Z_t` independent noise, and learns from
/// `y_t = u_t - sum_{i > 0} c_i y_{t-i}`. So `y_t = x_t + w_t` with noise `w = C^-1 Z`, most of which cancels in sums over steps.
///
/// The sums `x` have no noise. They are in memory alone and in no checkpoint: a run that goes on begins without them, as at its first step.
#[derive(Debug)]
pub struct CorrelatedSums {
    /// The coefficients, the first of which is one, in multiples of `unit`.
    coefficients: Vec<i32>,
    unit: f64,
    /// `x_{t-1}, x_{t-2}, ..`, as whole numbers.
    sums: VecDeque<Vec<i64>>,
    /// What a one of these stands for; `None` as long as all are zero, since a sum of nothing has any unit.
    counted_in: Option<f64>,
    /// `y_{t-1}, y_{t-2}, ..`
    gradients: VecDeque<Vec<f32>>,
    /// The last coefficients of `1 / c`, the newest first, and the sum of the squares of all of them.
    inverse: VecDeque<f64>,
    squares: f64,
}

impl CorrelatedSums {
    /// Nothing yet, before the first step by these coefficients: the first is one, and all are whole multiples of the unit, a power of two.
    #[must_use]
    pub fn new(coefficients: &[i32], unit: f64) -> Self {
        Self {
            coefficients: coefficients.to_vec(),
            unit,
            sums: VecDeque::new(),
            counted_in: None,
            gradients: VecDeque::new(),
            inverse: VecDeque::new(),
            squares: 0.0,
        }
    }

    /// How many times larger what is released together may be than the sum of one step, in whole numbers.
    #[must_use]
    pub fn growth(&self) -> f64 {
        self.coefficients.iter().map(|&c| f64::from(c).abs()).sum()
    }

    /// Releases the sum of a step together with those before it, and turns it into the gradient that is learned from.
    ///
    /// # Guarantee
    /// The gradient is a function of what earlier steps released and of `u_t`, rounded to the noise's lattice; `u_t` is computed without rounding
    /// before its noise. So whatever a contribution adds to the sum of this step, it adds to the releases of this and the next steps
    /// exactly that, times the coefficients.
    ///
    /// # Errors
    /// A sum of plain numbers, one of another length or in other units than those before, or numbers that double precision does not hold exactly, which
    /// [`ClippingRule::holds`](dapple_engine::ClippingRule::holds) excludes; and those of [`Noise::add`].
    pub(crate) fn release<'t>(
        &mut self,
        total: &'t mut Total,
        noise: &Noise,
        key: &StepKey,
    ) -> Result<&'t mut [f32], StepError> {
        let (counts, unit) = total.counts().ok_or(EngineError::Parameters)?;
        let own: Vec<i64> = counts.collect();
        if self.sums.front().is_some_and(|before| before.len() != own.len()) {
            return Err(EngineError::Parameters.into());
        }
        if own.iter().any(|&count| count != 0) && *self.counted_in.get_or_insert(unit) != unit {
            return Err(EngineError::Parameters.into());
        }
        let unit = self.counted_in.unwrap_or(unit) * self.unit;
        let together = self.together(&own)?;
        let released = total.make_plain(|bits, _, _| {
            bits.fill(0.0);
            noise.add(bits, &together, unit, key)
        })?;
        self.take_off_what_was_learned(released);
        self.remember(own, released);
        Ok(released)
    }

    /// `sum_i c_i x_{t-i}` in multiples of the unit.
    fn together(&self, own: &[i64]) -> Result<Vec<i64>, StepError> {
        let mut together = vec![0; own.len()];
        let held = AtomicBool::new(true);
        parallel::for_each(own.len(), pieces(&mut together), |(first, together)| {
            let sums = std::iter::once(own).chain(self.sums.iter().map(Vec::as_slice));
            for (&c, sum) in self.coefficients.iter().zip(sums) {
                let c = i64::from(c);
                for (together, &x) in together.iter_mut().zip(&sum[first..]) {
                    *together += c * x;
                }
            }
            if together.iter().any(|whole| whole.unsigned_abs() >= LARGEST) {
                held.store(false, Ordering::Relaxed);
            }
        });
        match held.into_inner() {
            true => Ok(together),
            false => Err(EngineError::Sum { capacity: own.len() }.into()),
        }
    }

    /// Turns what was released into the gradient, which is computed in double precision and kept in single precision.
    fn take_off_what_was_learned(&self, released: &mut [f32]) {
        parallel::for_each(released.len(), pieces(released), |(first, released)| {
            let mut gradient: Vec<f64> = released.iter().map(|&value| f64::from(value)).collect();
            for (&c, before) in self.coefficients[1..].iter().zip(&self.gradients) {
                let c = f64::from(c) * self.unit;
                for (value, &before) in gradient.iter_mut().zip(&before[first..]) {
                    *value -= c * f64::from(before);
                }
            }
            released.iter_mut().zip(gradient).for_each(|(value, exact)| *value = exact as f32);
        });
    }

    /// Keeps what the next steps need.
    fn remember(&mut self, own: Vec<i64>, gradient: &[f32]) {
        let kept = self.kept();
        self.sums.push_front(own);
        self.gradients.push_front(gradient.to_vec());
        self.sums.truncate(kept);
        self.gradients.truncate(kept);
        self.count_step();
    }

    /// Counts a step whose sum was released, here or where its sums are kept in the place of these.
    pub(crate) fn count_step(&mut self) {
        let next = self.next_inverse();
        self.squares += next * next;
        self.inverse.push_front(next);
        self.inverse.truncate(self.kept());
    }

    /// How many steps are kept.
    fn kept(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// The coefficients in multiples of a unit, and that unit.
    #[cfg(feature = "cuda")]
    pub(crate) fn whole(&self) -> (&[i32], f64) {
        (&self.coefficients, self.unit)
    }

    fn next_inverse(&self) -> f64 {
        // The first one's square is one, and that of no step is less.
        if self.squares == 0.0 {
            return 1.0;
        }
        let before = self.coefficients[1..].iter().zip(&self.inverse);
        -before.map(|(&c, d)| f64::from(c) * self.unit * d).sum::<f64>()
    }

    /// The variance of the noise in the next gradient over that of the noise of one step.
    pub(crate) fn variance(&self) -> f64 {
        let next = self.next_inverse();
        self.squares + next * next
    }
}

/// Numbers in pieces, each with the place of its first.
fn pieces<T>(numbers: &mut [T]) -> Vec<(usize, &mut [T])> {
    numbers.chunks_mut(PIECE).enumerate().map(|(piece, numbers)| (piece * PIECE, numbers)).collect()
}

#[cfg(test)]
mod tests;
