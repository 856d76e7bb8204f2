//! Runs with public images beside records, with labels of two classes, and with records that are clipped together, on both machines.

use dapple_plan::{PlanSpec, spec};

use crate::{alone, common, follows_the_processor};

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn mixed_records_follow_the_processor() {
    let (_card, folder) = alone();
    common::write_pool(&folder.path().join("pool"), 20, 20);
    for (name, text) in [
        ("synthetic", "pipeline.views = 2\nmix.synthetic = 2"),
        ("mixed", "pipeline.views = 2\nmix.synthetic = 2\nmix.self_mix = 3"),
        ("grouped", "privacy.records_per_clip = 3"),
        ("mixed-groups", "privacy.records_per_clip = 2\nmix.synthetic = 1\nmix.self_mix = 2"),
    ] {
        let pool = spec::MixSpec { pool: Some("pool".to_owned()), ..spec::MixSpec::default() };
        let layer = PlanSpec::from_toml(text).unwrap();
        let layer = layer.merge(&PlanSpec { mix: pool, ..PlanSpec::default() });
        follows_the_processor(folder.path(), name, "small-cnn", &layer);
    }
}
