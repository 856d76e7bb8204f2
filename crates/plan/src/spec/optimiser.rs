//! `[optimiser]`: what happens to the noisy gradient.

use super::declare::{section, words};

section! {
    /// `[optimiser]`: what happens to the noisy gradient.
    pub struct OptimiserSpec = "optimiser" {
        kind: OptimiserKind =
            ("the rule of the optimiser", "sgd")
                .or("sgd");
        learning_rate: f64 =
            ("the largest learning rate, a positive number", "0.1");
        momentum: f64 =
            ("the momentum of sgd, from 0 to below 1", "0.9")
                .or("0");
        nesterov: bool =
            ("whether the momentum looks ahead", "true")
                .or("false");
        betas: [f64; 2] =
            ("the decay of the two moments of adam", "[0.9, 0.999]")
                .or("[0.9, 0.999]");
        eps: f64 =
            ("what adam adds to the root of its second moment", "1e-8")
                .or("1e-8");
        /// "Scale then privatise", by one scale for each parameter.
        scale_first: bool =
            ("whether adam divides gradients by the root of their second moment before they are clipped, not after the noise", "true")
                .or("false");
        /// DP-AdamBC (Tang et al. 2024).
        noise_correction: bool =
            ("whether adam takes the variance of the noise off its second moment", "true")
                .or("false");
        noise_floor: f64 =
            ("the least that noise_correction leaves of adam's second moment", "5e-8")
                .or("5e-8");
        /// Never part of a clipped gradient.
        weight_decay: f64 =
            ("the decoupled weight decay", "0.01")
                .or("0, for adamw 0.01");
        layer_decay: f64 =
            ("the share of a block's learning rate that the block before it has", "0.75")
                .or("1");
        schedule: ScheduleKind =
            ("how the learning rate changes over the run", "cosine")
                .or("constant");
        poly_power: f64 =
            ("the power of the poly schedule", "1.0")
                .or("1");
        warmup: u64 =
            ("the number of steps in which the learning rate rises", "100")
                .or("0");
        ema: f64 =
            ("the decay of the running mean of the weights", "0.999")
                .or("no mean");
    }
}

words! {
    /// The rule of an optimiser.
    #[derive(Default)]
    pub enum OptimiserKind {
        /// Gradient descent, with momentum if one is given.
        #[default]
        Sgd = "sgd",
        /// Adam.
        Adam = "adam",
        /// Adam with its usual weight decay.
        Adamw = "adamw",
    }
}

words! {
    /// How the learning rate changes over the run.
    #[derive(Default)]
    pub enum ScheduleKind {
        /// Not at all.
        #[default]
        Constant = "constant",
        /// Half a cosine down to zero.
        Cosine = "cosine",
        /// A power of the steps left.
        Poly = "poly",
    }
}
