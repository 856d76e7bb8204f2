//! `[train]`: how the run is carried out.

use super::declare::{section, words};

section! {
    /// `[train]`: how the run is carried out.
    pub struct TrainSpec = "train" {
        clipping: ClippingKind =
            ("how a record's gradient is bounded", "flat")
                .or("flat");
        seed: u64 =
            ("the seed of all randomness, for tests only: whoever knows it is promised nothing", "1");
        evaluate_every: u64 =
            ("the number of steps between two evaluations", "100")
                .or("only at the end");
        evaluation_grid: u32 =
            ("the number of crops along each side of an image whose answers are averaged in evaluation", "4")
                .or("1");
        evaluation: EvaluationKind =
            ("how images with label maps are looked at in evaluation", "sliding")
                .or("whole");
        evaluation_stride: f64 =
            ("the step from one window to the next, as a share of the window, for sliding evaluation", "0.5")
                .or("2/3");
        measure: ClassMeasure =
            ("what a model that gives an image one class is judged by", "class-accuracy")
                .or("accuracy");
        checkpoint_every: u64 =
            ("the number of steps between two checkpoints", "100");
        /// They come straight from private records.
        gradient_norms: bool =
            ("whether histograms of gradient norms are kept in the private part of the run folder", "true")
                .or("false");
        /// Losses and numbers of records go into the private part, and what is public lies beside the run.
        tensorboard: bool =
            ("whether event files for TensorBoard are written", "true")
                .or("false");
        /// If the plan gives steps, training takes at most that many.
        until_budget: bool =
            ("whether to train until privacy.epsilon is spent", "true")
                .or("false");
        label_smoothing: f64 =
            ("the weight of the uniform distribution in the labels", "0.1")
                .or("0");
        /// `false` trains by the same steps without clipping and noise.
        private: bool =
            ("whether gradients are clipped and noised", "true")
                .or("true");
    }
}

words! {
    /// How images with label maps are looked at in evaluation.
    #[derive(Default)]
    pub enum EvaluationKind {
        /// Each image at once.
        #[default]
        Whole = "whole",
        /// Window by window, each of the size of a crop.
        Sliding = "sliding",
    }
}

words! {
    /// What a model that gives an image one class is judged by.
    #[derive(Default)]
    pub enum ClassMeasure {
        /// The share of images whose class is right.
        #[default]
        Accuracy = "accuracy",
        /// The mean of that share over the classes, each of which counts the same however rare it is.
        ClassAccuracy = "class-accuracy",
    }
}

words! {
    /// How a record's gradient is bounded.
    #[derive(Default)]
    pub enum ClippingKind {
        /// The whole gradient at once.
        #[default]
        Flat = "flat",
        /// Every gradient is scaled to nearly the bound.
        Automatic = "automatic",
        /// Each layer by itself, all together within the bound.
        PerLayer = "per-layer",
    }
}
