//! Runs whose noise cancels across steps, on both machines.

use dapple_plan::PlanSpec;

use crate::{alone, follows_the_processor};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn runs_with_correlated_noise_follow_the_processor() {
    let (_card, folder) = alone();
    for (name, model, text) in [
        ("square-root", "small-cnn", "noise.bands = 4"),
        ("optimised", "small-cnn", "noise.bands = 3\nnoise.coefficients = 'optimised'\npipeline.views = 2"),
        (
            "submodels",
            "small-hybrid",
            "noise.bands = 2\npartition.submodels = 2\npartition.blocks = ['blocks.0..blocks.3']\npartition.split_fraction = 0.9",
        ),
    ] {
        follows_the_processor(folder.path(), name, model, &PlanSpec::from_toml(text).unwrap());
    }
}
