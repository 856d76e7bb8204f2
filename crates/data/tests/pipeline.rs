//! From files to microbatches.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::sync::Arc;

use common::{idx_bytes, npy_bytes, open, plan, spec, view_plan, write};
use dapple_data::{
    Dataset, Loader, LoaderKeys, LoaderOptions, MasterKey, Microbatch, Sampler, SamplerKeys, Views,
};

const PLAN: &str = "
    [region]
    patch = [2, 2]
    [pipeline]
    image = [8, 6]
    crop = [4, 4]
    pad = 2
    pad_mode = \"reflect\"
    views = 3
    [sampling]
    batch = 12
    records = 40
    steps = 9
    ";

fn run(dataset: &Arc<dyn Dataset>, options: LoaderOptions) -> Vec<Microbatch> {
    let plan = plan(PLAN);
    let keys = MasterKey::from_seed(7);
    let sampler = Sampler::new(&plan, dataset.len(), SamplerKeys::of(&keys)).unwrap();
    let data = view_plan("[data]\nflip = true\nmean = [0.5]\nstd = [0.25]");
    let views = Views::new(plan.spatial(), &data, &**dataset).unwrap();
    let key = LoaderKeys::of(&keys);
    let loader = Loader::train(Arc::clone(dataset), sampler, vec![views], key, 0..9, options).unwrap();
    loader.map(Result::unwrap).collect()
}

#[test]
fn threads_prefetch_and_microbatches_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pixels: Vec<u8> = (0..40 * 48).map(|value| (value * 7 % 251) as u8).collect();
    let labels: Vec<u8> = (0..40).map(|record| record % 5).collect();
    let images = write(folder.path(), "images", &idx_bytes(&[40, 6, 8], &pixels));
    let labels = write(folder.path(), "labels", &idx_bytes(&[40], &labels));
    let dataset: Arc<dyn Dataset> = Arc::new(
        dapple_data::formats::idx(&images, &labels, None, &dapple_data::DataLimits::default()).unwrap(),
    );
    let whole =
        run(&dataset, LoaderOptions { threads: 1, prefetch: 1, microbatch: 0, ..LoaderOptions::default() });
    assert_eq!(whole.len(), 9);
    for options in [
        LoaderOptions { threads: 2, prefetch: 3, microbatch: 0, ..LoaderOptions::default() },
        LoaderOptions { threads: 3, prefetch: 1, microbatch: 5, ..LoaderOptions::default() },
        LoaderOptions { threads: 1, prefetch: 8, microbatch: 1, ..LoaderOptions::default() },
    ] {
        let pieces = run(&dataset, options);
        let mut pieces = pieces.iter();
        for step in &whole {
            let mut inputs = Vec::new();
            let mut labels = Vec::new();
            loop {
                let piece = pieces.next().unwrap();
                assert_eq!((piece.step, piece.total, piece.views), (step.step, step.total, 3));
                assert_eq!(piece.first, labels.len() / 3);
                inputs.extend(&piece.inputs);
                labels.extend(piece.labels.classes().unwrap());
                if piece.is_last() {
                    break;
                }
            }
            assert_eq!((&inputs[..], &labels[..]), (&step.inputs[..], step.labels.classes().unwrap()));
            let expected: Vec<u32> = step.records.iter().flat_map(|&record| [record as u32 % 5; 3]).collect();
            assert_eq!(labels, expected);
        }
        assert!(pieces.next().is_none());
    }
}

#[test]
fn numpy_and_idx_of_the_same_images_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let pixels: Vec<u8> = (0..40 * 48).map(|value| (value * 7 % 251) as u8).collect();
    let labels: Vec<u8> = (0..40).map(|record| record % 5).collect();
    write(folder.path(), "images.idx", &idx_bytes(&[40, 6, 8], &pixels));
    write(folder.path(), "labels.idx", &idx_bytes(&[40], &labels));
    write(folder.path(), "images.npy", &npy_bytes("|u1", &[40, 6, 8], &pixels));
    let wide: Vec<u8> = labels.iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect();
    write(folder.path(), "labels.npy", &npy_bytes("<i8", &[40], &wide));
    let floats: Vec<u8> = pixels.iter().flat_map(|&pixel| (f32::from(pixel) / 255.0).to_le_bytes()).collect();
    write(folder.path(), "floats.npy", &npy_bytes("<f4", &[40, 6, 8, 1], &floats));
    let open = |format: &str, images: &str, labels: &str| {
        let text =
            format!("[data]\nformat = \"{format}\"\ntrain = \"{images}\"\ntrain_labels = \"{labels}\"");
        open(&spec(&text), folder.path()).unwrap().train
    };
    let idx = run(&open("idx", "images.idx", "labels.idx"), LoaderOptions::default());
    assert_eq!(idx, run(&open("npy", "images.npy", "labels.npy"), LoaderOptions::default()));
    let floats = run(&open("npy", "floats.npy", "labels.npy"), LoaderOptions::default());
    for (bytes, floats) in idx.iter().zip(&floats) {
        for (byte, float) in bytes.inputs.iter().zip(&floats.inputs) {
            // Two roundings to single precision of values below 4.
            assert!((byte - float).abs() < 1e-6, "{byte} {float}");
        }
    }
}
