//! Runs with public images beside records, with labels of two classes, and with records that are clipped together, on both machines.

use dapple_plan::spec::{FactorPrecision, Performance};
use dapple_plan::{PlanSpec, spec};

use crate::{alone, common, cpu, gpu, losses, plan};

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
        let run = |performance: Performance| {
            let request = plan(folder.path(), "small-cnn", "learning_rate = 0.05", &performance);
            let pool = spec::MixSpec { pool: Some("pool".to_owned()), ..spec::MixSpec::default() };
            let layer = PlanSpec::from_toml(text).unwrap();
            let layer = layer.merge(&PlanSpec { mix: pool, ..PlanSpec::default() });
            let request = dapple_train::Request { spec: request.spec.merge(&layer), ..request };
            let device = performance.device.map(|device| device.to_string()).unwrap_or_default();
            losses(folder.path(), &format!("{name}-{device}"), &request)
        };
        let precision = Some(FactorPrecision::F32);
        let (processor, card) = (run(cpu()), run(Performance { precision, ..gpu() }));
        assert_eq!(processor.len(), card.len());
        let apart = processor.iter().zip(&card).map(|(one, other)| (one / other - 1.0).abs());
        let apart = apart.fold(0.0, f64::max);
        println!("{name}: losses {apart:.1e} apart");
        // Twenty steps at a small rate amplify the rounding of single precision, 1e-7, and the slack of norms, 1e-5, a little.
        assert!(apart < 1e-3, "{name}: {processor:?} {card:?}");
    }
}
