//! The first steps of a plan.

use dapple_geometry::Mask;

use crate::Plan;
use crate::Scheme;
use crate::error::PlanError;
use crate::spec::PlanSpec;

impl Plan {
    /// The plan of the first `steps` steps of a run; none where it has taken none.
    ///
    /// # Guarantee
    /// Its price covers everything that these steps release. Balanced sampling decides at the start which steps a record joins, so there
    /// the first step costs as much as all.
    ///
    /// # Errors
    /// As [`Plan::check_with_masks`].
    pub fn of_first_steps(spec: &PlanSpec, masks: &[Mask], steps: u64) -> Result<Option<Self>, PlanError> {
        let whole = Self::check_with_masks(spec, masks)?;
        match steps {
            0 => return Ok(None),
            steps if steps >= whole.steps || whole.draws_ahead() => return Ok(Some(whole)),
            _ => {}
        }
        let mut spec = spec.clone();
        if spec.phases.is_empty() {
            (spec.sampling.epochs, spec.sampling.steps) = (None, Some(steps));
        } else {
            let mut left = steps;
            let base = spec.clone();
            for phase in &mut spec.phases {
                let own = Self::check_with_masks(&base.in_phase(phase), masks)?.steps.min(left);
                (phase.epochs, phase.steps) = (None, Some(own));
                left -= own;
            }
            spec.phases.retain(|phase| phase.steps != Some(0));
        }
        Self::check_with_masks(&spec, masks).map(Some)
    }

    /// Whether which steps a record joins was drawn once for the whole run.
    #[must_use]
    pub fn draws_ahead(&self) -> bool {
        self.parts().iter().any(|part| part.sampling.scheme() == Scheme::Balanced)
    }
}
