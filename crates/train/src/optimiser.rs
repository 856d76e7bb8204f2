//! From a plan's optimiser to the one that the private step carries out.

use dapple_engine::UpdateRule;
use dapple_plan::{OptimiserPlan, OptimiserRule};
use dapple_private::OptimiserSettings;

/// The same in the words of the private step.
#[must_use]
pub fn optimiser_settings(plan: &OptimiserPlan) -> OptimiserSettings {
    let OptimiserPlan { rule, weight_decay, mean_decay } = *plan;
    let rule = match rule {
        OptimiserRule::Sgd { momentum, nesterov } => UpdateRule::Sgd { momentum, nesterov },
        OptimiserRule::Adam { betas, eps } => UpdateRule::Adam { betas, eps },
    };
    OptimiserSettings { rule, weight_decay, mean_decay }
}
