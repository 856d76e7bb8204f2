//! Fills in what a plan leaves to its target epsilon: the noise, or the steps.

use dapple_accounting::BracketPrecision;
use dapple_geometry::Mask;

use super::{Calibrated, SolvedUnknown, SolvedValue, Unknown, calibrate};
use crate::certificate::Certificate;
use crate::spec::Bands;
use crate::{Plan, PlanError, PlanSpec};

impl PlanSpec {
    /// What the plan leaves to its target epsilon: the noise if it gives none, the steps if it trains until the budget is spent; `None` if
    /// there is nothing to solve for.
    #[must_use]
    pub fn left_to_epsilon(&self) -> Option<Unknown> {
        let open_phase = self.phases.iter().any(|phase| phase.noise_multiplier.is_none());
        match self {
            Self { train, .. } if train.private == Some(false) => None,
            Self { train, .. } if train.until_budget == Some(true) => Some(Unknown::Steps),
            Self { privacy, phases, .. } => (privacy.epsilon.is_some()
                && privacy.noise_multiplier.is_none()
                && (phases.is_empty() || open_phase))
                .then_some(Unknown::NoiseMultiplier),
        }
    }

    /// Solves for what [`PlanSpec::left_to_epsilon`] names and writes it into the plan, so that the plan can be priced. Everything that
    /// prices or trains a plan goes through here, so that all of them see the same noise. Tells what was solved for.
    ///
    /// # Guarantee
    /// The plan that is left spends at most its target epsilon, if there was something to solve for.
    ///
    /// # Errors
    /// As [`calibrate`].
    pub fn settle(
        &mut self,
        masks: &[Mask],
        precision: BracketPrecision,
    ) -> Result<Option<SolvedUnknown>, PlanError> {
        Ok(self.settle_priced(masks, precision)?.map(|(solved, _)| solved))
    }

    /// As [`PlanSpec::settle`], with the certificate that was found on the way. It is that of the plan that is left if it has its hash, and need
    /// not be computed again then.
    ///
    /// # Guarantee
    /// As [`PlanSpec::settle`].
    ///
    /// # Errors
    /// As [`calibrate`].
    pub fn settle_priced(
        &mut self,
        masks: &[Mask],
        precision: BracketPrecision,
    ) -> Result<Option<(SolvedUnknown, Certificate)>, PlanError> {
        let Some(unknown) = self.left_to_epsilon() else { return Ok(None) };
        let Calibrated { mut solved, plan, certificate } = calibrate(self, masks, unknown, precision)?;
        if self.noise.bands == Some(Bands::Auto) {
            self.noise.bands = Some(Bands::Count(plan.groups()));
        }
        match solved.value {
            SolvedValue::Real(noise) => self.privacy.noise_multiplier = Some(noise),
            SolvedValue::Whole(steps) => {
                let most = match Plan::check_with_masks(self, masks) {
                    Ok(plan) => plan.steps(),
                    Err(PlanError::Missing { key: "sampling.epochs", .. }) => u64::MAX,
                    Err(other) => return Err(other),
                };
                let steps = steps.min(most);
                (self.sampling.epochs, self.sampling.steps) = (None, Some(steps));
                solved.value = SolvedValue::Whole(steps);
            }
        }
        Ok(Some((solved, certificate)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(privacy: &str, rest: &str) -> PlanSpec {
        let text = format!(
            "[privacy]\ndelta = 1e-5\n{privacy}\n[sampling]\nbatch = 100\nrecords = 3000\nepochs = 10\n{rest}"
        );
        let mut spec = PlanSpec::from_toml(&text).unwrap();
        spec.settle(&[], BracketPrecision::default()).unwrap();
        spec
    }

    #[test]
    fn the_price_found_on_the_way_is_that_of_the_plan_that_is_left() {
        for (privacy, rest) in [
            ("epsilon = 2.0", ""),
            ("epsilon = 2.0\nrelation = 'replace'", ""),
            ("epsilon = 2.0", "[noise]\nbands = 'auto'"),
            ("epsilon = 2.0\nnoise_multiplier = 1.0", "[train]\nuntil_budget = true"),
        ] {
            let text = format!(
                "[privacy]\ndelta = 1e-5\n{privacy}\n[sampling]\nbatch = 100\nrecords = 3000\nepochs = 10\n{rest}"
            );
            let mut spec = PlanSpec::from_toml(&text).unwrap();
            let precision = BracketPrecision::default();
            let (_, certificate) = spec.settle_priced(&[], precision).unwrap().unwrap();
            let plan = Plan::check(&spec).unwrap();
            assert_eq!(certificate.plan_hash, plan.hash(), "{text}");
            assert_eq!(certificate, plan.price(precision).unwrap(), "{text}");
        }
        // The plan's own length is less than what the budget allows, so the price is another one, and so is the hash.
        let text = "[privacy]\ndelta = 1e-5\nepsilon = 8.0\nnoise_multiplier = 20.0\n[sampling]\nbatch = 100\nrecords = 3000\nepochs = 10\n\
            [train]\nuntil_budget = true";
        let mut spec = PlanSpec::from_toml(text).unwrap();
        let (_, certificate) = spec.settle_priced(&[], BracketPrecision::default()).unwrap().unwrap();
        assert_ne!(certificate.plan_hash, Plan::check(&spec).unwrap().hash());
    }

    #[test]
    fn a_plan_spends_its_target_and_keeps_what_it_gives() {
        let spec = settled("epsilon = 2.0", "");
        let price = |spec: &PlanSpec| {
            Plan::check(spec).unwrap().price(BracketPrecision::default()).unwrap().epsilon.upper
        };
        // Calibration stops within a bracket's width of the target.
        assert!(price(&spec) <= 2.0 && price(&spec) > 1.99, "{}", price(&spec));
        let given = settled("epsilon = 2.0\nnoise_multiplier = 0.7", "");
        assert_eq!(given.privacy.noise_multiplier, Some(0.7));
        let until = settled("epsilon = 2.0\nnoise_multiplier = 2.0", "[train]\nuntil_budget = true");
        assert!(price(&until) <= 2.0 && until.sampling.steps.is_some() && until.sampling.epochs.is_none());
        // The plan's own length is the most: 10 epochs of 30 steps.
        let short = settled("epsilon = 8.0\nnoise_multiplier = 20.0", "[train]\nuntil_budget = true");
        assert_eq!(short.sampling.steps, Some(300));
        // Coefficients follow from the steps, so that five steps cost more than eight here.
        let rest = |epsilon: f64| {
            format!(
                "[privacy]\ndelta = 1e-5\nepsilon = {epsilon}\nnoise_multiplier = 1.0\n[sampling]\nbatch = 10\nrecords = 300\nsteps = 5\n[noise]\nbands = 5\niterates = 'last'\n[optimiser]\nlearning_rate = 1.0\nschedule = 'cosine'\n[train]\nuntil_budget = true"
            )
        };
        for epsilon in [8.5, 9.0, 10.0, 11.0] {
            let mut spec = PlanSpec::from_toml(&rest(epsilon)).unwrap();
            spec.settle(&[], BracketPrecision::default()).unwrap();
            assert!(price(&spec) <= epsilon, "{epsilon}: {:?} cost {}", spec.sampling.steps, price(&spec));
        }
        let open = settled("epsilon = 2.0", "[train]\nprivate = false");
        assert_eq!(open.privacy.noise_multiplier, None);
    }
}
