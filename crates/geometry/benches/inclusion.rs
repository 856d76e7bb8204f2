//! Every public operation that takes time. Run with `cargo bench -p dapple-geometry`.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use dapple_geometry::{
    CropDistribution, Filter, Mask, Operation, Padding, PaddingMode, Pipeline, Placement, Region, RegionPart,
    Size, heatmap, inclusion, inclusion_of_masks, views,
};

fn size(width: u32, height: u32) -> Size {
    Size::new(width, height).unwrap()
}

fn fixed(width: u32, height: u32) -> CropDistribution {
    CropDistribution::fixed(width, height).unwrap()
}

/// A disc with holes: no rectangle, runs of all lengths.
fn blob(size: Size) -> Mask {
    let (x, y) = (i64::from(size.width()), i64::from(size.height()));
    Mask::from_fn(size, |column, row| {
        let (dx, dy) = (2 * i64::from(column) - x, 2 * i64::from(row) - y);
        dx * dx + dy * dy <= x * y && (column ^ row) & 31 != 5
    })
    .unwrap()
}

/// Isolated pixels, one in about a thousand.
fn dust(size: Size) -> Mask {
    Mask::from_fn(size, |x, y| (x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca77)) % 1021 == 0)
        .unwrap()
}

fn pad(pixels: u32, mode: PaddingMode) -> Operation {
    Operation::Pad { padding: Padding::uniform(pixels), mode }
}

fn small(criterion: &mut Criterion) {
    let image = size(2048, 1024);
    let patch = Region::Rectangle(size(10, 10));
    let circle = Region::Circle { radius: 20.0 };
    let mut ask = |name: &str, region: &Region, placement, pipeline: &Pipeline| {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| inclusion(black_box(region), placement, image, pipeline).unwrap());
        });
    };
    let plain = Pipeline::crop(fixed(505, 505));
    let reflected = Pipeline::new(vec![pad(64, PaddingMode::Reflect)], fixed(505, 505)).unwrap();
    let resize = Operation::Resize { to: size(1024, 512), filter: Filter::Bicubic, antialias: true };
    let resized = Pipeline::new(vec![resize], fixed(505, 505)).unwrap();
    let random = Pipeline::crop(CropDistribution::resized((0.08, 1.0), (0.75, 4.0 / 3.0)).unwrap());
    ask("rectangle, closed form", &patch, Placement::Anywhere, &plain);
    ask("rectangle, reflected padding", &patch, Placement::Anywhere, &reflected);
    ask("rectangle, bicubic resize", &patch, Placement::Anywhere, &resized);
    ask("rectangle, random resized crop", &patch, Placement::Anywhere, &random);
    ask("circle anywhere", &circle, Placement::Anywhere, &plain);
    ask("circle anywhere, reflected padding", &circle, Placement::Anywhere, &reflected);
    ask("circle anywhere, bicubic resize", &circle, Placement::Anywhere, &resized);
    let mask = Region::Mask(blob(image));
    ask("mask annotated, random resized crop", &mask, Placement::Annotated, &random);

    let marked = blob(image);
    criterion.bench_function("influence, bicubic resize", |bencher| {
        bencher.iter(|| resized.influence(black_box(&marked)).unwrap());
    });
    criterion.bench_function("heat map, rectangle", |bencher| {
        bencher.iter(|| heatmap(black_box(&patch), image, &plain).unwrap());
    });
    criterion.bench_function("heat map, circle", |bencher| {
        bencher.iter(|| heatmap(black_box(&circle), image, &plain).unwrap());
    });
    criterion.bench_function("heat map, random resized crop", |bencher| {
        bencher.iter(|| heatmap(black_box(&patch), image, &random).unwrap());
    });
    criterion.bench_function("ten annotated masks", |bencher| {
        bencher.iter(|| inclusion_of_masks(std::iter::repeat_n(black_box(&marked), 10), &plain).unwrap());
    });
    criterion.bench_function("union to mask", |bencher| {
        let part = |x| RegionPart { x, y: x / 2, region: Region::Circle { radius: 30.0 } };
        let union = Region::Union(vec![part(0), part(100), part(200)]);
        bencher.iter(|| black_box(&union).to_mask().unwrap());
    });
    criterion.bench_function("views", |bencher| bencher.iter(|| views(black_box(0.01), 16).unwrap()));
}

fn large(criterion: &mut Criterion) {
    let image = size(8192, 8192);
    let mut group = criterion.benchmark_group("8192x8192");
    group.sample_size(10);
    group.bench_function("mask from bytes", |bencher| {
        let bytes = blob(image).bytes().to_vec();
        bencher.iter_batched(
            || bytes.clone(),
            |bytes| Mask::from_bytes(image, bytes).unwrap(),
            criterion::BatchSize::PerIteration,
        );
    });
    for (name, mask) in [("blob", blob(image)), ("dust", dust(image))] {
        let region = Region::Mask(mask);
        for crop in [32, 512, 4096, 8000] {
            let pipeline = Pipeline::crop(fixed(crop, crop));
            group.bench_function(format!("{name} annotated, crop {crop}"), |bencher| {
                bencher
                    .iter(|| inclusion(black_box(&region), Placement::Annotated, image, &pipeline).unwrap());
            });
        }
        let random = Pipeline::crop(CropDistribution::resized((0.08, 1.0), (0.75, 4.0 / 3.0)).unwrap());
        group.bench_function(format!("{name} annotated, random resized crop"), |bencher| {
            bencher.iter(|| inclusion(black_box(&region), Placement::Annotated, image, &random).unwrap());
        });
        let padded = Pipeline::new(vec![pad(128, PaddingMode::Reflect)], fixed(512, 512)).unwrap();
        group.bench_function(format!("{name} annotated, reflected padding, crop 512"), |bencher| {
            bencher.iter(|| inclusion(black_box(&region), Placement::Annotated, image, &padded).unwrap());
        });
    }
    for side in [64, 2048, 4096, 8000] {
        for (name, mask) in [("blob", blob(size(side, side))), ("dust", dust(size(side, side)))] {
            let region = Region::Mask(mask);
            for crop in [32, 512, 4096] {
                let pipeline = Pipeline::crop(fixed(crop, crop));
                group.bench_function(format!("{name} of {side} anywhere, crop {crop}"), |bencher| {
                    bencher.iter(|| {
                        inclusion(black_box(&region), Placement::Anywhere, image, &pipeline).unwrap()
                    });
                });
            }
        }
    }
    group.finish();
}

fn settings() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2))
}

criterion_group! {
    name = benches;
    config = settings();
    targets = small, large
}
criterion_main!(benches);
