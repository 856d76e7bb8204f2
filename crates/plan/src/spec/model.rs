//! `[model]`: what is trained.

use super::declare::{section, words};

section! {
    /// `[model]`: what is trained.
    pub struct ModelSpec = "model" {
        name: String =
            ("the name of a model", "small-cnn")
                .words(&[
                "linear",
                "small-cnn",
                "small-hybrid",
                "small-clip",
                "wrn-16-4",
                "wrn-40-4",
                "resnet-18",
                "resnet-34",
                "resnet-50",
                "resnet-101",
                "vgg-11",
                "vgg-16",
                "mobilenet-v2",
                "convnext-t",
                "convnext-s",
                "convnext-b",
                "convnext-l",
                "vit-ti-16",
                "vit-s-16",
                "vit-b-16",
                "vit-l-16",
                "vit-ti-4",
                "vit-s-4",
                "vit-ti-8",
                "vit-s-8",
                "vit-b-8",
                "vit-l-8",
                "vit-ti-32",
                "vit-s-32",
                "vit-b-32",
                "vit-l-32",
                "mvit-v2-s",
                "mvit-v2-b",
                "mc3-18",
                "small-fcn",
                "deeplab-v3-plus-resnet-18",
                "deeplab-v3-plus-resnet-34",
                "deeplab-v3-plus-resnet-50",
                "deeplab-v3-plus-resnet-101",
                "deeplab-v3-plus-mobilenet-v2",
                "psp-net-resnet-18",
                "psp-net-resnet-34",
                "psp-net-resnet-50",
                "psp-net-resnet-101",
            ]);
        norm: NormSpec =
            ("what stands in the place of batch norm", "group")
                .or("group");
        output_stride: u32 =
            ("the number of pixels, 8 or 16, between positions of the last features of deeplab-v3-plus", "16")
                .or("16");
        pooling: PoolingSpec =
            ("what the classifier of a vision transformer reads", "class-token")
                .or("class-token");
        head_dropout: f64 =
            ("the rate of dropout in front of the last layer, for classifiers that end in a linear one", "0.5")
                .or("none");
        weights: String =
            ("the file of the initial weights", "pretrained.safetensors")
                .file();
        backbone_weights: String =
            ("the file of a classifier that gives the initial weights of the backbone", "resnet18.safetensors")
                .file();
        trainable: Vec<String> =
            ("a list of prefixes of the parameters that train", "[\"fc\"]")
                .or("all")
                .instead_of(&["model.tune", "model.last"]);
        tune: TuneSpec =
            ("the part of the model that trains; the last layers always do", "lora")
                .or("all")
                .instead_of(&["model.trainable", "model.last"]);
        last: u32 =
            ("the number of blocks at the end that train, with what follows them", "2")
                .instead_of(&["model.trainable", "model.tune"]);
        lora_rank: u32 =
            ("the rank of the adapters of tune = \"lora\"", "8")
                .or("8");
        lora_alpha: f64 =
            ("the factor of those adapters, times their rank", "16")
                .or("16");
        lora_targets: Vec<String> =
            ("a list of names, or parts of names, of the layers with an adapter", "[\"attn.qkv\"]")
                .or("all linear layers but the last, or all convolutions");
        seed: u64 =
            ("the seed of initial weights that no file gives", "0")
                .or("0");
    }
}

words! {
    /// What stands in place of batch norm.
    #[derive(Default)]
    pub enum NormSpec {
        /// Group norm.
        #[default]
        Group = "group",
        /// Batch norm with stored statistics, of which nothing trains.
        Frozen = "frozen",
        /// Nothing.
        Removed = "removed",
    }
}

words! {
    /// What the classifier of a vision transformer reads.
    #[derive(Default)]
    pub enum PoolingSpec {
        /// The class token.
        #[default]
        ClassToken = "class-token",
        /// The mean over all patches.
        Mean = "mean",
    }
}

words! {
    /// The part of a model that trains.
    #[derive(Default)]
    pub enum TuneSpec {
        /// Everything that the architecture does not freeze.
        #[default]
        All = "all",
        /// The last layers.
        Head = "head",
        /// Scales and shifts of norms.
        Norms = "norms",
        /// Every bias (BitFit).
        Bias = "bias",
        /// Adapters of low rank.
        Lora = "lora",
    }
}
