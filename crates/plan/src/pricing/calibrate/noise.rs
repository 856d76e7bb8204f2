//! Finds the least noise.

use dapple_accounting::search;

use super::problem::Problem;
use super::{Calibrated, SolvedUnknown, SolvedValue, Unknown};
use crate::Plan;
use crate::error::PlanError;

/// The range of noise multipliers that is searched.
const NOISE: (f64, f64) = (0.05, 1e4);
/// The factor by which the answer of the rough search may differ from the final one.
const NEAR: f64 = 1.005;

impl Problem<'_> {
    /// The noise with its certificate. If the quick search does not meet the target, the noise is searched again with whole brackets.
    pub(super) fn priced_noise(&self) -> Result<Calibrated, PlanError> {
        let priced = |(plan, noise): (Plan, f64)| {
            let certificate = self.price(&plan)?;
            let solved = SolvedUnknown {
                name: Unknown::NoiseMultiplier.name(),
                value: SolvedValue::Real(noise),
                size: None,
            };
            Ok(Calibrated { solved, plan, certificate })
        };
        match self.noise(Self::quick_epsilon).and_then(priced) {
            Ok(found) if found.certificate.epsilon.upper <= self.target => Ok(found),
            Err(error) if !error.is_too_large() => Err(error),
            _ => priced(self.noise(Self::epsilon)?),
        }
    }

    fn noise(
        &self,
        epsilon: impl Fn(&Self, &Plan) -> Result<f64, PlanError>,
    ) -> Result<(Plan, f64), PlanError> {
        let (low, high) = NOISE;
        let base = self.plan(|spec| spec.privacy.noise_multiplier = Some(1.0))?;
        // In a schedule, the noise of those phases that give none is solved for.
        let with = |noise_multiplier| match self.spec.phases.is_empty() {
            true => Ok(base.changed(|plan| plan.noise_multiplier = noise_multiplier)),
            false => self.plan(|spec| spec.privacy.noise_multiplier = Some(noise_multiplier)),
        };
        // Go most of the way with little precision, which is cheap, and the rest in small steps.
        let rough = |noise| self.epsilon_to(&with(noise)?, self.rough());
        let near = search::smallest_real(low, high, self.target, rough)?;
        let (start, range) = (near.unwrap_or(high), (low, high));
        let value = |noise| epsilon(self, &with(noise)?);
        let noise = search::smallest_real_from(start, NEAR, range, self.target, value)?
            .ok_or_else(|| self.unreachable(Unknown::NoiseMultiplier, low, high))?;
        Ok((with(noise)?, noise))
    }
}
