//! `dapple data`: from an unpacked package to files that plans read, where nothing is fetched, and what lists of arrays need.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::dapple_with;

/// A package like the real one, with two images to a picture. The value of a byte tells its image, its pixel and its channel.
fn package(folder: &Path) {
    let package = folder.join("package");
    std::fs::create_dir(&package).unwrap();
    let pictures =
        ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"];
    for (number, name) in (0..).zip(pictures) {
        let pixel = |x: u32, y: u32| {
            image::Rgb([0, 1, 2].map(|channel| ((x * 3 + channel + 7 * (2 * number + y)) % 256) as u8))
        };
        image::RgbImage::from_fn(1024, 2, pixel).save(package.join(format!("{name}.png"))).unwrap();
    }
    std::fs::write(package.join("train_lables.json"), "[0,1,2,3,4,5,6,7,8,9]").unwrap();
    std::fs::write(package.join("test_lables.json"), "[9,0]").unwrap();
}

const GET: &str = "data get cifar-10 --package package --out out --json --quiet";

#[test]
fn a_package_becomes_files_of_cifar() {
    let run = dapple_with(GET, package);
    let answer = run.json();
    assert_eq!(
        (&answer["train"], &answer["test"], &answer["format"]),
        (&10.into(), &2.into(), &"cifar".into())
    );
    let bytes = std::fs::read(run.folder.path().join("out/data_batch_2.bin")).unwrap();
    assert_eq!(bytes.len(), 2 * 3073);
    for (image, record) in (0..).zip(bytes.chunks_exact(3073)) {
        assert_eq!(u32::from(record[0]), 2 + image);
        for (place, &byte) in (0..).zip(&record[1..]) {
            let (channel, pixel) = (place / 1024, place % 1024);
            assert_eq!(u32::from(byte), (pixel * 3 + channel + 7 * (2 + image)) % 256);
        }
    }
    let test = std::fs::read(run.folder.path().join("out/test_batch.bin")).unwrap();
    assert_eq!((test[0], test[3073]), (9, 0));
}

#[test]
fn what_is_not_the_package_is_refused() {
    type Change = fn(&Path);
    let changes: [(Change, i32, &str); 4] = [
        (|folder| std::fs::remove_file(folder.join("package/test_batch.png")).unwrap(), 1, "test_batch.png"),
        (
            |folder| std::fs::write(folder.join("package/test_lables.json"), "[9,10]").unwrap(),
            1,
            "no class 10",
        ),
        (
            |folder| std::fs::write(folder.join("package/test_lables.json"), "[1,2,3]").unwrap(),
            1,
            "3 classes of 2",
        ),
        (
            |folder| {
                std::fs::create_dir(folder.join("out")).unwrap();
                std::fs::write(folder.join("out/test_batch.bin"), "mine").unwrap();
            },
            2,
            "is there already",
        ),
    ];
    for (change, code, said) in changes {
        let run = dapple_with(GET, |folder| {
            package(folder);
            change(folder);
        });
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{said}: {}", run.stderr);
        assert!(run.stderr.contains(said) && run.stderr.contains("hint: "), "{said}: {}", run.stderr);
    }
}

/// Arrays are cut into files, so they need a place for these and a number of them; what is no array takes neither place nor labels.
#[test]
fn lists_of_arrays_say_what_they_need() {
    let images = |folder: &Path| {
        std::fs::write(folder.join("images.npy"), common::npy("|u1", "3, 2, 2", &[7; 12])).unwrap();
        std::fs::write(folder.join("labels.npy"), common::npy("|u1", "3,", &[0, 1, 0])).unwrap();
    };
    const LIST: &str = "data list images.npy --out list.csv";
    for (rest, message) in [
        ("--format npy --labels labels.npy", "error: arrays are cut into one for each shard"),
        (
            "--format npy --labels labels.npy --into a --shards folders",
            "error: arrays lie in no folders of shards",
        ),
        ("--format npy --into a", "error: `data.train_labels` is missing"),
        ("--into a", "error: --into is for arrays, and images.npy are no arrays"),
        ("--labels labels.npy", "error: --labels is for arrays, and images.npy are no arrays"),
    ] {
        let run = dapple_with(&format!("{LIST} {rest}"), images);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{}", run.stderr);
        assert!(run.stderr.starts_with(message) && run.stderr.contains("hint: "), "{}", run.stderr);
        assert_eq!(run.files(), ["images.npy", "labels.npy"], "{rest}");
    }
    let run =
        dapple_with(&format!("{LIST} --format npy --labels labels.npy --into a --shards 2 --json"), images);
    let expected = serde_json::json!({"list": "list.csv", "format": "array-shards", "records": 3});
    assert_eq!(
        (run.json(), run.files()),
        (expected, ["a", "images.npy", "labels.npy", "list.csv"].map(str::to_owned).to_vec())
    );
}
