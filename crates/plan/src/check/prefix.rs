//! The first steps of a plan.

use super::schedule;
use crate::{Plan, Scheme};

impl Plan {
    /// The plan of the first `steps` steps of the run; `None` for no steps.
    ///
    /// # Guarantee
    /// Its price covers everything that these steps release. Balanced sampling decides at the start which steps a record joins, so its
    /// first step costs as much as all.
    #[must_use]
    pub fn first(&self, steps: u64) -> Option<Self> {
        if steps == 0 {
            return None;
        }
        if steps >= self.steps || self.draws_ahead() {
            return Some(self.clone());
        }
        if self.phases.is_empty() {
            return Some(self.changed(|plan| plan.steps = steps));
        }
        let mut left = steps;
        let mut phases = Vec::new();
        for phase in &self.phases {
            let own = phase.steps.min(left);
            left -= own;
            phases.extend((own > 0).then(|| phase.changed(|phase| phase.steps = own)));
        }
        schedule::joined(phases).map(|plan| plan.changed(|_| {}))
    }

    /// Whether the steps that a record joins are drawn ahead, before the steps are taken.
    #[must_use]
    pub fn draws_ahead(&self) -> bool {
        self.parts().iter().any(|part| part.sampling.scheme() == Scheme::Balanced)
    }
}
