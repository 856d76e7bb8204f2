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
                "wrn-16-4",
                "wrn-40-4",
                "resnet-18",
                "resnet-34",
                "resnet-50",
                "resnet-101",
                "vgg-11",
                "vgg-16",
                "mobilenet-v2",
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
        weights: String =
            ("the file of the initial weights", "pretrained.safetensors")
                .file();
        backbone_weights: String =
            ("the file of a classifier that gives the initial weights of the backbone", "resnet18.safetensors")
                .file();
        trainable: Vec<String> =
            ("a list of prefixes of the parameters that train", "[\"fc\"]")
                .or("all");
        seed: u64 =
            ("the seed of initial weights that no file gives", "0")
                .or("0");
    }
}

words! {
    /// What stands in the place of batch norm.
    #[derive(Default)]
    pub enum NormSpec {
        /// Group norm.
        #[default]
        Group = "group",
        /// Batch norm with stored statistics; nothing of it trains.
        Frozen = "frozen",
        /// Nothing.
        Removed = "removed",
    }
}
