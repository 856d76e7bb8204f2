//! What successive steps tell together, where noise cancels across steps.

use std::collections::VecDeque;

use dapple_plan::CorrelatedNoise;

/// How far the weights of one canary were moved, put together to what each of its chances released.
///
/// Step `t` moves weights by `y_t = u_t - sum_{i > 0} c_i y_{t-i}`, where `u_t` was released. A canary that may be drawn in step `s` adds to the releases
/// from `s` on `c_0, c_1, ..` times what it contributes, and only its next chance, in step `s + b`, adds anything else. So `sum_i c_i u_{s+i} / r^2` is what it
/// contributes, with noise of deviation `sigma / r`, where `r` is the norm of as many coefficients as the run has steps left; and nothing else in these releases tells
/// of it.
#[derive(Debug, Clone)]
pub(crate) struct Blocks {
    coefficients: Vec<f64>,
    /// The step in which the canary has its first chance.
    first: usize,
    step: usize,
    /// `y_{t-1}, y_{t-2}, ..`
    moved: VecDeque<Vec<f64>>,
    chance: Chance,
}

/// What is known of a chance so far.
#[derive(Debug, Clone)]
pub(crate) struct Chance {
    /// `sum_i c_i u_{s+i}`.
    along: Vec<f64>,
    /// `r^2`.
    squares: f64,
    /// What was told of the submodel when the chance began.
    told: Option<usize>,
}

impl Chance {
    fn new(weights: usize, told: Option<usize>) -> Self {
        Self { along: vec![0.0; weights], squares: 0.0, told }
    }

    /// What the canary contributed, with noise; `r`; and what was told. Nothing where no step has released anything yet.
    pub(crate) fn contribution(&self) -> Option<(Vec<f64>, f64, Option<usize>)> {
        let values = self.along.iter().map(|along| along / self.squares).collect();
        (self.squares > 0.0).then(|| (values, self.squares.sqrt(), self.told))
    }
}

impl Blocks {
    /// Before the first step, of a canary of this group with so many weights.
    pub(crate) fn new(noise: &CorrelatedNoise, group: u64, weights: usize) -> Self {
        Self {
            coefficients: noise.coefficients().collect(),
            first: group as usize,
            step: 0,
            moved: VecDeque::new(),
            chance: Chance::new(weights, None),
        }
    }

    /// Takes in how far a step moved the weights, and tells of the chance that this completes.
    pub(crate) fn add(&mut self, moved: &[f64], told: Option<usize>) -> Option<Chance> {
        let mut released = moved.to_vec();
        for (c, before) in self.coefficients[1..].iter().zip(&self.moved) {
            released.iter_mut().zip(before).for_each(|(released, y)| *released += c * y);
        }
        self.moved.push_front(moved.to_vec());
        self.moved.truncate(self.coefficients.len() - 1);
        let since = self.step.checked_sub(self.first);
        self.step += 1;
        let row = since? % self.coefficients.len();
        if row == 0 {
            self.chance = Chance::new(moved.len(), told);
        }
        let c = self.coefficients[row];
        self.chance.along.iter_mut().zip(&released).for_each(|(along, u)| *along += c * u);
        self.chance.squares += c * c;
        (row + 1 == self.coefficients.len())
            .then(|| std::mem::replace(&mut self.chance, Chance::new(0, None)))
    }

    /// The chance that the end of the run cut off, if any.
    pub(crate) fn cut_off(self) -> Chance {
        self.chance
    }
}

#[cfg(test)]
mod tests {
    use dapple_plan::{Plan, PlanSpec};

    use super::*;

    fn noise() -> CorrelatedNoise {
        let text = "[privacy]\nnoise_multiplier = 1.0\ndelta = 1e-5\n[sampling]\nbatch = 10\nrecords = 100\nsteps = 8\n[noise]\nbands = 3";
        Plan::check(&PlanSpec::from_toml(text).unwrap()).unwrap().correlated_noise().unwrap().clone()
    }

    /// Solves for what was learned from releases without noise, and finds what was contributed.
    #[test]
    fn contributions_are_found_in_what_was_learned() {
        let noise = noise();
        let c: Vec<f64> = noise.coefficients().collect();
        for group in 0..3 {
            let drawn = |step: usize| f64::from(u8::from(step % 3 == group && step != group + 3));
            let mut learned: Vec<f64> = Vec::new();
            let mut blocks = Blocks::new(&noise, group as u64, 1);
            let mut found = Vec::new();
            for step in 0..8 {
                let released: f64 = (0..3.min(step + 1)).map(|i| c[i] * drawn(step - i)).sum();
                let before: f64 = (1..3.min(step + 1)).map(|i| c[i] * learned[step - i]).sum();
                learned.push(released - before);
                found.extend(blocks.add(&learned[step..], Some(step)));
            }
            found.push(blocks.cut_off());
            let found: Vec<_> = found.iter().filter_map(Chance::contribution).collect();
            let starts: Vec<usize> = (group..8).step_by(3).collect();
            assert_eq!(found.len(), starts.len());
            for ((values, reach, told), start) in found.into_iter().zip(starts) {
                let rows = 3.min(8 - start);
                let norm = c[..rows].iter().map(|c| c * c).sum::<f64>().sqrt();
                // A few products in double precision.
                assert!((values[0] - drawn(start)).abs() < 1e-12 && (reach - norm).abs() < 1e-12);
                assert_eq!(told, Some(start));
            }
        }
    }
}
