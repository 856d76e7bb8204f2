//! Measures what it costs to bring records to the model: decoding, cropping, drawing records. Run it by `cargo bench -p dapple-data`.
#![allow(clippy::unwrap_used, missing_docs, reason = "a bench")]

use std::hint::black_box;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use dapple_data::formats::{PackedImages, decode};
use dapple_data::scenes::{FashionScenes, ScenePart};
use dapple_data::segmentation::ClassMap;
use dapple_data::street::StreetScenes;
use dapple_data::{
    DataLimits, Dataset, Image, LabelMap, Loader, LoaderKeys, LoaderOptions, MasterKey, Purpose, Sampler,
    SamplerKeys, Values, ViewPlan, Views,
};
use dapple_geometry::Size;
use dapple_plan::{Plan, PlanSpec};
use image::{GrayImage, ImageFormat, Luma, Rgb, RgbImage};

fn spec(text: &str) -> PlanSpec {
    PlanSpec::from_toml(&format!("[privacy]\ndelta = 1e-5\nnoise_multiplier = 1.0\n{text}")).unwrap()
}

fn view_plan(text: &str) -> ViewPlan {
    ViewPlan::check(&spec(text).data).unwrap()
}

fn plan(text: &str) -> Plan {
    Plan::check(&spec(text)).unwrap()
}

/// A picture that compresses like a photograph, because it is smooth and has some texture.
fn picture(side: u32) -> RgbImage {
    RgbImage::from_fn(side, side, |x, y| {
        let texture = (x * 7919 + y * 104_729) % 23;
        Rgb([(x / 2 + texture) as u8, (y / 2 + texture) as u8, ((x + y) / 4 + texture) as u8])
    })
}

fn decoding(criterion: &mut Criterion) {
    for (name, format) in
        [("jpeg", ImageFormat::Jpeg), ("png", ImageFormat::Png), ("webp", ImageFormat::WebP)]
    {
        let mut bytes = Cursor::new(Vec::new());
        picture(256).write_to(&mut bytes, format).unwrap();
        let bytes = bytes.into_inner();
        criterion.bench_function(&format!("decode {name} 256x256"), |bencher| {
            bencher.iter(|| decode(black_box(&bytes), Path::new("bench"), &DataLimits::default()).unwrap());
        });
    }
}

fn views(criterion: &mut Criterion) {
    let sampling = "[sampling]\nbatch = 1\nrecords = 10\nsteps = 1";
    for (name, pipeline, data, side, channels) in [
        ("crop 32x32 of 128x128, 1 channel", "crop = [32, 32]", "", 128, 1),
        (
            "reflect pad 4, crop 32x32, flip, 3 channels",
            "crop = [32, 32]\npad = 4\npad_mode = \"reflect\"",
            "flip = true",
            32,
            3,
        ),
        ("crop 224x224 of 256x256, 3 channels", "crop = [224, 224]", "", 256, 3),
        (
            "random resized crop of 256x256 to 224x224, 3 channels",
            "crop_scale = [0.08, 1.0]",
            "size = [224, 224]",
            256,
            3,
        ),
        (
            "resize 512x512 to 256x256, crop 224x224, 3 channels",
            "operations = [\"resize 256x256\"]\ncrop = [224, 224]",
            "",
            512,
            3,
        ),
    ] {
        let plan = plan(&format!("{sampling}\n[pipeline]\n{pipeline}"));
        let size = Size::new(side, side).unwrap();
        let bytes: Vec<u8> = (0..side * side * channels).map(|value| (value * 31 % 251) as u8).collect();
        let dataset =
            PackedImages::new(Path::new("bench"), size, channels as usize, bytes.clone(), vec![0], 1)
                .unwrap();
        let views = Views::new(plan.spatial(), &view_plan(&format!("[data]\n{data}")), &dataset).unwrap();
        let image = Image::new(size, channels as usize, Values::Bytes(bytes)).unwrap();
        let mut output = vec![0.0; views.view_length()];
        let mut random = MasterKey::from_seed(1).purpose(Purpose::Views).step(0).stream(0);
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| views.draw(black_box(&image), &mut random, &mut output).unwrap());
        });
    }
}

/// What each augmentation adds to a crop of 224x224.
fn augmentations(criterion: &mut Criterion) {
    let size = Size::new(256, 256).unwrap();
    let bytes: Vec<u8> = (0..256 * 256 * 3).map(|value| (value * 31 % 251) as u8).collect();
    let dataset = PackedImages::new(Path::new("bench"), size, 3, bytes.clone(), vec![0], 1).unwrap();
    let image = Image::new(size, 3, Values::Bytes(bytes)).unwrap();
    let plan = plan("[sampling]\nbatch = 1\nrecords = 10\nsteps = 1\n[pipeline]\ncrop = [224, 224]");
    for augmentation in [
        "invert",
        "colour-jitter brightness=0.4 contrast=0.4 saturation=0.4",
        "colour-jitter hue=0.1",
        "equalize",
        "cutout 56x56",
        "affine degrees=10 translate=0.1 scale=0.9:1.1",
        "blur 3 1",
        "sharpness 1.5",
        "sobel",
        "noise 0.1",
        "rand-augment 2 9",
    ] {
        let data = format!("[data]\naugment = [\"{augmentation}\"]");
        let views = Views::new(plan.spatial(), &view_plan(&data), &dataset).unwrap();
        let mut output = vec![0.0; views.view_length()];
        let mut random = MasterKey::from_seed(1).purpose(Purpose::Views).step(0).stream(0);
        criterion.bench_function(&format!("augment 224x224, 3 channels: {augmentation}"), |bencher| {
            bencher.iter(|| views.draw(black_box(&image), &mut random, &mut output).unwrap());
        });
    }
}

fn label_maps(criterion: &mut Criterion) {
    let map = ClassMap::of_ids(&(0..19).collect::<Vec<_>>(), &[255]).unwrap();
    let picture = GrayImage::from_fn(1024, 512, |x, y| Luma([((x / 40 + y / 30 * 7) % 19) as u8]));
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
    let bytes = bytes.into_inner();
    criterion.bench_function("decode label map 1024x512", |bencher| {
        bencher.iter(|| map.read(black_box(&bytes), Path::new("bench"), &DataLimits::default()).unwrap());
    });
    let size = Size::new(2048, 1024).unwrap();
    let pixels = size.pixels() as usize;
    let image = Image::new(size, 3, Values::Bytes(vec![7; 3 * pixels])).unwrap();
    let labels = LabelMap::new(size, vec![3; pixels]).unwrap();
    let plan = plan("[sampling]\nbatch = 1\nrecords = 10\nsteps = 1\n[pipeline]\ncrop = [505, 505]");
    let dataset = PackedImages::new(Path::new("bench"), size, 3, vec![7; 3 * pixels], vec![0], 1).unwrap();
    let views = Views::new(plan.spatial(), &view_plan("[data]\nflip = true"), &dataset).unwrap();
    let (mut output, mut shown) = (vec![0.0; views.view_length()], vec![0; views.positions()]);
    let mut random = MasterKey::from_seed(1).purpose(Purpose::Views).step(0).stream(0);
    criterion.bench_function("crop 505x505 of 2048x1024, 3 channels, flip", |bencher| {
        bencher.iter(|| views.draw(black_box(&image), &mut random, &mut output).unwrap());
    });
    criterion.bench_function("crop 505x505 of 2048x1024, 3 channels, flip, with labels", |bencher| {
        bencher.iter(|| {
            views.draw_labelled(black_box(&image), &labels, &mut random, &mut output, &mut shown).unwrap();
        });
    });
    let scenes = StreetScenes::new(1, 1).unwrap();
    criterion.bench_function("draw a street", |bencher| bencher.iter(|| scenes.scene(black_box(0)).unwrap()));
}

fn samplers(criterion: &mut Criterion) {
    for (name, text) in [
        (
            "poisson, 600 of 60000",
            "relation = \"replace\"\n[sampling]\nbatch = 600\nrecords = 60000\nsteps = 1000000",
        ),
        (
            "poisson, 4096 of 1281167",
            "relation = \"replace\"\n[sampling]\nbatch = 4096\nrecords = 1281167\nsteps = 1000000",
        ),
        (
            "without replacement, 600 of 60000",
            "relation = \"replace\"\n[sampling]\nscheme = \"without-replacement\"\nbatch = 600\nrecords = 60000\nsteps = 1000000",
        ),
        (
            "balanced, an epoch of 100 steps of 60000",
            "[sampling]\nscheme = \"balanced\"\nrecords = 60000\nsteps = 1000000\nepochs = 10000",
        ),
    ] {
        let plan = plan(text);
        let key = SamplerKeys::of(&MasterKey::from_seed(1));
        let mut sampler = Sampler::new(&plan, plan.records() as usize, key).unwrap();
        let mut step = 0;
        // Only the first step of an epoch draws the allocation, so only that one is measured.
        let stride = if name.starts_with("balanced") { 100 } else { 1 };
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                step = (step + stride) % plan.steps();
                sampler.draw(step).unwrap()
            });
        });
    }
}

fn scenes(criterion: &mut Criterion) {
    criterion.bench_function("compose 1000 scenes", |bencher| {
        bencher.iter(|| FashionScenes::new(ScenePart::Test, black_box(1000)).unwrap());
    });
    let dataset: Arc<dyn Dataset> = Arc::new(FashionScenes::new(ScenePart::Train, 4000).unwrap());
    let plan = plan("[pipeline]\ncrop = [32, 32]\n[sampling]\nbatch = 256\nrecords = 4000\nsteps = 8");
    let keys = MasterKey::from_seed(1);
    let views = Views::new(plan.spatial(), &view_plan(""), &*dataset).unwrap();
    criterion.bench_function("load 8 batches of 256 crops 32x32 of scenes", |bencher| {
        bencher.iter(|| {
            let sampler = Sampler::new(&plan, 4000, SamplerKeys::of(&keys)).unwrap();
            let (views, key) = (vec![views.clone()], LoaderKeys::of(&keys));
            let options =
                LoaderOptions { threads: 2, prefetch: 2, microbatch: 0, ..LoaderOptions::default() };
            let loader = Loader::train(Arc::clone(&dataset), sampler, views, key, 0..8, options).unwrap();
            loader.map(|batch| batch.unwrap().records.len()).sum::<usize>()
        });
    });
}

criterion_group!(benches, decoding, views, augmentations, label_maps, samplers, scenes);
criterion_main!(benches);
