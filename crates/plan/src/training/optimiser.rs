//! What happens to the noisy gradient. Everything here is post-processing: it costs no privacy.

use crate::error::PlanError;
use crate::spec::{OptimiserKind, OptimiserSpec};

/// AdamW's decay if the plan gives none, as in PyTorch.
const ADAMW_DECAY: f64 = 0.01;
/// The least that a corrected second moment is where the plan does not say, as Tang et al. have it for images.
const NOISE_FLOOR: f64 = 5e-8;
/// Below this floor nothing would be left of it in single precision, and quotients would not be finite.
const LEAST_FLOOR: f64 = 1e-30;
/// The keys that decide which others an optimiser has.
const KIND: &str = "optimiser.kind";
const CORRECTION: &str = "optimiser.noise_correction";
const SCALE_FIRST: &str = "optimiser.scale_first";

/// An optimiser without its state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimiserPlan {
    /// The rule of the updates.
    pub rule: OptimiserRule,
    /// Decoupled weight decay, `w (1 - rate decay)` before the update. It is never part of a clipped gradient.
    pub weight_decay: f64,
    /// Decay of the running mean of the weights, in [0, 1). The mean is evaluated and kept; `None` if the weights themselves are.
    pub mean_decay: Option<f64>,
    /// Share of a block's learning rate that the block before it has, in (0, 1]; none where all blocks have the same.
    pub layer_decay: Option<f64>,
}

/// The rule that a plan states, with PyTorch's defaults. The numbers of an update follow from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptimiserRule {
    /// Gradient descent.
    Descent(Momentum),
    /// Adam, or AdamW if there is a weight decay.
    Adam {
        /// Decay of both moments.
        betas: [f64; 2],
        /// Keeps the quotient finite.
        eps: f64,
    },
    /// Adam whose gradients are divided by the root of their second moments before they are clipped and noised: one scale for each parameter.
    ScaledAdam {
        /// Decay of both moments.
        betas: [f64; 2],
    },
    /// Adam without the noise's part of its second moment (DP-AdamBC, Tang et al. 2024).
    CorrectedAdam {
        /// Decay of both moments.
        betas: [f64; 2],
        /// The least that is left of the second moment.
        floor: f64,
    },
}

/// What gradient descent keeps of its last update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Momentum {
    /// Nothing.
    None,
    /// This share.
    Kept(f64),
    /// This share, and it looks ahead (Nesterov).
    LooksAhead(f64),
}

fn wrong(key: &'static str, problem: String) -> PlanError {
    PlanError::invalid(key, problem, "see docs/training.md for its range")
}

fn share(key: &'static str, value: f64) -> Result<f64, PlanError> {
    match (0.0..1.0).contains(&value) {
        true => Ok(value),
        false => Err(wrong(key, format!("{value} is not in [0, 1)"))),
    }
}

impl OptimiserPlan {
    /// Fills in what is not given.
    ///
    /// # Errors
    /// A setting outside its range, or one of another rule.
    pub fn check(spec: &OptimiserSpec) -> Result<Self, PlanError> {
        let kind = spec.kind.unwrap_or_default();
        let default_decay = if kind == OptimiserKind::Adamw { ADAMW_DECAY } else { 0.0 };
        let weight_decay = spec.weight_decay.unwrap_or(default_decay);
        let rule = OptimiserRule::check(spec, kind)?;
        if !(weight_decay >= 0.0 && weight_decay.is_finite()) {
            return Err(wrong("optimiser.weight_decay", format!("{weight_decay} is negative or not finite")));
        }
        if let Some(decay) = spec.ema.filter(|decay| !(0.0..1.0).contains(decay)) {
            return Err(PlanError::invalid(
                "optimiser.ema",
                format!("{decay} is not in [0, 1)"),
                "give a decay such as 0.999, or leave it out",
            ));
        }
        if let Some(decay) = spec.layer_decay.filter(|decay| !(*decay > 0.0 && *decay <= 1.0)) {
            return Err(wrong("optimiser.layer_decay", format!("{decay} is not in (0, 1]")));
        }
        Ok(Self { rule, weight_decay, mean_decay: spec.ema, layer_decay: spec.layer_decay })
    }
}

impl OptimiserRule {
    /// The share of the sum of gradients before that a gradient is added to.
    pub(crate) fn momentum(self) -> f64 {
        match self {
            Self::Descent(Momentum::None) => 0.0,
            Self::Descent(Momentum::Kept(share) | Momentum::LooksAhead(share)) => share,
            Self::Adam { betas, .. } | Self::ScaledAdam { betas } | Self::CorrectedAdam { betas, .. } => {
                betas[0]
            }
        }
    }

    /// The decay of the second moments by which gradients are scaled before they are clipped; `None` if they are not.
    #[must_use]
    pub fn scales(self) -> Option<f64> {
        match self {
            Self::ScaledAdam { betas: [_, decay] } => Some(decay),
            Self::Descent(_) | Self::Adam { .. } | Self::CorrectedAdam { .. } => None,
        }
    }

    fn check(spec: &OptimiserSpec, kind: OptimiserKind) -> Result<Self, PlanError> {
        let adam = kind != OptimiserKind::Sgd;
        let corrected = adam && spec.noise_correction.unwrap_or(false);
        let scaled = adam && spec.scale_first.unwrap_or(false);
        let misplaced = [
            ("optimiser.momentum", adam && spec.momentum.is_some(), KIND),
            ("optimiser.nesterov", adam && spec.nesterov.is_some(), KIND),
            ("optimiser.betas", !adam && spec.betas.is_some(), KIND),
            ("optimiser.eps", !adam && spec.eps.is_some(), KIND),
            ("optimiser.eps", corrected && spec.eps.is_some(), CORRECTION),
            (CORRECTION, !adam && spec.noise_correction.is_some(), KIND),
            (SCALE_FIRST, !adam && spec.scale_first.is_some(), KIND),
            ("optimiser.eps", scaled && spec.eps.is_some(), SCALE_FIRST),
            (CORRECTION, scaled && corrected, SCALE_FIRST),
            ("optimiser.noise_floor", !corrected && spec.noise_floor.is_some(), CORRECTION),
        ];
        if let Some((key, _, decides)) = misplaced.into_iter().find(|(_, misplaced, _)| *misplaced) {
            let hint = format!("leave it out, or change {decides}");
            return Err(PlanError::invalid(key, "this optimiser has none", hint));
        }
        if !adam {
            let momentum = share("optimiser.momentum", spec.momentum.unwrap_or(0.0))?;
            let nesterov = spec.nesterov.unwrap_or(false);
            return match (momentum, nesterov) {
                (0.0, true) => Err(wrong("optimiser.nesterov", "it needs a momentum".to_owned())),
                (0.0, false) => Ok(Self::Descent(Momentum::None)),
                (share, false) => Ok(Self::Descent(Momentum::Kept(share))),
                (share, true) => Ok(Self::Descent(Momentum::LooksAhead(share))),
            };
        }
        let betas = spec.betas.unwrap_or([0.9, 0.999]);
        share("optimiser.betas", betas[0])?;
        share("optimiser.betas", betas[1])?;
        if scaled {
            return Ok(Self::ScaledAdam { betas });
        }
        if corrected {
            let floor = spec.noise_floor.unwrap_or(NOISE_FLOOR);
            return match floor >= LEAST_FLOOR && floor.is_finite() {
                true => Ok(Self::CorrectedAdam { betas, floor }),
                false => Err(wrong(
                    "optimiser.noise_floor",
                    format!("{floor} is below {LEAST_FLOOR:e} or not finite"),
                )),
            };
        }
        let eps = spec.eps.unwrap_or(1e-8);
        if !(eps > 0.0 && eps.is_finite()) {
            return Err(wrong("optimiser.eps", format!("{eps} is not a positive number")));
        }
        Ok(Self::Adam { betas, eps })
    }
}

#[cfg(test)]
mod tests {
    use crate::PlanSpec;
    use crate::training::{Conduct, LearningRate, OptimiserPlan};

    #[test]
    fn settings_out_of_range_name_their_key() {
        let spec = |section: &str, text: &str| PlanSpec::from_toml(&format!("[{section}]\n{text}")).unwrap();
        for (text, key) in [
            ("momentum = 1.0", "optimiser.momentum"),
            ("momentum = -0.1", "optimiser.momentum"),
            ("nesterov = true", "optimiser.nesterov"),
            ("kind = 'adam'\nmomentum = 0.9", "optimiser.momentum"),
            ("kind = 'adam'\nbetas = [0.9, 1.0]", "optimiser.betas"),
            ("betas = [0.9, 0.99]", "optimiser.betas"),
            ("kind = 'adamw'\neps = 0.0", "optimiser.eps"),
            ("noise_correction = true", "optimiser.noise_correction"),
            ("kind = 'adam'\nnoise_floor = 1e-8", "optimiser.noise_floor"),
            ("kind = 'adam'\nnoise_correction = true\neps = 1e-8", "optimiser.eps"),
            ("kind = 'adamw'\nnoise_correction = true\nnoise_floor = 0.0", "optimiser.noise_floor"),
            ("kind = 'adamw'\nnoise_correction = true\nnoise_floor = inf", "optimiser.noise_floor"),
            ("scale_first = true", "optimiser.scale_first"),
            ("kind = 'adam'\nscale_first = true\neps = 1e-8", "optimiser.eps"),
            ("kind = 'adamw'\nscale_first = true\nnoise_correction = true", "optimiser.noise_correction"),
            ("weight_decay = nan", "optimiser.weight_decay"),
            ("ema = 1.0", "optimiser.ema"),
            ("layer_decay = 0.0", "optimiser.layer_decay"),
            ("layer_decay = 1.5", "optimiser.layer_decay"),
            ("layer_decay = nan", "optimiser.layer_decay"),
        ] {
            let error = OptimiserPlan::check(&spec("optimiser", text).optimiser).unwrap_err();
            assert!(error.to_string().starts_with(key) && error.hint().is_some(), "{text}: {error}");
        }
        for (text, key) in [
            ("", "optimiser.learning_rate"),
            ("learning_rate = 0", "optimiser.learning_rate"),
            ("learning_rate = inf", "optimiser.learning_rate"),
            ("learning_rate = 1\nwarmup = 12", "optimiser.warmup"),
            ("learning_rate = 1\npoly_power = -1", "optimiser.poly_power"),
        ] {
            let error = LearningRate::check(&spec("optimiser", text).optimiser, 12).unwrap_err();
            assert!(error.to_string().starts_with(key) && error.hint().is_some(), "{text}: {error}");
        }
        for (text, key) in [
            ("label_smoothing = 1.0", "train.label_smoothing"),
            ("evaluate_every = 0", "train.evaluate_every"),
            ("checkpoint_every = 0", "train.checkpoint_every"),
        ] {
            let error = Conduct::check(&spec("train", text).train).unwrap_err();
            assert!(error.to_string().starts_with(key) && error.hint().is_some(), "{text}: {error}");
        }
    }
}
