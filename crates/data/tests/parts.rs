//! Private and public parts of pictures in files of every kind: no bit of one tells of the other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use common::{open, plan, spec, view_plan};
use dapple_data::{
    Dataset, Labels, Loader, LoaderKeys, LoaderOptions, MasterKey, PartGrid, RecordPart, Sampler,
    SamplerKeys, Views,
};
use dapple_geometry::TokenGrid;
use image::{ExtendedColorType, ImageFormat};

const WIDTH: usize = 12;
const HEIGHT: usize = 10;

/// Whether a pixel is private: a box, which [`write`] also writes as the picture's mask.
fn is_private(x: usize, y: usize) -> bool {
    (3..=7).contains(&x) && (2..=6).contains(&y)
}

/// Samples of a picture of so many channels of so many bytes. Private pixels show what one number says, public ones what another does; so do
/// transparency and the lower bytes.
fn samples(channels: usize, bytes: usize, (private, public): (usize, usize)) -> Vec<u8> {
    let sample = |at: usize| {
        let pixel = at / (channels * bytes);
        let (x, y) = (pixel % WIDTH, pixel / WIDTH);
        let number = if is_private(x, y) { private } else { public };
        (at * 37 + number * 101 * (at % 5 + 1)) as u8
    };
    (0..WIDTH * HEIGHT * channels * bytes).map(sample).collect()
}

/// Kinds of files that keep every pixel apart from the others: the ending, the format, the colours, channels and bytes of a sample.
const KINDS: [(&str, ImageFormat, ExtendedColorType, usize, usize); 11] = [
    ("png", ImageFormat::Png, ExtendedColorType::L8, 1, 1),
    ("png", ImageFormat::Png, ExtendedColorType::La8, 2, 1),
    ("png", ImageFormat::Png, ExtendedColorType::Rgb8, 3, 1),
    ("png", ImageFormat::Png, ExtendedColorType::Rgba8, 4, 1),
    ("png", ImageFormat::Png, ExtendedColorType::L16, 1, 2),
    ("png", ImageFormat::Png, ExtendedColorType::La16, 2, 2),
    ("png", ImageFormat::Png, ExtendedColorType::Rgb16, 3, 2),
    ("png", ImageFormat::Png, ExtendedColorType::Rgba16, 4, 2),
    ("webp", ImageFormat::WebP, ExtendedColorType::Rgb8, 3, 1),
    ("webp", ImageFormat::WebP, ExtendedColorType::Rgba8, 4, 1),
    ("ppm", ImageFormat::Pnm, ExtendedColorType::Rgb8, 3, 1),
];

/// Writes a picture with its mask, in the one class there is.
fn write(folder: &Path, ending: &str, bytes: &[u8]) {
    for name in ["train/a", "masks/a"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    std::fs::write(folder.join(format!("train/a/1.{ending}")), bytes).unwrap();
    std::fs::write(folder.join("masks/a/1.json"), "{\"boxes\": [[3, 2, 7, 6]]}").unwrap();
}

fn opened(folder: &Path) -> Arc<dyn Dataset> {
    let data = "relation = 'masked'\n[data]\nformat = 'image-folder'\ntrain = 'train'\nmasks = 'masks'\n";
    open(&spec(data), folder).unwrap().train
}

const PLAN: &str = "
    relation = 'masked'
    [pipeline]
    image = [12, 10]
    crop = [8, 8]
    pad = 2
    pad_mode = 'reflect'
    operations = ['blur 1']
    views = 2
    [sampling]
    batch = 1
    records = 1
    steps = 4
    ";

/// Everything that a run is shown of a part, as bits.
fn shown(records: &Arc<dyn Dataset>, part: RecordPart, grid: Option<PartGrid>) -> (Vec<u32>, Vec<u32>) {
    let plan = plan(PLAN);
    let data = view_plan(
        "[data]\nflip = true\nmean = [0.4]\nstd = [0.25]\nsize = [12, 12]\n\
         augment = ['affine degrees=10 translate=0.1', 'colour-jitter brightness=0.4 saturation=0.3', 'sharpness 0:2', 'cutout 3x3']",
    );
    let views = Views::new(plan.spatial(), &data, &**records).unwrap().of_part(part, grid).unwrap();
    let master = MasterKey::from_seed(9);
    let sampler = Sampler::new(&plan, 1, SamplerKeys::of(&master)).unwrap();
    let keys = LoaderKeys::of(&master);
    let loader =
        Loader::train(Arc::clone(records), sampler, vec![views], keys, 0..4, LoaderOptions::default());
    let (mut inputs, mut labels) = (Vec::new(), Vec::new());
    for microbatch in loader.unwrap().map(Result::unwrap) {
        inputs.extend(microbatch.inputs.iter().map(|value| value.to_bits()));
        let Labels::Classes(classes) = &microbatch.labels else { unreachable!("pictures have classes") };
        labels.extend(classes);
    }
    (inputs, labels)
}

#[test]
fn no_bit_of_a_part_tells_of_the_other_whatever_the_file() {
    let patches = PartGrid::Tokens(TokenGrid::patches(4).unwrap());
    let overlapping = PartGrid::Tokens(TokenGrid::new(5, 3, 2).unwrap());
    let cells = PartGrid::Cells(TokenGrid::cells(None, 3, 3).unwrap());
    for (ending, format, colours, channels, bytes) in KINDS {
        let of = |numbers: (usize, usize)| {
            let folder = tempfile::tempdir().unwrap();
            let mut file = Cursor::new(Vec::new());
            let samples = samples(channels, bytes, numbers);
            let (width, height) = (WIDTH as u32, HEIGHT as u32);
            image::write_buffer_with_format(&mut file, &samples, width, height, colours, format).unwrap();
            write(folder.path(), ending, &file.into_inner());
            let records = opened(folder.path());
            let grids = [None, Some(patches), Some(overlapping), Some(cells)];
            let parts = [RecordPart::Private, RecordPart::Public];
            parts.map(|part| grids.map(|grid| shown(&records, part, grid)))
        };
        let [private, public] = of((1, 2));
        let [other_private, same_public] = of((3, 2));
        let [same_private, other_public] = of((1, 4));
        assert_eq!(public, same_public, "{colours:?}");
        assert_eq!(private, same_private, "{colours:?}");
        assert!(private != other_private && public != other_public, "{colours:?}");
    }
}
