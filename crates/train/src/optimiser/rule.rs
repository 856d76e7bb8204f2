//! The rules by which a gradient moves a value.

use dapple_plan::spec::{OptimiserKind, OptimiserSpec};

use super::Piece;
use crate::error::TrainError;

/// AdamW's decay where the plan gives none, as PyTorch has it.
const ADAMW_DECAY: f64 = 0.01;

/// The rule of an optimiser, in the same symbols and with the same defaults as PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// `b = momentum b + g`, and `w -= rate b`, or `w -= rate (g + momentum b)` where it looks ahead.
    Sgd {
        /// Share of the last update that is kept.
        momentum: f64,
        /// Whether the momentum looks ahead.
        nesterov: bool,
    },
    /// `m = b1 m + (1 - b1) g`, `v = b2 v + (1 - b2) g^2`, and `w -= rate m' / (sqrt(v') + eps)` with both corrected for their start.
    Adam {
        /// Decay of both moments.
        betas: [f64; 2],
        /// Keeps the quotient finite.
        eps: f64,
    },
}

impl Rule {
    /// The rule of a plan, and its weight decay.
    pub(super) fn new(spec: &OptimiserSpec) -> Result<(Self, f64), TrainError> {
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
        if !adam {
            let momentum = share("optimiser.momentum", spec.momentum.unwrap_or(0.0))?;
            let nesterov = spec.nesterov.unwrap_or(false);
            if nesterov && momentum == 0.0 {
                return Err(wrong("optimiser.nesterov", "it needs a momentum".to_owned()));
            }
            return Ok((Self::Sgd { momentum, nesterov }, decay));
        }
        let betas = spec.betas.unwrap_or([0.9, 0.999]);
        share("optimiser.betas", betas[0])?;
        share("optimiser.betas", betas[1])?;
        let eps = spec.eps.unwrap_or(1e-8);
        if !(eps > 0.0 && eps.is_finite()) {
            return Err(wrong("optimiser.eps", format!("{eps} is not a positive number")));
        }
        Ok((Self::Adam { betas, eps }, decay))
    }

    /// Numbers remembered for `len` values: of the first kind, and of the second.
    pub(super) fn state_len(self, len: usize) -> (usize, usize) {
        match self {
            Self::Sgd { momentum: 0.0, .. } => (0, 0),
            Self::Sgd { .. } => (len, 0),
            Self::Adam { .. } => (len, len),
        }
    }

    /// The rule with the numbers of one update, the `count`-th.
    pub(super) fn step(self, rate: f64, count: u64) -> Step {
        match self {
            Self::Sgd { momentum: 0.0, .. } => Step::Plain { rate: rate as f32 },
            Self::Sgd { momentum, nesterov } => {
                Step::Momentum { rate: rate as f32, momentum: momentum as f32, nesterov }
            }
            Self::Adam { betas, eps } => {
                let power = |beta: f64| 1.0 - beta.powf(count as f64);
                Step::Adam {
                    rate: (rate / power(betas[0])) as f32,
                    root: (1.0 / power(betas[1]).sqrt()) as f32,
                    betas: betas.map(|beta| beta as f32),
                    rest: betas.map(|beta| (1.0 - beta) as f32),
                    eps: eps as f32,
                }
            }
        }
    }
}

/// One update's numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Plain { rate: f32 },
    Momentum { rate: f32, momentum: f32, nesterov: bool },
    Adam { rate: f32, root: f32, betas: [f32; 2], rest: [f32; 2], eps: f32 },
}

impl Step {
    /// `keep` is what weight decay leaves of a value.
    pub(super) fn update(self, keep: f32, piece: Piece<'_>) {
        let Piece { values, gradient, first, second } = piece;
        let pairs = values.iter_mut().zip(gradient);
        match self {
            Self::Plain { rate } => pairs.for_each(|(value, g)| *value = *value * keep - rate * g),
            Self::Momentum { rate, momentum, nesterov } => {
                for ((value, &g), b) in pairs.zip(first) {
                    *b = momentum * *b + g;
                    let direction = if nesterov { g + momentum * *b } else { *b };
                    *value = *value * keep - rate * direction;
                }
            }
            Self::Adam { rate, root, betas, rest, eps } => {
                for (((value, &g), m), v) in pairs.zip(first).zip(second) {
                    *m = betas[0] * *m + rest[0] * g;
                    *v = betas[1] * *v + rest[1] * g * g;
                    *value = *value * keep - rate * *m / (v.sqrt() * root + eps);
                }
            }
        }
    }
}

#[cfg(feature = "cuda")]
impl From<Step> for dapple_engine::cuda::UpdateRule {
    fn from(step: Step) -> Self {
        match step {
            Step::Plain { rate } => Self::Plain { rate },
            Step::Momentum { rate, momentum, nesterov } => Self::Momentum { rate, momentum, nesterov },
            Step::Adam { rate, root, betas, rest, eps } => Self::Adam { rate, root, betas, rest, eps },
        }
    }
}
