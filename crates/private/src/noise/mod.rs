//! Gaussian noise on a lattice.
//!
//! Whatever the gradient is, the released value of a coordinate is a whole multiple of a step `s`, a power of two that depends on the plan
//! alone. So no bit of it tells how the gradient was rounded, which is what the attack of Mironov (2012) reads.
//! `docs/training.md` states the claim and its proof.

mod double;
mod exact;
mod fast;

use dapple_data::StepKey;
use pulp::Arch;
use rayon::prelude::*;

use crate::error::StepError;
use crate::parallel::WORTH_THREADS;
use exact::Bits;
use fast::{NoiseBlock, PAIRS};

/// A standard deviation is at least this many steps of the lattice, and less than twice as many. So rounding, which adds `s^2 / 12` to
/// the variance, adds less than a ten-millionth of it.
const STEPS_IN_DEVIATION: f64 = 1024.0;
/// Streams of random numbers from this one on hold the further bits of single pairs, one stream for each pair.
const FURTHER_BITS: u64 = 1 << 63;
/// How many coordinates share a stream of random numbers.
const CHUNK: usize = 2 * PAIRS;

/// The Gaussian mechanism, rounded to a lattice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The step `s` of the lattice.
    step: f64,
    /// The standard deviation in steps.
    deviation: f64,
}

impl Noise {
    /// Noise of at least this standard deviation, and at most the next larger number.
    ///
    /// # Errors
    /// A standard deviation that is not between 1e-20 and 1e20, where single precision has room for noisy sums.
    pub fn new(deviation: f64) -> Result<Self, StepError> {
        if !(1e-20..=1e20).contains(&deviation) {
            return Err(StepError::Noise { deviation });
        }
        // The product of noise multiplier and clip norm that we were given may have been rounded down.
        let deviation = deviation.next_up();
        let mut step = 1.0;
        while deviation / step < STEPS_IN_DEVIATION {
            step /= 2.0;
        }
        while deviation / step >= 2.0 * STEPS_IN_DEVIATION {
            step *= 2.0;
        }
        Ok(Self { step, deviation: deviation / step })
    }

    /// The step of the lattice.
    #[must_use]
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The variance of what [`Noise::add`] adds to a coordinate. It is that of the Gaussian and what rounding to the lattice adds to it.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.step.powi(2) * (self.deviation.powi(2) + 1.0 / 12.0)
    }

    /// The standard deviation in steps of the lattice.
    #[cfg(feature = "cuda")]
    pub(crate) fn deviation_in_steps(&self) -> f64 {
        self.deviation
    }

    /// Adds noise to every coordinate of a sum of whole numbers, and rounds to the lattice. `sum` holds the bits of 32-bit whole numbers;
    /// `carried` holds what was carried over of each and is added to them, or is empty. A whole number of one stands for `unit`. The
    /// result replaces `sum`, in single precision.
    ///
    /// # Guarantee
    /// Each coordinate of the result is `s round((x + z) / s)`, where `x` is the exact sum and `z` a real number with the normal
    /// distribution of mean zero and at least the stated standard deviation, independent of everything else. This holds except with
    /// probability at most 2^-90 for each coordinate, and provided the key's stream is uniform. A result of more than 24 bits is then
    /// rounded to single precision. No whole number may reach 2^53, and none of a clipping rule's sums does. The result is a function of
    /// `x` and the key alone: neither threads nor the processor change a bit of it.
    ///
    /// # Errors
    /// A unit that is not a power of two, or a `carried` of another length than `sum`.
    pub fn add(&self, sum: &mut [f32], carried: &[i64], unit: f64, key: &StepKey) -> Result<(), StepError> {
        if !carried.is_empty() && carried.len() != sum.len() {
            return Err(dapple_engine::EngineError::Parameters.into());
        }
        let power_of_two = unit.is_normal() && unit > 0.0 && unit.to_bits() << 12 == 0;
        if !power_of_two {
            return Err(StepError::Noise { deviation: unit });
        }
        // Both are powers of two, so the quotient is exact.
        let per_step = unit / self.step;
        let one = |block: &mut Box<NoiseBlock>, (index, chunk): (usize, &mut [f32])| match carried
            .chunks(CHUNK)
            .nth(index)
        {
            Some(carried) => {
                let high = |at: usize| carried[at] as f64;
                self.add_chunk(block, index as u64, chunk, high, per_step, key);
            }
            None => self.add_chunk(block, index as u64, chunk, |_| 0.0, per_step, key),
        };
        if sum.len() < WORTH_THREADS {
            let mut block = NoiseBlock::new();
            sum.chunks_mut(CHUNK).enumerate().for_each(|chunk| one(&mut block, chunk));
        } else {
            sum.par_chunks_mut(CHUNK).enumerate().for_each_init(NoiseBlock::new, one);
        }
        Ok(())
    }

    /// Adds noise to one chunk of coordinates, of which `high` tells what was carried over.
    fn add_chunk(
        &self,
        block: &mut NoiseBlock,
        index: u64,
        chunk: &mut [f32],
        high: impl Fn(usize) -> f64,
        per_step: f64,
        key: &StepKey,
    ) {
        // This is exact, being a whole number below 2^53 times a power of two.
        let steps = |at: usize, bits: f32| (f64::from(bits.to_bits() as i32) + high(at)) * per_step;
        block.draw(&mut key.stream(index));
        let vectors = Arch::new();
        vectors.dispatch(|| {
            let (first, second) = chunk.split_at(chunk.len().min(PAIRS));
            for ((half, offset), start) in [first, second].into_iter().zip(&mut block.offset).zip([0, PAIRS])
            {
                offset[half.len()..].fill(0.0);
                for (at, (offset, &value)) in offset.iter_mut().zip(half).enumerate() {
                    let steps = steps(start + at, value);
                    *offset = steps - steps.round_ties_even();
                }
            }
        });
        block.round(self.deviation);
        let doubtful: Vec<usize> = block.doubtful().collect();
        for pair in doubtful {
            let more = key.stream(FURTHER_BITS | (index * PAIRS as u64 + pair as u64));
            let bits = Bits { radius: block.radius[pair], angle: block.angle[pair], more };
            let offset = [block.offset[0][pair], block.offset[1][pair]];
            let rounded = bits.round(offset, self.deviation);
            [block.rounded[0][pair], block.rounded[1][pair]] = rounded;
        }
        vectors.dispatch(|| {
            let (first, second) = chunk.split_at_mut(chunk.len().min(PAIRS));
            for ((half, rounded), start) in [first, second].into_iter().zip(&block.rounded).zip([0, PAIRS]) {
                for (at, (value, &rounded)) in half.iter_mut().zip(rounded).enumerate() {
                    let whole = steps(start + at, *value).round_ties_even();
                    *value = ((whole + rounded) * self.step) as f32;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
