//! Every public operation of the accountant on the questions users ask.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};
use dapple_accounting::calibrate::{PrivacyTarget, largest_integer, smallest};
use dapple_accounting::rdp::Rdp;
use dapple_accounting::{BracketPrecision, Distances, Participation, Pld, Substitution, baselines};

const PRECISION: BracketPrecision = BracketPrecision { relative: 1e-3 };

fn poisson(steps: u64) -> Pld {
    Pld::poisson_gaussian(0.01, 1.0).unwrap().self_compose(steps)
}

fn patch(rate: f64, inclusion: f64, steps: u64) -> Pld {
    let affected = rate * inclusion;
    let participation = Participation { absent: 1.0 - rate, unaffected: rate - affected, affected };
    let distances = Distances { absent: 1.0, unaffected: 2.0, affected: 2.0 };
    Pld::substitution(Substitution::new(participation, distances, 1.0).unwrap()).self_compose(steps)
}

fn answers(c: &mut Criterion) {
    let mut group = c.benchmark_group("epsilon");
    for steps in [1_000, 10_000, 100_000, 1_000_000] {
        let pld = poisson(steps);
        group.bench_function(format!("poisson, {steps} steps"), |b| b.iter(|| pld.epsilon(1e-5, PRECISION)));
    }
    let tiny = poisson(1_000);
    group.bench_function("poisson, delta 1e-14", |b| b.iter(|| tiny.epsilon(1e-14, PRECISION)));
    let crops = patch(100.0 / 3000.0, 0.014_635_360_143_680_533, 3_000);
    group.bench_function("poisson with crops", |b| b.iter(|| crops.epsilon(1e-5, PRECISION)));
    let mixed = poisson(5_000).compose(&Pld::poisson_gaussian(0.02, 1.5).unwrap().self_compose(5_000));
    group.bench_function("two phases", |b| b.iter(|| mixed.epsilon(1e-5, PRECISION)));
    let gaussian = Pld::gaussian(1.0, 10.0).unwrap().self_compose(100);
    group.bench_function("gaussian closed form", |b| b.iter(|| gaussian.epsilon(1e-5, PRECISION)));
    let laplace = Pld::laplace(0.1).unwrap().self_compose(20);
    group.bench_function("laplace", |b| b.iter(|| laplace.epsilon(1e-5, PRECISION)));
    let noise = baselines::data_level_noise(100, 3, 1000.0).unwrap();
    group.bench_function("data-level noise", |b| b.iter(|| noise.epsilon(1e-5, PRECISION)));
    group.finish();

    let pld = poisson(10_000);
    let points = |n: u32| (1..=n).map(|i| 10.0 * f64::from(i) / f64::from(n)).collect::<Vec<f64>>();
    let mut group = c.benchmark_group("profile");
    group.bench_function("1 point", |b| b.iter(|| pld.profile(&points(1), PRECISION)));
    group.bench_function("200 points", |b| b.iter(|| pld.profile(&points(200), PRECISION)));
    group.bench_function("trade-off curve", |b| b.iter(|| pld.trade_off(&[0.01, 0.1, 0.5], PRECISION)));
    group.finish();

    let product = Pld::gaussian(1.0, 1.0).unwrap().compose(&Pld::laplace(0.5).unwrap());
    c.bench_function("subsample a product", |b| b.iter(|| product.subsample_poisson(0.01)));
}

fn searches(c: &mut Criterion) {
    let target = PrivacyTarget { epsilon: 8.0, delta: 1e-5 };
    let rate = 4096.0 / 50_000.0;
    let mut group = c.benchmark_group("calibrate");
    group.bench_function("noise multiplier", |b| {
        b.iter(|| {
            let family = |sigma: f64| Ok(Pld::poisson_gaussian(rate, sigma)?.self_compose(2441));
            smallest("noise multiplier", (0.05, 1e4), target, PRECISION, family)
        });
    });
    group.bench_function("steps", |b| {
        b.iter(|| largest_integer("steps", (1, 10_000_000), target, PRECISION, |n| Ok(poisson(n))));
    });
    group.finish();
    let rdp = Rdp::poisson_gaussian(0.01, 1.0).unwrap().self_compose(10_000);
    c.bench_function("rényi epsilon", |b| b.iter(|| rdp.epsilon(1e-5)));
}

criterion_group!(benches, answers, searches);
criterion_main!(benches);
