//! Damaged files are refused in one line that names the file, and never by a panic.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use common::{idx_bytes, message, npy_bytes, open, plan, spec, view_plan, write};
use dapple_data::formats::{ImageFolder, Npy, cifar, decode, idx};
use dapple_data::{
    DataError, DataLimits, Dataset, Loader, LoaderKeys, LoaderOptions, MasterKey, Sampler, SamplerKeys, Views,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

/// The limits that hold if a plan sets none.
const LIMITS: DataLimits = DataLimits { pixels: 1 << 26, bytes: 1 << 31 };

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture = image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, 7]));
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

#[test]
fn idx_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| write(folder.path(), name, bytes);
    let good = idx_bytes(&[3, 2, 2], &[1; 12]);
    let images = file("images", &good);
    let labels = file("labels", &idx_bytes(&[3], &[0, 1, 2]));
    assert_eq!(idx(&images, &labels, None, &LIMITS).unwrap().classes(), 3);
    assert_eq!(idx(&images, &labels, Some(7), &LIMITS).unwrap().classes(), 7);
    // Compressed files give the same data set.
    let packed = idx(&file("images.gz", &gzipped(&good)), &labels, None, &LIMITS).unwrap();
    let plain = idx(&images, &labels, None, &LIMITS).unwrap();
    assert_eq!(packed.fingerprint().unwrap(), plain.fingerprint().unwrap());

    assert!(
        message(idx(&folder.path().join("none"), &labels, None, &LIMITS), "none").contains("No such file")
    );
    assert!(message(idx(&file("short", &good[..20]), &labels, None, &LIMITS), "short").contains("cut short"));
    assert!(
        message(idx(&file("long", &[good.clone(), vec![1]].concat()), &labels, None, &LIMITS), "long")
            .contains("29")
    );
    assert!(message(idx(&file("start", &good[..5]), &labels, None, &LIMITS), "start").contains("cut short"));
    assert!(message(idx(&file("empty", &[]), &labels, None, &LIMITS), "empty").contains("0 bytes"));
    assert!(
        message(idx(&file("text", b"hello, world"), &labels, None, &LIMITS), "text")
            .contains("not an IDX file")
    );
    assert!(message(idx(&labels, &images, None, &LIMITS), "labels").contains("1 dimensions"));
    assert!(
        message(idx(&file("kind", &[0, 0, 13, 3]), &labels, None, &LIMITS), "kind").contains("type 0x0d")
    );
    let none = file("nothing", &idx_bytes(&[0, 2, 2], &[]));
    let no_labels = file("no-labels", &idx_bytes(&[0], &[]));
    assert!(message(idx(&none, &no_labels, None, &LIMITS), "nothing").contains("no image"));
    assert!(message(idx(&images, &no_labels, None, &LIMITS), "no-labels").contains("3 images"));
    assert!(message(idx(&images, &labels, Some(2), &LIMITS), "labels").contains("record 2 has label 2"));
    let huge = file("huge", &idx_bytes(&[u32::MAX, u32::MAX, u32::MAX], &[1]));
    assert!(message(idx(&huge, &labels, None, &LIMITS), "huge").contains("impossible dimensions"));
    let large = file("large", &idx_bytes(&[u32::MAX, 1000, 1000], &[1]));
    assert!(message(idx(&large, &labels, None, &LIMITS), "large").contains("are allowed"));
    let broken = gzipped(&good);
    let broken = file("broken.gz", &broken[..broken.len() - 9]);
    assert!(message(idx(&broken, &labels, None, &LIMITS), "broken.gz").contains("do not unpack"));
}

#[test]
fn numpy_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| write(folder.path(), name, bytes);
    let good = npy_bytes("|u1", &[3, 2, 2], &[1; 12]);
    let images = file("images.npy", &good);
    let labels = file("labels.npy", &npy_bytes("<i4", &[3], &[0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]));
    assert_eq!(Npy::open(&images, &labels, None, &LIMITS).unwrap().classes(), 3);

    let text =
        |images: &Path, labels: &Path, file: &str| message(Npy::open(images, labels, None, &LIMITS), file);
    assert!(text(&file("short", &good[..good.len() - 1]), &labels, "short").contains("cut short"));
    assert!(text(&file("start", &good[..40]), &labels, "start").contains("cut short"));
    assert!(text(&file("text", b"hello, world"), &labels, "text").contains("not a numpy array"));
    assert!(text(&file("double", &npy_bytes("<f8", &[1, 1, 1], &[0; 8])), &labels, "double").contains("<f8"));
    assert!(
        text(&file("flat", &npy_bytes("|u1", &[12], &[0; 12])), &labels, "flat").contains("1 dimensions")
    );
    let first = npy_bytes("|u1", &[3, 1, 2, 32], &[0; 192]);
    assert!(text(&file("first", &first), &labels, "first").contains("32 channels"));
    let huge = npy_bytes("|u1", &[usize::MAX, usize::MAX, 3], &[0; 192]);
    assert!(text(&file("huge", &huge), &labels, "huge").contains("impossible dimensions"));
    let floats = file("floats", &npy_bytes("<f4", &[3], &[0; 12]));
    assert!(text(&images, &floats, "floats").contains("whole numbers"));
    let two = file("two", &npy_bytes("|u1", &[2], &[0, 1]));
    assert!(text(&images, &two, "two").contains("2 labels"));
    let negative = file("negative", &npy_bytes("|i1", &[3], &[0, 1, 0xff]));
    assert!(text(&images, &negative, "negative").contains("label -1"));
    let fortran = String::from_utf8_lossy(&good[10..]).replace("False", "True ");
    let fortran = [&good[..10], &fortran.as_bytes()[..good.len() - 10]].concat();
    assert!(text(&file("fortran", &fortran), &labels, "fortran").contains("Fortran"));
    let not_a_number: Vec<u8> = [1.0, f32::NAN].iter().flat_map(|value: &f32| value.to_le_bytes()).collect();
    let hole = file("hole", &npy_bytes("<f4", &[2, 1, 1], &not_a_number));
    let hole = Npy::open(&hole, &two, None, &LIMITS).unwrap();
    assert!(hole.read(0).is_ok());
    assert!(message(hole.read(1), "hole").contains("record 1"));
    assert!(matches!(hole.read(2), Err(DataError::Record { record: 2, records: 2 })));
}

#[test]
fn cifar_files() {
    let folder = tempfile::tempdir().unwrap();
    let record = |label: &[u8]| {
        let planes = (0..3072).map(|value| (value / 1024 * 100 + value % 32) as u8);
        label.iter().copied().chain(planes).collect::<Vec<u8>>()
    };
    let ten = write(folder.path(), "ten.bin", &[record(&[3]), record(&[9])].concat());
    let data = cifar(std::slice::from_ref(&ten), None, &LIMITS).unwrap();
    assert_eq!((data.len(), data.classes(), data.label(1).unwrap()), (2, 10, 9));
    let dapple_data::Values::Bytes(bytes) = data.read(0).unwrap().values().clone() else { unreachable!() };
    // The second pixel of the first row: red, green, blue.
    assert_eq!(bytes[3..6], [1, 101, 201]);
    let hundred = write(folder.path(), "hundred.bin", &[record(&[1, 42]), record(&[0, 99])].concat());
    let data = cifar(std::slice::from_ref(&hundred), None, &LIMITS).unwrap();
    assert_eq!((data.len(), data.classes(), data.label(0).unwrap()), (2, 100, 42));
    let short = write(folder.path(), "short.bin", &record(&[3])[..3000]);
    assert!(message(cifar(&[short], None, &LIMITS), "short.bin").contains("no whole number of records"));
    let wrong = write(folder.path(), "wrong.bin", &record(&[10]));
    assert!(message(cifar(&[wrong], None, &LIMITS), "wrong.bin").contains("label 10"));
    let empty = write(folder.path(), "empty.bin", &[]);
    assert!(message(cifar(&[empty], None, &LIMITS), "empty.bin").contains("no image"));
    // A folder is searched for the usual names.
    let data = |text: &str| open(&spec(&format!("[data]\nformat = \"cifar\"\n{text}")), folder.path());
    assert!(message(data("train = \".\"").map(|_| ()), "data_batch_1.bin").contains("train.bin"));
    write(folder.path(), "train.bin", &record(&[1, 42]));
    write(folder.path(), "test.bin", &record(&[1, 7]));
    let both = data("train = \".\"\ntest = \".\"\nclasses = 100").unwrap();
    assert_eq!((both.train.label(0).unwrap(), both.test.unwrap().label(0).unwrap()), (42, 7));
}

#[test]
fn image_folders() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let file = |name: &str, bytes: &[u8]| write(root, name, bytes);
    assert!(message(ImageFolder::open(&root.join("nowhere"), &LIMITS), "nowhere").contains("No such file"));
    assert!(
        message(ImageFolder::open(root, &LIMITS), root.to_str().unwrap()).contains("no folder of a class")
    );
    std::fs::create_dir(root.join("dog")).unwrap();
    assert!(message(ImageFolder::open(root, &LIMITS), "dog").contains("no picture"));
    file("dog/b.png", &png(3, 2));
    file("dog/a.PNG", &png(4, 2));
    file("dog/notes.txt", b"hello");
    file("cat/deep/c.png", &png(5, 5));
    file(".cache/x.png", &png(1, 1));
    let pictures = ImageFolder::open(root, &LIMITS).unwrap();
    assert_eq!(pictures.class_names().unwrap(), ["cat", "dog"]);
    assert_eq!((0..3).map(|record| pictures.label(record).unwrap()).collect::<Vec<_>>(), [0, 1, 1]);
    assert_eq!(pictures.read(1).unwrap().size().to_string(), "4x2");
    let before = pictures.fingerprint().unwrap();
    file("dog/b.png", &png(3, 3));
    assert_ne!(ImageFolder::open(root, &LIMITS).unwrap().fingerprint().unwrap(), before);

    file("dog/b.png", &png(3, 2)[..40]);
    assert!(message(pictures.read(2), "b.png").contains("cannot decode"));
    file("dog/b.png", b"no picture at all");
    assert!(message(pictures.read(2), "b.png").contains("cannot decode"));

    file("test/bird/a.png", &png(3, 2));
    assert!(
        message(ImageFolder::open_like(&root.join("test"), &["cat".to_owned()], &LIMITS), "bird")
            .contains("a class that")
    );
    // After a resize, pictures of any size have the same size. Padding before the resize is not checked against it.
    let resized = plan(
        "[sampling]\nbatch = 1\nrecords = 3\nsteps = 1\n[pipeline]\noperations = [\"pad 9 reflect\", \"resize 8x6\"]",
    );
    assert_eq!(Views::new(resized.spatial(), &view_plan(""), &pictures).unwrap().shape(), [3, 6, 8]);

    let like =
        ImageFolder::open_like(&root.join("test"), &["ant".to_owned(), "bird".to_owned()], &LIMITS).unwrap();
    assert_eq!((like.classes(), like.label(0).unwrap()), (2, 1));
}

#[test]
fn every_picture_format_is_read() {
    use image::ImageFormat;
    let picture = image::RgbImage::from_pixel(6, 4, image::Rgb([200, 100, 50]));
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::WebP, ImageFormat::Pnm] {
        let mut bytes = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        let decoded = decode(&bytes.into_inner(), Path::new("a"), &LIMITS).unwrap();
        assert_eq!((decoded.size().to_string().as_str(), decoded.channels()), ("6x4", 3));
        let dapple_data::Values::Bytes(values) = decoded.values() else { unreachable!() };
        // JPEG is off by a few levels even on a flat picture.
        let near = |value: u8, expected: u8| value.abs_diff(expected) < 8;
        assert!(near(values[0], 200) && near(values[1], 100) && near(values[2], 50), "{format:?}");
    }
}

#[test]
fn settings() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "images", &idx_bytes(&[10, 2, 2], &[1; 40]));
    write(folder.path(), "labels", &idx_bytes(&[10], &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0]));
    let data = |text: &str| open(&spec(&format!("[data]\n{text}")), folder.path()).map(|_| ());
    assert!(message(data(""), "data.format").contains("image-folder"));
    assert!(message(data("format = \"idx\""), "data.train").contains("missing"));
    assert!(message(data("format = \"idx\"\ntrain = \"images\""), "data.train_labels").contains("images"));
    assert!(message(data("format = \"idx\"\ntrain = \".\""), "train-images-idx3-ubyte").contains(".gz"));
    let files = "format = \"idx\"\ntrain = \"images\"\ntrain_labels = \"labels\"";
    assert!(message(data(&format!("{files}\nvalidation = 0.99")), "data.validation").contains("empty"));
    assert!(message(data(&format!("{files}\nvalidation = -1.0")), "data.validation").contains("empty"));
    let both = format!("{files}\ntest = \"images\"\ntest_labels = \"labels\"\nvalidation = 0.5");
    assert!(message(data(&both), "data.validation").contains("test set already"));
    assert!(message(data("format = \"fashion-scenes\"\ntrain = \"x\""), "data.train").contains("part of"));
    assert!(
        message(data("format = \"fashion-scenes\"\nvalidation = 0.1"), "data.validation").contains("already")
    );
    assert!(data(files).is_ok());
}

#[test]
fn what_memory_cannot_hold_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let images = write(folder.path(), "images", &idx_bytes(&[10, 2, 2], &[1; 40]));
    let labels = write(folder.path(), "labels", &idx_bytes(&[10], &[0; 10]));
    let dataset = idx(&images, &labels, None, &LIMITS).unwrap();
    let views = |pipeline: &str, data: &str| {
        let plan = plan(&format!("[sampling]\nbatch = 1\nrecords = 10\nsteps = 1\n[pipeline]\n{pipeline}"));
        Views::new(plan.spatial(), &view_plan(&format!("[data]\n{data}")), &dataset)
    };
    assert!(views("crop = [2, 2]", "").is_ok());
    assert!(message(views("pad = 2000000000\ncrop = [2, 2]", ""), "operations").contains("too large"));
    assert!(message(views("operations = [\"resize 99999x99999\"]", ""), "operations").contains("too large"));
    assert!(
        message(views("crop = [2, 2]", "size = [4000000000, 4000000000]"), "views").contains("4000000000")
    );
    assert!(
        message(views("crop = [2, 2]\nviews = 1000000", "size = [100, 100]"), "views").contains("1000000")
    );
    assert!(message(views("crop_scale = [0.5, 1.0]", ""), "data.size").contains("missing"));
    assert!(message(views("crop = [3, 2]", ""), "pipeline.crop").contains("does not fit"));
    assert!(message(views("image = [4, 4]\ncrop = [2, 2]", ""), "images").contains("2x2 pixels where 4x4"));
    assert!(message(views("", "mean = [0.5, 0.5]"), "data.mean").contains("2 channels"));
    assert!(message(views("", "std = [0.0]"), "data.std").contains("positive"));
    assert!(message(views("operations = [\"blur 9999\"]", ""), "blur").contains("1024"));
    let ready = views("crop = [1, 1]", "").unwrap();
    let wide = Loader::evaluate(Arc::new(dataset), ready, 100_000, LoaderOptions::default());
    assert!(message(wide, "train.evaluation_grid").contains("100000"));
    let no_channels = write(folder.path(), "none", &idx_bytes(&[10, 2, 2, 0], &[]));
    assert!(message(idx(&no_channels, &labels, None, &LIMITS), "none").contains("without channels"));
}

#[test]
fn a_damaged_picture_reaches_the_trainer() {
    let folder = tempfile::tempdir().unwrap();
    for picture in 0..20 {
        write(folder.path(), &format!("a/{picture:02}.png"), &png(8, 8));
    }
    write(folder.path(), "a/13.png", &png(8, 8)[..50]);
    let dataset: Arc<dyn Dataset> = Arc::new(ImageFolder::open(folder.path(), &LIMITS).unwrap());
    let plan =
        plan("[pipeline]\nimage = [8, 8]\ncrop = [4, 4]\n[sampling]\nbatch = 20\nrecords = 20\nsteps = 50");
    let keys = MasterKey::from_seed(1);
    let views = Views::new(plan.spatial(), &view_plan(""), &*dataset).unwrap();
    let start = |views: Views| {
        let sampler = Sampler::new(&plan, 20, SamplerKeys::of(&keys)).unwrap();
        let options = LoaderOptions { threads: 2, prefetch: 3, microbatch: 6, ..LoaderOptions::default() };
        Loader::train(Arc::clone(&dataset), sampler, vec![views], LoaderKeys::of(&keys), 0..50, options)
            .unwrap()
    };
    let mut loader = start(views.clone());
    // Two microbatches of six records come first.
    assert!(loader.next().unwrap().is_ok() && loader.next().unwrap().is_ok());
    assert!(message(loader.next().unwrap(), "13.png").contains("cannot decode"));
    assert!(loader.next().is_none());

    // One picture of another size would have another inclusion probability.
    write(folder.path(), "a/13.png", &png(9, 8));
    let error = message(start(views.clone()).find(Result::is_err).unwrap(), "13.png");
    assert!(error.contains("9x8 pixels where 8x8"), "{error}");
    write(folder.path(), "a/13.png", &png(8, 8));

    // A loader that is dropped in the middle, with full queues, ends.
    let mut loader = start(views);
    assert!(loader.next().unwrap().is_ok());
    drop(loader);
}

/// Opens any bytes as every format. Errors are fine, panics are not.
fn read_as_everything(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "file", bytes);
    let labels = write(folder.path(), "labels", &idx_bytes(&[2], &[0, 1]));
    let numpy_labels = write(folder.path(), "numpy-labels", &npy_bytes("|u1", &[2], &[0, 1]));
    let read = |dataset: &dyn Dataset| {
        for record in 0..dataset.len().min(3) {
            let _ = dataset.read(record);
        }
        let _ = dataset.fingerprint();
    };
    let _ = idx(&path, &labels, None, &LIMITS).map(|dataset| read(&dataset));
    let _ = idx(&labels, &path, None, &LIMITS).map(|dataset| read(&dataset));
    let _ = Npy::open(&path, &numpy_labels, None, &LIMITS).map(|dataset| read(&dataset));
    let _ = Npy::open(&numpy_labels, &path, None, &LIMITS).map(|dataset| read(&dataset));
    let _ = cifar(std::slice::from_ref(&path), None, &LIMITS).map(|dataset| read(&dataset));
    let _ = decode(bytes, &path, &LIMITS);
}

/// A valid file of one of the formats.
fn valid_file() -> impl Strategy<Value = Vec<u8>> {
    let picture = |format| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        let picture = image::RgbImage::from_fn(9, 7, |x, y| image::Rgb([x as u8 * 20, y as u8 * 30, 7]));
        picture.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    };
    prop::sample::select(vec![
        idx_bytes(&[2, 3, 2], &[7; 12]),
        gzipped(&idx_bytes(&[2, 3, 2], &[7; 12])),
        idx_bytes(&[2], &[0, 1]),
        npy_bytes("|u1", &[2, 3, 2], &[7; 12]),
        npy_bytes("<f4", &[2, 1, 2], &[7; 16]),
        npy_bytes("<i8", &[2], &[0; 16]),
        vec![1; 3073],
        picture(image::ImageFormat::Png),
        picture(image::ImageFormat::Jpeg),
        picture(image::ImageFormat::WebP),
        picture(image::ImageFormat::Pnm),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_as_everything(&bytes);
    }

    #[test]
    fn damaged_files_never_panic(
        mut bytes in valid_file(),
        keep in 0.0f64..=1.0,
        truncate in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..8),
    ) {
        for (place, bit) in flips {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
        if truncate {
            bytes.truncate((bytes.len() as f64 * keep) as usize);
        }
        read_as_everything(&bytes);
    }
}
