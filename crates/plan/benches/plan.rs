//! Measures reading, checking, pricing and calibrating a plan.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};
use dapple_plan::{BracketPrecision, Plan, PlanSpec, Unknown, calibrate};

const PLAN: &str = r#"
[privacy]
relation = "patch"
delta = 1e-5
noise_multiplier = 1.0
[region]
patch = [10, 10]
[pipeline]
image = [1000, 1000]
crop = [100, 100]
[sampling]
scheme = "poisson"
batch = 100
records = 3000
epochs = 100
"#;

fn plans(c: &mut Criterion) {
    let spec = PlanSpec::from_toml(PLAN).unwrap();
    let plan = Plan::check(&spec).unwrap();
    let precision = BracketPrecision::default();
    c.bench_function("read a plan", |b| b.iter(|| PlanSpec::from_toml(PLAN)));
    c.bench_function("check a plan", |b| b.iter(|| Plan::check(&spec)));
    c.bench_function("price a plan", |b| b.iter(|| plan.price(precision)));
    c.bench_function("price a plan by rényi divergences", |b| b.iter(|| plan.price_rdp()));
    for (name, settings) in [
        ("price one appearance in 1000 steps", &[("sampling", "balanced"), ("steps", "1000")][..]),
        (
            "price ten appearances in 1000 steps",
            &[("sampling", "balanced"), ("steps", "1000"), ("per-record", "10")],
        ),
        ("price three submodels", &[("submodels", "3"), ("batch", "300"), ("steps", "1000")]),
        (
            "price a partial split",
            &[("submodels", "3"), ("split-fraction", "0.8"), ("batch", "300"), ("steps", "1000")],
        ),
    ] {
        let mut spec = PlanSpec::default();
        let base = [("records", "3000"), ("noise-multiplier", "1"), ("delta", "1e-5")];
        for (key, value) in base.iter().chain(settings) {
            spec.set(key, value).unwrap();
        }
        let plan = Plan::check(&spec).unwrap();
        c.bench_function(name, |b| b.iter(|| plan.price(precision)));
    }
    let certificate = plan.price(precision).unwrap();
    c.bench_function("write a statement", |b| b.iter(|| certificate.statement()));
    let mut target = spec.clone();
    target.set("epsilon", "0.5").unwrap();
    for unknown in [Unknown::NoiseMultiplier, Unknown::Crop, Unknown::Steps] {
        c.bench_function(&format!("calibrate {unknown:?}"), |b| {
            b.iter(|| calibrate(&target, &[], unknown, precision));
        });
    }
}

criterion_group!(benches, plans);
criterion_main!(benches);
