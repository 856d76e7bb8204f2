//! Runs of split models on both machines.

use dapple_plan::PlanSpec;

use crate::{alone, follows_the_processor};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn split_models_follow_the_processor() {
    let (_card, folder) = alone();
    for (name, model, text) in [
        (
            "submodels",
            "small-hybrid",
            "partition.submodels = 2\npartition.blocks = ['blocks.0..blocks.3']\npartition.split_fraction = 0.9",
        ),
        (
            "dropout",
            "small-cnn",
            "model.head_dropout = 0.5\npartition.dropout = 0.5\npartition.split_fraction = 0.6\npipeline.views = 2",
        ),
    ] {
        follows_the_processor(folder.path(), name, model, &PlanSpec::from_toml(text).unwrap());
    }
}
