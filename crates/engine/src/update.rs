//! The rules by which a noisy gradient moves parameters, the same for the host and the card.

/// The rule of an optimiser, written in the same symbols as PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum UpdateRule {
    /// `b = momentum b + g`, and `w -= rate b`, or `w -= rate (g + momentum b)` for Nesterov's momentum.
    Sgd {
        /// The share of the last update that is kept.
        momentum: f64,
        /// Whether the momentum is Nesterov's, which looks ahead.
        nesterov: bool,
    },
    /// `m = b m + (1 - b) g`, and `w -= rate m'`, where `m'` is corrected for having started at zero: Adam for gradients that are already divided
    /// by the root of their second moment.
    Mean {
        /// The decay `b` of the mean.
        decay: f64,
    },
    /// `m = b1 m + (1 - b1) g`, `v = b2 v + (1 - b2) g^2`, and `w -= rate m' / (sqrt(v') + eps)`, where `m'` and `v'` are corrected for
    /// having started at zero.
    Adam {
        /// The decays `b1` and `b2` of the two moments.
        betas: [f64; 2],
        /// A small number that keeps the quotient finite.
        eps: f64,
    },
    /// Adam with the noise's part taken off the second moment (DP-AdamBC, Tang et al. 2024): `w -= rate m' / sqrt(max(v' - n', floor))`.
    /// Here `n` is the same running mean of the noise's variance as `v` is of the squared gradients. As long as the noise stays the same,
    /// `n'` is its variance.
    CorrectedAdam {
        /// The decays `b1` and `b2` of the two moments.
        betas: [f64; 2],
        /// The least that may remain of the second moment.
        floor: f64,
    },
}

/// The numbers of one update, laid out as the card's kernel reads them. A number that the rule does not use is zero.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct UpdateNumbers {
    /// The learning rate, where there is a mean of gradients divided by its correction.
    pub rate: f32,
    /// The share of a value that weight decay leaves, `1 - rate decay`. Decay is decoupled: if it were part of a gradient, it would be
    /// clipped and noised with it.
    pub keep: f32,
    /// One over the expected batch, by which the card multiplies the noisy sum.
    pub share: f32,
    /// The share of the last update that is kept.
    pub momentum: f32,
    /// One over the root of the correction of Adam's second moment.
    pub root: f32,
    /// The decays of the two moments.
    pub betas: [f32; 2],
    /// One minus each decay.
    pub rest: [f32; 2],
    /// A small number that keeps Adam's quotient finite.
    pub eps: f32,
    /// The noise's part of the second moment, which is taken off it. Like the moment itself, it is not corrected for having started at zero.
    pub noise: f32,
    /// The least that may remain of the second moment, before the moment is corrected for having started at zero.
    pub floor: f32,
    /// One if the momentum is Nesterov's, else zero.
    pub nesterov: u32,
}

impl UpdateRule {
    /// How many numbers the rule remembers for `len` values: how many first moments, and how many second ones.
    #[must_use]
    pub fn state_len(self, len: usize) -> (usize, usize) {
        match self {
            Self::Sgd { momentum: 0.0, .. } => (0, 0),
            Self::Sgd { .. } | Self::Mean { .. } => (len, 0),
            Self::Adam { .. } | Self::CorrectedAdam { .. } => (len, len),
        }
    }

    /// The numbers of the `count`-th update, counted from 1, for this learning rate, weight decay and expected batch. `noise` is what
    /// [`UpdateRule::noise_part`] returned for this update.
    #[must_use]
    pub fn numbers(self, rate: f64, weight_decay: f64, batch: u64, count: u64, noise: f64) -> UpdateNumbers {
        let always = UpdateNumbers {
            rate: rate as f32,
            keep: (1.0 - rate * weight_decay) as f32,
            share: 1.0 / batch as f32,
            ..UpdateNumbers::default()
        };
        // The share of its final value that a running mean has reached if it started at zero.
        let power = |beta: f64| 1.0 - beta.powf(count as f64);
        let moments = |betas: [f64; 2]| UpdateNumbers {
            rate: (rate / power(betas[0])) as f32,
            root: (1.0 / power(betas[1]).sqrt()) as f32,
            betas: betas.map(|beta| beta as f32),
            rest: betas.map(|beta| (1.0 - beta) as f32),
            ..always
        };
        match self {
            Self::Mean { decay } => UpdateNumbers {
                rate: (rate / power(decay)) as f32,
                betas: [decay as f32, 0.0],
                rest: [(1.0 - decay) as f32, 0.0],
                ..always
            },
            Self::Sgd { momentum, nesterov } => {
                UpdateNumbers { momentum: momentum as f32, nesterov: nesterov.into(), ..always }
            }
            Self::Adam { betas, eps } => UpdateNumbers { eps: eps as f32, ..moments(betas) },
            Self::CorrectedAdam { betas, floor } => UpdateNumbers {
                noise: noise as f32,
                floor: (floor * power(betas[1])) as f32,
                ..moments(betas)
            },
        }
    }

    /// The noise's part of the second moment, not corrected for having started at zero, after an update whose gradient has noise of this
    /// variance in each coordinate. `before` is the part before the update. It is zero for rules that take nothing off.
    #[must_use]
    pub fn noise_part(self, before: f64, variance: f64) -> f64 {
        match self {
            Self::CorrectedAdam { betas: [_, beta], .. } => beta * before + (1.0 - beta) * variance,
            Self::Sgd { .. } | Self::Mean { .. } | Self::Adam { .. } => 0.0,
        }
    }

    /// Moves values against their gradient, which must already be divided by the expected batch. `first` and `second` are what the rule
    /// remembers; their lengths are those of [`UpdateRule::state_len`].
    pub fn update(
        self,
        numbers: &UpdateNumbers,
        values: &mut [f32],
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) {
        let UpdateNumbers { rate, keep, momentum, root, betas, rest, eps, noise, floor, .. } = *numbers;
        let pairs = values.iter_mut().zip(gradient);
        match self {
            Self::Sgd { momentum: 0.0, .. } => {
                pairs.for_each(|(value, g)| *value = *value * keep - rate * g);
            }
            Self::Sgd { nesterov, .. } => {
                for ((value, &g), b) in pairs.zip(first) {
                    *b = momentum * *b + g;
                    let direction = if nesterov { g + momentum * *b } else { *b };
                    *value = *value * keep - rate * direction;
                }
            }
            Self::Mean { .. } => {
                for ((value, &g), m) in pairs.zip(first) {
                    *m = betas[0] * *m + rest[0] * g;
                    *value = *value * keep - rate * *m;
                }
            }
            Self::Adam { .. } => {
                for (((value, &g), m), v) in pairs.zip(first).zip(second) {
                    *m = betas[0] * *m + rest[0] * g;
                    *v = betas[1] * *v + rest[1] * g * g;
                    *value = *value * keep - rate * *m / (v.sqrt() * root + eps);
                }
            }
            Self::CorrectedAdam { .. } => {
                for (((value, &g), m), v) in pairs.zip(first).zip(second) {
                    *m = betas[0] * *m + rest[0] * g;
                    *v = betas[1] * *v + rest[1] * g * g;
                    *value = *value * keep - rate * *m / ((*v - noise).max(floor).sqrt() * root);
                }
            }
        }
    }
}
