//! Translates a plan's optimiser into the settings of the private step.

use dapple_engine::UpdateRule;
use dapple_plan::{Momentum, OptimiserPlan, OptimiserRule};
use dapple_private::OptimiserSettings;

/// The optimiser of a plan as settings of the private step.
#[must_use]
pub fn optimiser_settings(plan: &OptimiserPlan) -> OptimiserSettings {
    let OptimiserPlan { rule, weight_decay, mean_decay } = *plan;
    let rule = match rule {
        OptimiserRule::Descent(Momentum::None) => UpdateRule::Sgd { momentum: 0.0, nesterov: false },
        OptimiserRule::Descent(Momentum::Kept(momentum)) => UpdateRule::Sgd { momentum, nesterov: false },
        OptimiserRule::Descent(Momentum::LooksAhead(momentum)) => {
            UpdateRule::Sgd { momentum, nesterov: true }
        }
        OptimiserRule::Adam { betas, eps } => UpdateRule::Adam { betas, eps },
    };
    OptimiserSettings { rule, weight_decay, mean_decay }
}
