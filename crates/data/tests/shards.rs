//! Label maps, arrays and clips in shards: a list stands for what it was made of, and what is read is what it says.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{idx_bytes, npy_bytes, open, spec, write};
use dapple_data::clips::Clips;
use dapple_data::formats::{
    Npy, ShardCut, ShardedArrays, ShardedClips, ShardedPairs, cifar, cut_arrays, list_clip_shards,
    list_pair_shards,
};
use dapple_data::segmentation::{ClassMap, Pairs};
use dapple_data::{DataError, DataLimits, Dataset, split};
use dapple_plan::Relation;
use image::{GrayImage, Luma, Rgb, RgbImage};

fn limits() -> DataLimits {
    DataLimits::default()
}

/// Everything of a record that a run may ask for.
fn same(one: &dyn Dataset, other: &dyn Dataset) {
    assert_eq!((one.len(), one.classes(), one.channels()), (other.len(), other.classes(), other.channels()));
    assert_eq!((one.frames(), one.image_size()), (other.frames(), other.image_size()));
    assert_eq!((one.class_names(), one.target_kind()), (other.class_names(), other.target_kind()));
    for record in 0..one.len() {
        assert_eq!(one.read(record).unwrap(), other.read(record).unwrap());
        assert_eq!(one.target(record).unwrap(), other.target(record).unwrap());
        assert_eq!(one.size_of(record).unwrap(), other.size_of(record).unwrap());
        assert_eq!(one.name(record), other.name(record));
    }
    assert!(one.read(one.len()).is_err() && one.shard(one.len()).is_none() && !one.is_here(one.len()));
}

fn refused<T>(result: Result<T, DataError>, part: &str) {
    let error = result.err().unwrap();
    assert!(error.to_string().contains(part) && error.hint().is_some(), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}

fn listed(folder: &Path, text: &str) -> PathBuf {
    write(folder, "list.csv", text.as_bytes())
}

/// Images and label pictures of three classes, two of them in a folder of their own.
fn write_pairs(folder: &Path) {
    for (number, name) in ["north/a.png", "north/b.png", "south/a.png", "south/c, old.png"].iter().enumerate()
    {
        let (number, width) = (number as u32, 4 + number as u32);
        for kind in ["images", "labels"] {
            fs::create_dir_all(folder.join(kind).join(name).parent().unwrap()).unwrap();
        }
        RgbImage::from_fn(width, 3, |x, y| Rgb([(x * 9 + y) as u8, number as u8, 7]))
            .save(folder.join("images").join(name))
            .unwrap();
        GrayImage::from_fn(width, 3, |x, y| Luma([((x + y + number) % 3) as u8]))
            .save(folder.join("labels").join(name))
            .unwrap();
    }
}

#[test]
fn label_maps_lie_in_shards() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write_pairs(root);
    let map = || ClassMap::of_ids(&[0, 1, 2], &[]).unwrap();
    let whole = Pairs::open(&root.join("images"), &root.join("labels"), map(), &limits()).unwrap();
    let opened = |text: &str, map| ShardedPairs::open(root, &listed(root, text), map, &limits());
    let text = list_pair_shards(root, ShardCut::Dealt(2), &limits()).unwrap();
    let dealt = opened(&text, map()).unwrap();
    same(&dealt, &whole);
    assert_eq!([0, 1, 2, 3].map(|record| dealt.shard(record).unwrap()), ["0", "1", "0", "1"]);
    let folders = opened(&list_pair_shards(root, ShardCut::Folders, &limits()).unwrap(), map()).unwrap();
    same(&folders, &whole);
    assert_eq!(
        [0, 1, 2, 3].map(|record| folders.shard(record).unwrap()),
        ["north", "north", "south", "south"]
    );
    // Shards may be cut anew, and classes may not mean something else.
    assert_eq!(dealt.fingerprint().unwrap(), folders.fingerprint().unwrap());
    let turned = opened(&text, ClassMap::of_ids(&[1, 0, 2], &[]).unwrap()).unwrap();
    assert_ne!(turned.fingerprint().unwrap(), dealt.fingerprint().unwrap());
    // A record is here if both of its files are.
    fs::rename(root.join("labels/north/b.png"), root.join("b.png")).unwrap();
    assert_eq!([0, 1, 2, 3].map(|record| dealt.is_here(record)), [true, false, true, true]);
    refused(dealt.target(1), "shard \"1\"");
    fs::copy(root.join("labels/north/a.png"), root.join("labels/north/b.png")).unwrap();
    refused(dealt.target(1), "labels/north/b.png: its content is not what the list says");
    refused(dealt.strange_labels(1), "its content");
    fs::copy(root.join("images/north/a.png"), root.join("images/south/a.png")).unwrap();
    refused(dealt.read(2), "images/south/a.png: its content is not what the list says");
    // A list that says another size would price another crop.
    let line = text.lines().nth(1).unwrap();
    let other = text.replace(line, &line.replacen(",4,3,", ",5,3,", 1));
    refused(opened(&other, map()).unwrap().read(0), "its size is not what the list says");
    // The label map of one image is not that of another.
    let twice = text.replace(",north/b.png,", ",north/a.png,");
    refused(opened(&twice, map()), "line 3: north/a.png is named twice");
    refused(opened(&text.replace(",north/b.png,", ",../b.png,"), map()), "line 3");
    refused(opened(&text.replace("labels_sha256", "digest"), map()), "no column `labels_sha256`");
}

/// Clips of all kinds that need no other program.
fn write_clips(folder: &Path) {
    for (number, name) in ["run/1", "run/2", "walk/4"].iter().enumerate() {
        for frame in 0..3 + number as u32 {
            let path = folder.join(name).join(format!("{frame}.png"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            RgbImage::from_fn(5, 4, |x, y| Rgb([(x * 7 + y + frame) as u8, number as u8, 3]))
                .save(path)
                .unwrap();
        }
    }
    let values: Vec<u8> = (0..4 * 4 * 5).map(|value| (value * 3 % 251) as u8).collect();
    write(folder, "walk/3.npy", &npy_bytes("|u1", &[4, 4, 5], &values));
}

#[test]
fn clips_lie_in_shards() {
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().join("clips");
    write_clips(root);
    let whole = Clips::open(root, None, 2, &limits()).unwrap();
    let opened = |text: &str, like: Option<&[String]>| {
        ShardedClips::open(root, &listed(folder.path(), text), like, 2, &limits())
    };
    let text = list_clip_shards(root, ShardCut::Dealt(3), &limits()).unwrap();
    let clips = opened(&text, None).unwrap();
    same(&clips, &whole);
    assert_eq!([0, 1, 2, 3].map(|record| clips.shard(record).unwrap()), ["0", "1", "2", "0"]);
    let recut = opened(&text.replace(",2\n", ",1\n"), None).unwrap();
    assert_eq!(clips.fingerprint().unwrap(), recut.fingerprint().unwrap());
    let like = ["walk", "run"].map(str::to_owned);
    let other = opened(&text, Some(&like)).unwrap();
    assert_eq!(other.label(0).unwrap(), 1);
    assert_ne!(clips.fingerprint().unwrap(), other.fingerprint().unwrap());
    refused(opened(&text, Some(&like[..1])), "\"run\" is no class of the training data");
    // What lies elsewhere is known by its name.
    for name in ["run/2", "walk/3.npy"] {
        fs::rename(root.join(name), folder.path().join(name.replace('/', "-"))).unwrap();
    }
    let clips = opened(&text, None).unwrap();
    assert_eq!((clips.len(), clips.fingerprint().unwrap()), (4, recut.fingerprint().unwrap()));
    assert_eq!([0, 1, 2, 3].map(|record| clips.is_here(record)), [true, false, false, true]);
    refused(clips.read(1), "shard \"1\"");
    refused(clips.read(2), "shard \"2\"");
    // A frame that is not shown counts, too: it is a part of the record.
    let before = fs::read(root.join("run/1/0.png")).unwrap();
    fs::copy(root.join("run/1/1.png"), root.join("run/1/0.png")).unwrap();
    refused(clips.read(0), "run/1: its content is not what the list says");
    fs::write(root.join("run/1/0.png"), before).unwrap();
    assert!(clips.read(0).is_ok());
    fs::copy(root.join("run/1/1.png"), root.join("run/1/7.png")).unwrap();
    refused(clips.read(0), "its content");
    // A video and the frames that were taken out of it would be two records of the same people.
    let line = text.lines().nth(1).unwrap();
    refused(opened(&format!("{text}{}\n", line.replacen("run/1", "run/1.npy", 1)), None), "run/1");
    refused(
        opened(&format!("{text}{}\n", line.replacen("run/1", "run/.hidden", 1)), None),
        "not that of a clip",
    );
}

/// Where records of an array have no names, those that are held out are found by what they are, which the list knows without reading them.
#[test]
fn arrays_lie_in_shards() {
    const RECORDS: usize = 23;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let labels: Vec<u8> = (0..RECORDS).map(|record| (record % 3) as u8).collect();
    let labels = write(root, "labels.npy", &npy_bytes("|u1", &[RECORDS], &labels));
    let bytes: Vec<u8> = (0..RECORDS * 12).map(|value| (value * 7 % 253) as u8).collect();
    let floats: Vec<u8> = (0..RECORDS * 12).flat_map(|v| (v as f32 / 7.0 - 3.0).to_le_bytes()).collect();
    for (name, descr, shape, values) in [
        ("bytes", "|u1", &[RECORDS, 4, 3][..], &bytes),
        ("colours", "|u1", &[RECORDS, 2, 2, 3], &bytes),
        ("floats", "<f4", &[RECORDS, 4, 3], &floats),
    ] {
        let images = write(root, &format!("{name}.npy"), &npy_bytes(descr, shape, values));
        let whole: Arc<dyn Dataset> = Arc::new(Npy::open(&images, &labels, None, &limits()).unwrap());
        let text = cut_arrays(&*whole, 4, root, name).unwrap();
        let list = listed(root, &text);
        let opened = || ShardedArrays::open(root, &list, None, &limits()).unwrap();
        let cut = opened();
        same(&cut, &*whole);
        assert_eq!([0, 1, 5, 7].map(|record| cut.shard(record).unwrap()), ["0", "1", "1", "3"]);
        // The arrays are such as others write.
        let written = fs::read(root.join(format!("{name}-3.npy"))).unwrap();
        let (shape, each) = (
            [&[5][..], &shape[1..], if shape.len() == 3 { &[1][..] } else { &[] }].concat(),
            values.len() / RECORDS,
        );
        let own: Vec<u8> =
            (3..RECORDS).step_by(4).flat_map(|r| values[r * each..][..each].to_vec()).collect();
        assert_eq!(written, npy_bytes(descr, &shape, &own));
        // One shard alone knows as much of the records as all.
        let before = cut.fingerprint().unwrap();
        (0..3).for_each(|shard| fs::remove_file(root.join(format!("{name}-{shard}.npy"))).unwrap());
        let cut: Arc<dyn Dataset> = Arc::new(opened());
        assert_eq!((cut.fingerprint().unwrap(), cut.is_here(2), cut.is_here(3)), (before, false, true));
        refused(cut.read(2), "shard \"2\"");
        for relation in [Relation::AddRemove, Relation::Replace, Relation::Patch] {
            let held_out = |data: &Arc<dyn Dataset>| {
                let (train, test) = split(data, 0.4, 5, relation).unwrap();
                let here =
                    |part: &dyn Dataset| (0..part.len()).map(|r| part.target(r).unwrap()).collect::<Vec<_>>();
                (here(&train), here(&test))
            };
            assert_eq!(held_out(&cut), held_out(&whole), "{relation}");
        }
        fs::remove_file(root.join(format!("{name}-3.npy"))).unwrap();
    }
}

#[test]
fn every_kind_of_arrays_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let pixels: Vec<u8> = (0..5 * 3073)
        .map(|byte| if byte % 3073 == 0 { (byte / 3073) as u8 } else { (byte % 199) as u8 })
        .collect();
    let file = write(root, "data.bin", &pixels);
    let whole = cifar(std::slice::from_ref(&file), Some(10), &limits()).unwrap();
    // More shards than records are as many as records.
    let list = listed(root, &cut_arrays(&whole, 9, root, "cifar").unwrap());
    same(&ShardedArrays::open(root, &list, Some(10), &limits()).unwrap(), &whole);
    assert!(!root.join("cifar-5.npy").exists());
    refused(cut_arrays(&whole, 9, root, "cifar").map(drop), "cifar-0.npy");
    write(root, "train-images-idx3-ubyte", &idx_bytes(&[4, 2, 3], &[9; 24]));
    write(root, "train-labels-idx1-ubyte", &idx_bytes(&[4], &[0, 1, 1, 0]));
    let opened = |text: &str| open(&spec(&format!("[data]\n{text}")), root).map(|opened| opened.train);
    let whole = opened("format = 'idx'\ntrain = '.'").unwrap();
    write(root, "idx.csv", cut_arrays(&*whole, 2, root, "idx").unwrap().as_bytes());
    same(&*opened("format = 'array-shards'\ntrain = '.'\ntrain_labels = 'idx.csv'").unwrap(), &*whole);
    refused(opened("format = 'array-shards'\ntrain = '.'"), "`data.train_labels` is missing");
    refused(opened("format = 'clip-shards'\ntrain = '.'"), "`data.train_labels` is missing");
    refused(opened("format = 'pair-shards'\nclasses = 2\ntrain = '.'"), "`data.train_labels` is missing");
}

#[test]
fn arrays_that_are_not_what_the_list_says_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let labels = write(root, "labels.npy", &npy_bytes("|u1", &[4], &[0, 1, 1, 0]));
    let values: Vec<u8> = (0..24).collect();
    let images = write(root, "images.npy", &npy_bytes("|u1", &[4, 2, 3], &values));
    let whole = Npy::open(&images, &labels, None, &limits()).unwrap();
    let text = cut_arrays(&whole, 2, root, "a").unwrap();
    let open = |text: &str, classes| ShardedArrays::open(root, &listed(root, text), classes, &limits());
    let read = |text: &str| open(text, None).and_then(|arrays| arrays.read(0));
    assert!(read(&text).is_ok());
    let first = text.lines().nth(1).unwrap();
    let with = |from: &str, to: &str| text.replace(first, &first.replacen(from, to, 1));
    // Class, place and content are what the digest says.
    refused(read(&with(",0,0,", ",0,1,")), "its content is not what the list says");
    refused(read(&with("a-0.npy,0,", "a-1.npy,7,")), "its number of records is not what the list says");
    refused(read(&text.replace("a-0.npy,0,", "a-0.npy,9,")), "number of records");
    refused(read(&text.replace(",3,2,1,", ",2,3,1,")), "its shape is not what the list says");
    refused(read(&text.replace("uint8", "float32")), "its shape");
    refused(open(&text.replacen("uint8", "float32", 1), None), "line 3: its size");
    refused(open(&text.replace("uint8", "int64"), None), "line 2: values are uint8 or float32");
    refused(open(&with("a-0.npy,0,", "a-0.npy,1,"), None), "record 1 of a-0.npy is named in line 2 already");
    refused(open(&with("a-0.npy,0,", "a-0.npy,-1,"), None), "line 2: \"-1\" is no number of a record");
    refused(open(&text, Some(1)), "list.csv");
    fs::write(root.join("a-0.npy"), npy_bytes("|u1", &[2, 2, 3, 1], &[8; 12])).unwrap();
    refused(read(&text), "its content");
    fs::write(root.join("a-0.npy"), b"no array").unwrap();
    refused(read(&text), "a-0.npy");
}
