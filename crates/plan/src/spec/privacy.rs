//! The `[privacy]` section: what is guaranteed, and the noise behind it.

use super::Delta;
use super::declare::{section, words};
use crate::Relation;

section! {
    /// The `[privacy]` section.
    pub struct Privacy = "privacy" {
        relation: Relation =
            ("the neighbouring relation, what may differ", "patch")
                .flag("relation", "NAME")
                .or("patch if a region is given, else add-remove");
        delta: Delta =
            ("the failure probability, a number between 0 and 1, or 1/n", "1e-5")
                .flag("delta", "D");
        epsilon: f64 =
            ("the epsilon to reach, a positive number", "8")
                .flag("epsilon", "E");
        noise_multiplier: f64 =
            ("the noise's standard deviation in units of the clip norm", "1.0")
                .flag("noise-multiplier", "S");
        max_grad_norm: f64 =
            ("the clip norm, a positive number", "1.0")
                .or("1");
        /// Andrew et al. 2021.
        clip_quantile: f64 =
            ("the share of gradients within the clip norm, which then follows it from step to step", "0.5")
                .or("a fixed clip norm");
        clip_rate: f64 =
            ("how fast the clip norm follows", "0.2")
                .or("0.2");
        count_noise: f64 =
            ("the noise's standard deviation on the number of gradients within the clip norm", "12.8")
                .or("batch / 20, at least the noise multiplier");
        records_per_clip: u64 =
            ("the number of records averaged and clipped together, a microbatch", "1")
                .flag("records-per-clip", "B")
                .or("1");
        accountant: Accountant =
            ("the accountant that answers", "pld")
                .flag("accountant", "NAME")
                .or("pld");
    }
}

words! {
    /// Which accountant answers.
    #[derive(Default)]
    pub enum Accountant {
        /// Privacy-loss distributions: tight, with a certified bracket.
        #[default]
        Pld = "pld",
        /// Rényi divergences: an upper bound only, as a second opinion.
        Rdp = "rdp",
    }
}
