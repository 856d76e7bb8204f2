//! Images with label maps on disk: what is read, and what is refused by name.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::fs;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use common::{message, open, plan, spec, view_plan, write};
use dapple_data::segmentation::{ClassMap, Pairs};
use dapple_data::{
    DataError, DataLimits, Dataset, IGNORED, Loader, LoaderKeys, LoaderOptions, MasterKey, Opened, Sampler,
    SamplerKeys, Target, TargetKind, UNLABELLED, Views,
};
use image::{GrayImage, ImageFormat, Luma, Rgb, RgbImage};
use proptest::prelude::*;

fn bytes(write: impl FnOnce(&mut Cursor<Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    write(&mut bytes);
    bytes.into_inner()
}

fn photo(width: u32, height: u32) -> Vec<u8> {
    let picture = RgbImage::from_fn(width, height, |x, y| Rgb([x as u8, y as u8, 7]));
    bytes(|bytes| picture.write_to(bytes, ImageFormat::Png).unwrap())
}

/// A label picture in which each row has one number, and the given numbers repeat.
fn ids(width: u32, height: u32, ids: &[u8]) -> Vec<u8> {
    let picture = GrayImage::from_fn(width, height, |_, y| Luma([ids[y as usize % ids.len()]]));
    bytes(|bytes| picture.write_to(bytes, ImageFormat::Png).unwrap())
}

fn colours(width: u32, height: u32, colours: &[[u8; 3]]) -> Vec<u8> {
    let picture = RgbImage::from_fn(width, height, |_, y| Rgb(colours[y as usize % colours.len()]));
    bytes(|bytes| picture.write_to(bytes, ImageFormat::Png).unwrap())
}

fn opened(folder: &Path, text: &str) -> Result<Opened, DataError> {
    open(&spec(&format!("[data]\n{text}")), folder)
}

/// The first label of each row.
fn rows(dataset: &dyn Dataset, record: usize) -> Vec<u8> {
    let Target::Map(map) = dataset.target(record).unwrap() else { unreachable!() };
    map.labels().chunks_exact(map.size().width() as usize).map(|row| row[0]).collect()
}

#[test]
fn folders_of_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let jpeg = RgbImage::from_pixel(4, 3, Rgb([9, 9, 9]));
    write(root, "train/images/b.v2.jpg", &bytes(|bytes| jpeg.write_to(bytes, ImageFormat::Jpeg).unwrap()));
    write(root, "train/labels/b.v2.png", &ids(4, 3, &[0, 1, 11]));
    write(root, "train/images/deep/a.png", &photo(4, 3));
    write(root, "train/labels/deep/a.png", &ids(4, 3, &[1]));
    write(root, "test/photos/c.png", &photo(5, 5));
    write(root, "test/maps/c.png", &ids(5, 5, &[0]));
    let pairs = "format = \"image-pairs\"\ntrain = \"train\"";
    let data = opened(
        root,
        &format!(
            "{pairs}\nclasses = 2\nignore = [11]\nclass_names = [\"road\", \"sky\"]\n\
             class_colours = [\"#804080\", \"#4682b4\"]\ntest = \"test/photos\"\ntest_labels = \"test/maps\""
        ),
    )
    .unwrap();
    let train = &*data.train;
    assert_eq!((train.len(), train.classes(), train.target_kind()), (2, 2, TargetKind::LabelMap));
    assert_eq!((rows(train, 0), rows(train, 1)), (vec![0, 1, UNLABELLED], vec![1, 1, 1]));
    assert!(train.place(0).ends_with("b.v2.jpg") && train.place(1).ends_with("a.png"));
    assert_eq!(train.class_names().unwrap(), ["road", "sky"]);
    assert_eq!(train.palette().unwrap(), [[128, 64, 128], [70, 130, 180]]);
    assert_eq!(rows(&*data.test.unwrap(), 0), [0; 5]);
    assert!(message(train.label(0), "b.v2.jpg").contains("a label map where one class"));
    // Numbers of classes need not follow each other.
    let data = opened(root, &format!("{pairs}\nclass_ids = [11, 0]\nignore = [1]")).unwrap();
    assert_eq!(rows(&*data.train, 0), [1, UNLABELLED, 0]);
    // Records are split off as with any other format. Under some seeds both coins fall alike.
    let split = |seed| opened(root, &format!("{pairs}\nclasses = 12\nvalidation = 0.5\nsplit_seed = {seed}"));
    let split = (0..20).find_map(|seed| split(seed).ok()).unwrap();
    assert_eq!((split.train.len(), split.train.target_kind()), (1, TargetKind::LabelMap));
}

#[test]
fn the_fingerprint_covers_images_maps_and_what_they_mean() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "images/a.png", &photo(4, 3));
    write(root, "labels/a.png", &ids(4, 3, &[0, 1]));
    let print = |ignored: &[u32]| {
        let map = ClassMap::of_ids(&[0, 1], ignored).unwrap();
        Pairs::open(&root.join("images"), &root.join("labels"), map, &DataLimits::default())
            .unwrap()
            .fingerprint()
            .unwrap()
    };
    let plain = print(&[]);
    assert_eq!(print(&[]), plain);
    assert_ne!(print(&[2]), plain);
    write(root, "labels/a.png", &ids(4, 3, &[1, 0]));
    let other = print(&[]);
    assert_ne!(other, plain);
    write(root, "images/a.png", &photo(4, 4));
    let moved = print(&[]);
    assert!(moved != other && moved != plain);
    // Where the folders lie does not change the fingerprint.
    write(root, "elsewhere/a.png", &ids(4, 3, &[1, 0]));
    let map = ClassMap::of_ids(&[0, 1], &[]).unwrap();
    let pairs =
        Pairs::open(&root.join("images"), &root.join("elsewhere"), map, &DataLimits::default()).unwrap();
    assert_eq!(pairs.fingerprint().unwrap(), moved);
}

#[test]
fn pairs_that_do_not_fit_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let text = |what: &str, file: &str| {
        let spec = format!("format = \"image-pairs\"\ntrain = \".\"\n{what}");
        message(opened(root, &spec).map(|_| ()), file)
    };
    assert!(text("", "data.classes").contains("how many"));
    assert!(text("classes = 2", "labels").contains("No such file"));
    write(root, "images/a.png", &photo(4, 3));
    fs::create_dir(root.join("labels")).unwrap();
    assert!(text("classes = 2", "images/a.png").contains("no partner"));
    write(root, "labels/a.png", &ids(4, 3, &[0, 1]));
    write(root, "labels/b.png", &ids(4, 3, &[0, 1]));
    assert!(text("classes = 2", "labels/b.png").contains("no partner"));
    fs::remove_file(root.join("labels/b.png")).unwrap();
    write(root, "images/a.jpg", &photo(4, 3));
    assert!(text("classes = 2", "images/a.png").contains("same name"));
    fs::remove_file(root.join("images/a.jpg")).unwrap();
    assert!(text("classes = 0", "data.classes").contains("0 classes"));
    assert!(text("classes = 4000000000", "data.classes").contains("classes"));
    assert!(text("classes = 2\nclass_ids = [0, 1, 2]", "3 classes").contains("plan says 2"));
    assert!(text("classes = 2\nclass_names = [\"road\"]", "data.class_names").contains("1 names"));
    assert!(text("classes = 1\nclass_colours = [\"red\"]", "data.class_colours").contains("red"));
    assert!(text("classes = 2\ntest_sessions = [\"a\"]", "data.test_sessions").contains("a2d2"));
    fs::remove_file(root.join("images/a.png")).unwrap();
    fs::remove_file(root.join("labels/a.png")).unwrap();
    assert!(text("classes = 2", "images").contains("no image with a label map"));
    let other = opened(root, "format = \"cityscapes\"\ntrain = \".\"\nignore = [3]").map(|_| ());
    assert!(message(other, "data.ignore").contains("image-pairs"));
}

#[test]
fn damaged_label_pictures_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "images/a.png", &photo(4, 3));
    let map = ClassMap::of_ids(&[0, 1], &[255]).unwrap();
    let read = |bytes: &[u8]| {
        write(root, "labels/a.png", bytes);
        let pairs =
            Pairs::open(&root.join("images"), &root.join("labels"), map.clone(), &DataLimits::default())
                .unwrap();
        message(pairs.target(0), "labels/a.png")
    };
    assert!(read(&ids(4, 3, &[0, 1, 9])).contains("label 9 at column 0, row 2"));
    assert!(read(&ids(4, 3, &[0])[..30]).contains("cannot decode"));
    assert!(read(b"").contains("cannot decode"));
    assert!(read(&colours(4, 3, &[[0, 0, 0]])).contains("colours where"));
    let deep = image::ImageBuffer::from_pixel(4, 3, Luma([1u16]));
    assert!(read(&bytes(|bytes| deep.write_to(bytes, ImageFormat::Png).unwrap())).contains("16 bits"));
    let grey = GrayImage::from_pixel(4, 3, Luma([1]));
    assert!(
        read(&bytes(|bytes| grey.write_to(bytes, ImageFormat::Jpeg).unwrap())).contains("no PNG picture")
    );
}

const PLAN: &str =
    "[pipeline]\nimage = [4, 3]\ncrop = [2, 2]\n[sampling]\nbatch = 4\nrecords = 4\nsteps = 20";

fn loader(dataset: &Arc<dyn Dataset>, text: &str, options: LoaderOptions) -> Result<Loader, DataError> {
    let plan = plan(text);
    let keys = MasterKey::from_seed(3);
    let views = Views::new(plan.spatial(), &view_plan("[data]\nflip = true"), &**dataset)?;
    let sampler = Sampler::new(&plan, dataset.len(), SamplerKeys::of(&keys))?;
    Loader::train(Arc::clone(dataset), sampler, vec![views], LoaderKeys::of(&keys), 0..plan.steps(), options)
}

#[test]
fn pairs_reach_the_trainer_or_end_the_run_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for record in 0..4 {
        write(root, &format!("images/{record}.png"), &photo(4, 3));
        write(root, &format!("labels/{record}.png"), &ids(4, 3, &[0, 1, 255]));
    }
    let map = ClassMap::of_ids(&[0, 1], &[255]).unwrap();
    let dataset: Arc<dyn Dataset> = Arc::new(
        Pairs::open(&root.join("images"), &root.join("labels"), map, &DataLimits::default()).unwrap(),
    );
    let failure = |text: &str, file: &str| {
        let mut loader = loader(&dataset, text, LoaderOptions::default()).unwrap();
        message(loader.find(Result::is_err).unwrap(), file)
    };
    for microbatch in loader(&dataset, PLAN, LoaderOptions::default()).unwrap() {
        let microbatch = microbatch.unwrap();
        let labels = microbatch.labels.classes().unwrap();
        assert_eq!(labels.len(), microbatch.records.len() * 4);
        // A pixel's green value is its row, which is its label.
        for (image, labels) in microbatch.inputs.chunks_exact(12).zip(labels.chunks_exact(4)) {
            for (green, label) in image[4..8].iter().zip(labels) {
                let row = (green * 255.0).round() as u32;
                assert_eq!(*label, if row == 2 { IGNORED } else { row });
            }
        }
    }
    write(root, "labels/2.png", &ids(3, 3, &[0]));
    assert!(failure(PLAN, "images/2.png").contains("label map of"));
    write(root, "labels/2.png", &ids(4, 3, &[7]));
    assert!(failure(PLAN, "labels/2.png").contains("label 7"));
    fs::remove_file(root.join("labels/2.png")).unwrap();
    assert!(failure(PLAN, "labels/2.png").contains("No such file"));
    write(root, "labels/2.png", &ids(5, 3, &[0]));
    write(root, "images/2.png", &photo(5, 3));
    assert!(failure(PLAN, "images/2.png").contains("5x3 pixels where 4x3"));
    // Without a size in the plan, an image smaller than the crop is noticed only when it is read. Padding would make room for it.
    let small =
        |pipeline: &str| format!("[pipeline]\n{pipeline}\n[sampling]\nbatch = 4\nrecords = 4\nsteps = 20");
    write(root, "images/2.png", &photo(4, 3));
    write(root, "labels/2.png", &ids(4, 3, &[0]));
    assert!(failure(&small("crop = [5, 3]"), "images/").contains("does not fit"));
    assert!(
        loader(&dataset, &small("crop = [5, 3]\npad = 1"), LoaderOptions::default())
            .unwrap()
            .all(|it| it.is_ok())
    );
}

#[test]
fn threads_and_microbatches_change_no_label() {
    let dataset: Arc<dyn Dataset> = Arc::new(dapple_data::street::StreetScenes::new(5, 12).unwrap());
    let text =
        "[pipeline]\ncrop = [20, 10]\nviews = 2\npad = 4\n[sampling]\nbatch = 5\nrecords = 12\nsteps = 6";
    let run = |options: LoaderOptions| {
        let mut all: (Vec<f32>, Vec<u32>) = Default::default();
        for microbatch in loader(&dataset, text, options).unwrap() {
            let microbatch = microbatch.unwrap();
            let labels = microbatch.labels.classes().unwrap();
            assert_eq!(labels.len(), microbatch.records.len() * 2 * 200);
            all.0.extend(microbatch.inputs);
            all.1.extend(labels);
        }
        all
    };
    let whole = run(LoaderOptions { threads: 1, prefetch: 1, ..LoaderOptions::default() });
    assert!(
        whole == run(LoaderOptions { threads: 3, prefetch: 4, microbatch: 2, ..LoaderOptions::default() })
    );
    assert!(whole.1.contains(&IGNORED) && whole.1.iter().all(|&label| label < 6 || label == IGNORED));
}

#[test]
fn cityscapes_folders() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = || opened(root, "format = \"cityscapes\"\ntrain = \".\"\ntest = \".\"");
    assert!(message(data().map(|_| ()), "leftImg8bit/train").contains("No such file"));
    let image = |part: &str, name: &str| {
        write(root, &format!("leftImg8bit/{part}/{name}_leftImg8bit.png"), &photo(4, 4))
    };
    let labels = |part: &str, name: &str, of: &[u8]| {
        write(root, &format!("gtFine/{part}/{name}_gtFine_labelIds.png"), &ids(4, 4, of));
    };
    image("train", "ulm/ulm_000000_000019");
    assert!(message(data().map(|_| ()), "ulm_000000_000019_gtFine_labelIds.png").contains("no partner"));
    labels("train", "ulm/ulm_000000_000019", &[7, 33, 0, 255]);
    labels("train", "bonn/bonn_000000_000019", &[26, 8, 34]);
    image("train", "bonn/bonn_000000_000019");
    image("val", "lindau/lindau_000000_000019");
    labels("val", "lindau/lindau_000000_000019", &[23]);
    write(root, "gtFine/train/ulm/ulm_000000_000019_gtFine_color.png", &photo(4, 4));
    let data = data().unwrap();
    assert_eq!((data.train.len(), data.train.classes()), (2, 19));
    assert_eq!(rows(&*data.train, 1), [0, 18, UNLABELLED, UNLABELLED]);
    assert!(message(data.train.target(0), "bonn_000000_000019_gtFine_labelIds.png").contains("label 34"));
    assert_eq!(rows(&*data.test.unwrap(), 0), [10; 4]);
    assert_eq!(data.train.palette().unwrap()[13], [0, 0, 142]);
    let classes = opened(root, "format = \"cityscapes\"\ntrain = \".\"\nclasses = 34").map(|_| ());
    assert!(message(classes, "19 classes").contains("34"));
}

#[test]
fn a2d2_folders() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let data = |more: &str| opened(root, &format!("format = \"a2d2\"\ntrain = \".\"\n{more}"));
    assert!(message(data("").map(|_| ()), "20180807_145028").contains("No such file"));
    let name = |kind: &str, session: &str| {
        format!(
            "{session}/{kind}/cam_front_center/{}_{kind}_frontcenter_000000091.png",
            session.replace('_', "")
        )
    };
    write(root, &name("camera", "20180807_145028"), &photo(4, 4));
    let sessions = "train_sessions = [\"20180807_145028\"]";
    assert!(message(data(sessions).map(|_| ()), "20180807145028_label_frontcenter").contains("no partner"));
    let shown = [[255, 0, 0], [150, 0, 0], [53, 46, 82], [255, 0, 255]];
    write(root, &name("label", "20180807_145028"), &colours(4, 4, &shown));
    write(root, &name("camera", "20180925_101535"), &photo(4, 4));
    write(root, &name("label", "20180925_101535"), &colours(4, 4, &[[1, 2, 3]]));
    let both = format!("{sessions}\ntest = \".\"\ntest_sessions = [\"20180925_101535\"]");
    let opened = data(&both).unwrap();
    assert_eq!((opened.train.len(), opened.train.classes()), (1, 18));
    assert_eq!(rows(&*opened.train, 0), [4, 4, UNLABELLED, 0]);
    let test = opened.test.unwrap();
    assert!(message(test.target(0), "20180925101535_label_").contains("#010203"));
    // A list of classes in the folder says what colours mean.
    write(root, "class_list.json", b"{\"#010203\": \"Sky\"}");
    assert_eq!(rows(&*data(&both).unwrap().test.unwrap(), 0), [1; 4]);
    write(root, "class_list.json", b"{\"#010203\": 7}");
    assert!(message(data(&both).map(|_| ()), "class_list.json").contains("no list"));
}

/// Reads any bytes as label pictures of both kinds. Errors are fine, panics are not.
fn read_as_labels(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "s/label/c/a_label_b.png", bytes);
    write(folder.path(), "s/camera/c/a_camera_b.png", &photo(2, 2));
    let map = ClassMap::of_ids(&[0, 1, 2], &[255]).unwrap();
    if let Ok(map) = map.read(bytes, &path, &DataLimits::default()) {
        assert_eq!(map.labels().len() as u64, map.size().pixels());
        assert!(map.labels().iter().all(|&label| label < 3 || label == UNLABELLED));
    }
    let sessions = ["s".to_owned()];
    let _ =
        dapple_data::segmentation::a2d2(folder.path(), &sessions, &DataLimits::default()).unwrap().target(0);
    let list = write(folder.path(), "class_list.json", bytes);
    let _ = dapple_data::segmentation::a2d2(folder.path(), &sessions, &DataLimits::default());
    fs::remove_file(list).unwrap();
}

/// A PNG picture of numbers with few bits, or with a palette, or interlaced, or of colours.
fn valid_labels() -> impl Strategy<Value = Vec<u8>> {
    let few = |depth: png::BitDepth, colour: png::ColorType| {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, 5, 3);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        if colour == png::ColorType::Indexed {
            encoder.set_palette(vec![7; 3 << depth as usize]);
        }
        let row = (5 * depth as usize).div_ceil(8);
        encoder.write_header().unwrap().write_image_data(&vec![0b0001_0010; 3 * row]).unwrap();
        bytes
    };
    prop::sample::select(vec![
        few(png::BitDepth::One, png::ColorType::Grayscale),
        few(png::BitDepth::Two, png::ColorType::Indexed),
        few(png::BitDepth::Four, png::ColorType::Grayscale),
        few(png::BitDepth::Eight, png::ColorType::Indexed),
        ids(4, 3, &[0, 1, 255]),
        colours(4, 3, &[[255, 0, 0]]),
        b"{\"#ff0000\": \"Car 1\"}".to_vec(),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_as_labels(&bytes);
    }

    #[test]
    fn damaged_labels_never_panic(
        mut bytes in valid_labels(),
        keep in 0.0f64..=1.0,
        truncate in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..6),
    ) {
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        if truncate {
            bytes.truncate((bytes.len() as f64 * keep) as usize);
        }
        read_as_labels(&bytes);
    }
}
