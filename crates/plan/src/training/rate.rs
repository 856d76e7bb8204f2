//! How the learning rate changes over a run.

use crate::error::PlanError;
use crate::spec::{OptimiserSpec, ScheduleKind};

/// The learning rate of every step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LearningRate {
    kind: ScheduleKind,
    peak: f64,
    warmup: u64,
    steps: u64,
    power: f64,
}

impl LearningRate {
    /// The learning rate of a plan with this many steps.
    ///
    /// # Errors
    /// A learning rate or power that is not a positive number, or a warm-up that takes the whole run or more.
    pub fn check(spec: &OptimiserSpec, steps: u64) -> Result<Self, PlanError> {
        let positive = |key, value: f64| match value > 0.0 && value.is_finite() {
            true => Ok(value),
            false => Err(PlanError::invalid(
                key,
                format!("{value} is not a positive number"),
                "give a positive number",
            )),
        };
        let rate = spec.learning_rate.ok_or_else(|| {
            PlanError::invalid(
                "optimiser.learning_rate",
                "it is missing",
                "give e.g. `learning_rate = 0.5` in [optimiser]",
            )
        })?;
        let warmup = spec.warmup.unwrap_or(0);
        if warmup >= steps.max(1) {
            return Err(PlanError::invalid(
                "optimiser.warmup",
                format!("{warmup} steps of a run of {steps}"),
                "give fewer steps than the run has",
            ));
        }
        Ok(Self {
            kind: spec.schedule.unwrap_or_default(),
            peak: positive("optimiser.learning_rate", rate)?,
            warmup,
            steps,
            power: positive("optimiser.poly_power", spec.poly_power.unwrap_or(1.0))?,
        })
    }

    /// The learning rate of a step, counted from 0: a linear rise over the warm-up, and then the schedule from its peak on.
    #[must_use]
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let progress = (step - self.warmup) as f64 / (self.steps - self.warmup).max(1) as f64;
        let left = (1.0 - progress).max(0.0);
        match self.kind {
            ScheduleKind::Constant => self.peak,
            ScheduleKind::Cosine => self.peak * 0.5 * (1.0 + (std::f64::consts::PI * (1.0 - left)).cos()),
            ScheduleKind::Poly => self.peak * left.powf(self.power),
        }
    }
}
