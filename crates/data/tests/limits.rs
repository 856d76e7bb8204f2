//! Files that ask for more than is allowed are refused before the memory is taken.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::Write;

use common::{idx_bytes, message, npy_bytes, open, spec, write};
use dapple_data::formats::{ImageFolder, Npy, cifar, idx, read_mask, read_picture};
use dapple_data::{DataError, DataLimits, Dataset};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Limits so small that a file of a few thousand bytes exceeds them.
const LIMITS: DataLimits = DataLimits { pixels: 100, bytes: 4000 };

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn picture(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::GrayImage::new(width, height).write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

#[test]
fn a_packed_file_unpacks_to_no_more_than_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| write(folder.path(), name, bytes);
    let labels = file("labels", &idx_bytes(&[60], &[0; 60]));
    // A header that says how much follows is enough to refuse the file: nothing follows it here.
    let claimed = file("claimed.gz", &gzipped(&idx_bytes(&[60, 10, 10], &[])));
    let error = message(idx(&claimed, &labels, None, &LIMITS), "claimed.gz");
    assert!(error.contains("6000 bytes") && error.contains("4000 are allowed"), "{error}");
    // Without such a header, reading stops at the limit.
    let bomb = file("bomb.gz", &gzipped(&[0; 3073 * 2]));
    assert!(std::fs::metadata(&bomb).unwrap().len() < 100);
    let error = message(cifar(std::slice::from_ref(&bomb), Some(10), &LIMITS), "bomb.gz");
    assert!(error.contains("4001 bytes"), "{error}");
    // The limit holds for several files together.
    let one = file("one.gz", &gzipped(&[0; 3073]));
    assert!(cifar(std::slice::from_ref(&one), Some(10), &LIMITS).is_ok());
    assert!(matches!(cifar(&[one.clone(), one], Some(10), &LIMITS), Err(DataError::Limit { .. })));
}

#[test]
fn pictures_and_arrays_of_too_many_pixels_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| write(folder.path(), name, bytes);
    let labels = file("labels", &idx_bytes(&[1], &[0]));
    let numpy_labels = file("labels.npy", &npy_bytes("|u1", &[1], &[0]));
    for (width, height, allowed) in [(10, 10, true), (101, 1, false), (1, 101, false)] {
        let pixels = (width * height) as usize;
        let png = file("a/picture.png", &picture(width, height));
        let array = file("images", &idx_bytes(&[1, height, width], &vec![0; pixels]));
        let numpy = npy_bytes("|u1", &[1, height as usize, width as usize], &vec![0; pixels]);
        let numpy = file("images.npy", &numpy);
        let folder = ImageFolder::open(folder.path(), &LIMITS).unwrap();
        let outcomes = [
            read_picture(&png, &LIMITS).map(|_| ()),
            folder.read(0).map(|_| ()),
            idx(&array, &labels, None, &LIMITS).map(|_| ()),
            Npy::open(&numpy, &numpy_labels, None, &LIMITS).map(|_| ()),
        ];
        for outcome in outcomes {
            assert_eq!(outcome.is_ok(), allowed, "{outcome:?}");
            if let Err(error) = outcome {
                assert!(error.hint().unwrap().contains("data.max_pixels"), "{error}");
            }
        }
        let mask = read_mask(&png, &LIMITS).map(|_| ());
        assert_eq!(
            mask.as_ref().is_err_and(|error| error.to_string().contains("allowed")),
            !allowed,
            "{mask:?}"
        );
    }
}

#[test]
fn a_plan_says_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "images", &idx_bytes(&[2, 3, 3], &[0; 18]));
    write(folder.path(), "labels", &idx_bytes(&[2], &[0, 1]));
    let data = |limits: &str| {
        let text =
            format!("[data]\nformat = \"idx\"\ntrain = \"images\"\ntrain_labels = \"labels\"\n{limits}");
        open(&spec(&text), folder.path()).map(|_| ())
    };
    assert!(data("").is_ok());
    assert!(message(data("max_pixels = 8"), "images").contains("9 pixels"));
    assert!(message(data("max_bytes = 17"), "images").contains("18 bytes"));
}

#[test]
fn a_label_is_no_number_of_classes() {
    let folder = tempfile::tempdir().unwrap();
    let images = write(folder.path(), "images.npy", &npy_bytes("|u1", &[2, 1, 1], &[0; 2]));
    let labels = |label: i64| {
        let bytes: Vec<u8> = [0, label].iter().flat_map(|label| label.to_le_bytes()).collect();
        let labels = write(folder.path(), "labels.npy", &npy_bytes("<i8", &[2], &bytes));
        Npy::open(&images, &labels, None, &DataLimits::default())
    };
    assert_eq!(labels(65_535).unwrap().classes(), 65_536);
    for label in [65_536, 1 << 31, i64::MAX] {
        let error = message(labels(label), "labels.npy");
        assert!(error.contains(&format!("record 1 has label {label}")), "{error}");
    }
    assert!(message(labels(-1), "labels.npy").contains("label -1"));
    let all = |classes: &str| {
        let text =
            "[data]\nformat = \"npy\"\ntrain = \"images.npy\"\ntrain_labels = \"labels.npy\"\nclasses = ";
        open(&spec(&format!("{text}{classes}")), folder.path()).map(|_| ())
    };
    assert!(message(all("4000000000"), "data.classes").contains("65536"));
}

#[test]
fn files_that_could_be_either_cifar_need_a_word() {
    // 3074 records of 3073 bytes are as long as 3073 of 3074.
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "both.bin", &vec![1; 3073 * 3074]);
    let error = message(cifar(std::slice::from_ref(&path), None, &DataLimits::default()), "data.classes");
    assert!(error.contains("10 classes and 100"), "{error}");
    assert_eq!(cifar(std::slice::from_ref(&path), Some(100), &DataLimits::default()).unwrap().len(), 3073);
}
