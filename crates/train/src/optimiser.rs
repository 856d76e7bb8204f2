//! Translates a plan's optimiser into the settings of the private step.

use dapple_engine::{Layout, UpdateRule};
use dapple_graph::Graph;
use dapple_plan::{Momentum, OptimiserPlan, OptimiserRule};
use dapple_private::OptimiserSettings;

use crate::error::TrainError;

/// The same in the words of the private step, for a model.
///
/// # Errors
/// A decay of the learning rate from block to block, for a model that has no blocks.
pub fn optimiser_settings(plan: &OptimiserPlan, graph: &Graph) -> Result<OptimiserSettings, TrainError> {
    let OptimiserPlan { rule, weight_decay, mean_decay, layer_decay } = *plan;
    let rule = match rule {
        OptimiserRule::Descent(Momentum::None) => UpdateRule::Sgd { momentum: 0.0, nesterov: false },
        OptimiserRule::Descent(Momentum::Kept(momentum)) => UpdateRule::Sgd { momentum, nesterov: false },
        OptimiserRule::Descent(Momentum::LooksAhead(momentum)) => {
            UpdateRule::Sgd { momentum, nesterov: true }
        }
        OptimiserRule::ScaledAdam { betas: [decay, _] } => UpdateRule::Mean { decay },
        OptimiserRule::Adam { betas, eps } => UpdateRule::Adam { betas, eps },
        OptimiserRule::CorrectedAdam { betas, floor } => UpdateRule::CorrectedAdam { betas, floor },
    };
    let rate_shares = layer_decay.map_or(Ok(Vec::new()), |decay| rate_shares(decay, graph))?;
    Ok(OptimiserSettings { rule, weight_decay, mean_decay, rate_shares })
}

/// The share of the learning rate that each trainable parameter has: the decay, as often as there are blocks between it and what follows the
/// last one, the first of them included (Bao et al. 2022).
fn rate_shares(decay: f64, graph: &Graph) -> Result<Vec<f64>, TrainError> {
    let depths = graph.depths().ok_or_else(|| {
        TrainError::setting(
            "optimiser.layer_decay",
            "the model is no sequence of blocks",
            "choose one that is, such as a vit, a resnet or a wrn, or leave it out",
        )
    })?;
    let share = |depth: usize| decay.powi(i32::try_from(depth).unwrap_or(i32::MAX));
    Ok(Layout::new(graph).entries().iter().map(|entry| share(depths[entry.id.index()])).collect())
}
