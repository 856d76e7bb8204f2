//! Which parts of the model a record updates, and what its public tokens do.

use serde::{Deserialize, Serialize};

use super::declare::{section, words};

section! {
    /// The `[partition]` section.
    pub struct PartitionSpec = "partition" {
        submodels: u32 =
            ("the number of disjoint submodels, of which each record updates one a step", "2")
                .flag("submodels", "D");
        mixture: Vec<PartitionShare> =
            ("a list of [submodels, probability], partitions of which each record draws one a step", "[[2, 0.5], [4, 0.5]]");
        /// Pricing alone needs no names.
        blocks: Vec<String> =
            ("the residual blocks that are dealt out to the submodels, or ranges of them", "[\"layer3.1..layer3.5\"]");
        predict: PredictionModel =
            ("what answers after training: the model with all its blocks, or the mean of its submodels' probabilities", "ensemble")
                .or("all");
        split_fraction: f64 =
            ("the share of the trained parameters that is split; sets both clip norms", "0.5")
                .flag("split-fraction", "F")
                .or("1 for a split model");
        dropout: f64 =
            ("the dropout rate that splits the model, 0.5, at which all its dropout layers train", "0.5")
                .flag("dropout", "RATE");
        split_norm: f64 =
            ("the clip norm of the split part, in clip norms", "1.0")
                .flag("split-norm", "C")
                .or("1 for a split model");
        nonsplit_norm: f64 =
            ("the clip norm of the part that is not split, in clip norms", "0.5")
                .flag("nonsplit-norm", "C")
                .or("0 for a split model");
    }
}

section! {
    /// The `[masked]` section.
    pub struct Masked = "masked" {
        content: MaskedContent =
            ("how the private tokens of neighbours differ: other content, or none", "substitute")
                .flag("masked-content", "CONTENT")
                .or("substitute for the masked relation");
        public_gradient: PublicGradient =
            ("where the gradient of public tokens comes from", "decoupled")
                .flag("public-gradient", "MODE")
                .or("decoupled for the masked relation");
        public_clip: f64 =
            ("the clip norm of public gradients in private clip norms, for coupled-clipped", "1.0")
                .flag("public-clip", "CU");
        pass: MaskedPass =
            ("how a model sees the private, or the public, part of an image alone", "tokens")
                .flag("masked-pass", "PASS")
                .or("tokens for vision transformers and MViT, pooled for models that take one mean over their features at last, blank for others");
        public_weight: f64 =
            ("the weight of public gradients beside private ones, not for coupled-clipped", "1.0")
                .or("1");
    }
}

words! {
    /// How a model sees a part of an image alone.
    pub enum MaskedPass {
        /// The tokens of the part are all that it attends to and pools.
        Tokens = "tokens",
        /// The pixels of the other part show a constant, and its last mean is over the features that lie over the part.
        Pooled = "pooled",
        /// The pixels of the other part show a constant.
        Blank = "blank",
    }
}

words! {
    /// How the private tokens of one record differ between neighbours.
    pub enum MaskedContent {
        /// They have any other content.
        Substitute = "substitute",
        /// They are not there, so that the record has no private gradient.
        Remove = "remove",
    }
}

words! {
    /// What answers after a split model was trained.
    #[derive(Default)]
    pub enum PredictionModel {
        /// The model with all its blocks.
        #[default]
        All = "all",
        /// All submodels, of whose probabilities the mean is taken.
        Ensemble = "ensemble",
    }
}

words! {
    /// Where the gradient of the public tokens comes from.
    pub enum PublicGradient {
        /// An independently drawn batch.
        Decoupled = "decoupled",
        /// The sampled records, whose public gradients are clipped as well.
        CoupledClipped = "coupled-clipped",
        /// The sampled records, whose public gradients are not clipped.
        Coupled = "coupled",
    }
}

/// A way to split the model: its number of submodels, and the probability with which a record draws it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartitionShare(pub u32, pub f64);
