//! What a plan says of the optimiser, checked.

use dapple_engine::UpdateRule;
use dapple_plan::spec::{OptimiserKind, OptimiserSpec};
use dapple_private::OptimiserSettings;

use crate::error::TrainError;

/// AdamW's decay where the plan gives none, as PyTorch has it.
const ADAMW_DECAY: f64 = 0.01;

/// The optimiser of a plan.
///
/// # Errors
/// Settings outside their range, or of another optimiser.
pub fn optimiser_settings(spec: &OptimiserSpec) -> Result<OptimiserSettings, TrainError> {
    let wrong =
        |key, problem: String| TrainError::setting(key, problem, "see docs/training.md for its range");
    let share = |key, value: f64| match (0.0..1.0).contains(&value) {
        true => Ok(value),
        false => Err(wrong(key, format!("{value} is not in [0, 1)"))),
    };
    let kind = spec.kind.unwrap_or_default();
    let adam = kind != OptimiserKind::Sgd;
    let misplaced = [
        ("optimiser.momentum", adam && spec.momentum.is_some()),
        ("optimiser.nesterov", adam && spec.nesterov.is_some()),
        ("optimiser.betas", !adam && spec.betas.is_some()),
        ("optimiser.eps", !adam && spec.eps.is_some()),
    ];
    if let Some((key, _)) = misplaced.into_iter().find(|(_, misplaced)| *misplaced) {
        return Err(TrainError::setting(
            key,
            "this optimiser has none",
            "leave it out, or change optimiser.kind",
        ));
    }
    let default_decay = if kind == OptimiserKind::Adamw { ADAMW_DECAY } else { 0.0 };
    let decay = spec.weight_decay.unwrap_or(default_decay);
    if !(decay >= 0.0 && decay.is_finite()) {
        return Err(wrong("optimiser.weight_decay", format!("{decay} is negative or not finite")));
    }
    let mean_decay = spec.ema;
    if let Some(decay) = mean_decay.filter(|decay| !(0.0..1.0).contains(decay)) {
        return Err(TrainError::setting(
            "optimiser.ema",
            format!("{decay} is not in [0, 1)"),
            "give a decay such as 0.999, or leave it out",
        ));
    }
    if !adam {
        let momentum = share("optimiser.momentum", spec.momentum.unwrap_or(0.0))?;
        let nesterov = spec.nesterov.unwrap_or(false);
        if nesterov && momentum == 0.0 {
            return Err(wrong("optimiser.nesterov", "it needs a momentum".to_owned()));
        }
        return Ok(OptimiserSettings {
            rule: UpdateRule::Sgd { momentum, nesterov },
            weight_decay: decay,
            mean_decay,
        });
    }
    let betas = spec.betas.unwrap_or([0.9, 0.999]);
    share("optimiser.betas", betas[0])?;
    share("optimiser.betas", betas[1])?;
    let eps = spec.eps.unwrap_or(1e-8);
    if !(eps > 0.0 && eps.is_finite()) {
        return Err(wrong("optimiser.eps", format!("{eps} is not a positive number")));
    }
    Ok(OptimiserSettings { rule: UpdateRule::Adam { betas, eps }, weight_decay: decay, mean_decay })
}
