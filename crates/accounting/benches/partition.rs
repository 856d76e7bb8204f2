//! Split models and allocated records: building their distributions and asking for epsilon, together.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use criterion::{Criterion, criterion_group, criterion_main};
use dapple_accounting::partition::rdp::{Bound, PartitionRdp};
use dapple_accounting::{BracketPrecision, Partition, Pld, RandomAllocation};

const PRECISION: BracketPrecision = BracketPrecision { relative: 1e-3 };
const DELTA: f64 = 1e-5;

fn allocations(c: &mut Criterion) {
    let mut group = c.benchmark_group("allocation");
    group.sample_size(10);
    for (name, steps, per_record, sigma) in [
        ("1 of 1000, noise 1", 1000, 1, 1.0),
        ("10 of 1000, noise 1", 1000, 10, 1.0),
        ("100 of 1000, noise 2", 1000, 100, 2.0),
        ("655 of 2000, noise 10", 2000, 655, 10.0),
        ("700 of 1000, noise 10", 1000, 700, 10.0),
        ("4 of 10, noise 2", 10, 4, 2.0),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                RandomAllocation::new(steps, per_record, sigma).unwrap().epsilon(DELTA, PRECISION).unwrap()
            });
        });
    }
    group.finish();
}

fn splits(c: &mut Criterion) {
    let sampled = |pld: Pld| pld.subsample_poisson(0.1).unwrap().self_compose(1000).epsilon(DELTA, PRECISION);
    let mut group = c.benchmark_group("split, rate 0.1, 1000 steps");
    group.sample_size(10);
    group.bench_function("8 submodels", |b| b.iter(|| sampled(Pld::split(8, 2.0).unwrap())));
    group.bench_function("8 submodels beside a shared part", |b| {
        b.iter(|| sampled(Pld::partial_split(8, 0.5, 0.5, 1.4).unwrap()));
    });
    group.bench_function("dropout", |b| b.iter(|| sampled(Pld::dropout(0.5, 0.5, 0.5, 1.4).unwrap())));
    let partitions =
        [(0.5, 2), (0.3, 4), (0.2, 8)].map(|(probability, submodels)| Partition { probability, submodels });
    group.bench_function("a mixture of three partitions", |b| {
        b.iter(|| sampled(Pld::split_mixture(&partitions, 0.5, 0.5, 1.4).unwrap()));
    });
    group.finish();
}

fn renyi(c: &mut Criterion) {
    let mut group = c.benchmark_group("rényi divergences of partitions");
    group.sample_size(10);
    group.bench_function("equation (2), 1 of 1000, 255 orders", |b| {
        b.iter(|| PartitionRdp::new(1000, 1, 1.0, Bound::Exact).unwrap());
    });
    group.bench_function("equation (2), 4 of 10, orders within reach", |b| {
        b.iter(|| PartitionRdp::new(10, 4, 2.0, Bound::Exact).unwrap());
    });
    group.bench_function("equation (3), 655 of 2000, 255 orders", |b| {
        b.iter(|| PartitionRdp::new(2000, 655, 10.0, Bound::Convexity).unwrap());
    });
    group.finish();
}

criterion_group!(benches, allocations, splits, renyi);
criterion_main!(benches);
