//! Splits and fingerprints.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use dapple_data::formats::{ImageFolder, PackedImages};
use dapple_data::{DataLimits, Dataset, Opened, Subset, split, stratified_split};
use dapple_geometry::Size;
use dapple_plan::Relation;

fn dataset(records: usize, change: impl Fn(&mut Vec<u8>, &mut Vec<u32>)) -> Arc<dyn Dataset> {
    let mut bytes: Vec<u8> = (0..records).map(|record| record as u8).collect();
    let mut labels: Vec<u32> = (0..records).map(|record| record as u32 % 3).collect();
    change(&mut bytes, &mut labels);
    let size = Size::new(1, 1).unwrap();
    Arc::new(PackedImages::new(Path::new("memory"), size, 1, bytes, labels, 3).unwrap())
}

/// The pixel of each record, which is its number.
fn members(part: &Subset) -> BTreeSet<u8> {
    let pixel = |record| match part.read(record).unwrap().values() {
        dapple_data::Values::Bytes(bytes) => bytes[0],
        dapple_data::Values::Floats(_) => unreachable!(),
    };
    (0..part.len()).map(pixel).collect()
}

/// Every relation that records can be trained under.
const RELATIONS: [Relation; 3] = [Relation::AddRemove, Relation::Replace, Relation::Patch];

#[test]
fn a_split_is_a_partition_that_the_seed_decides() {
    let whole = dataset(200, |_, _| {});
    for relation in RELATIONS {
        let (train, validation) = split(&whole, 0.1, 5, relation).unwrap();
        assert!(members(&train).is_disjoint(&members(&validation)));
        assert_eq!(members(&train).len() + members(&validation).len(), 200);
        assert_eq!(members(&split(&whole, 0.1, 5, relation).unwrap().1), members(&validation));
        assert_ne!(members(&split(&whole, 0.1, 6, relation).unwrap().1), members(&validation));
        for record in 0..train.len() {
            let pixel = *members(&train).iter().nth(record).unwrap();
            assert_eq!(train.label(record).unwrap(), u32::from(pixel) % 3);
        }
    }
}

#[test]
fn coins_fall_as_often_as_the_share_says() {
    // With 120 seeds of 200 records, a binomial count is six standard deviations off in one of 5e8 tests.
    let whole = dataset(200, |_, _| {});
    for relation in RELATIONS {
        for share in [0.1, 0.5, 0.8] {
            let heads: usize =
                (0..120).map(|seed| split(&whole, share, seed, relation).unwrap().1.len()).sum();
            let coins = 24_000.0;
            let deviation = f64::sqrt(coins * share * (1.0 - share));
            assert!((heads as f64 - coins * share).abs() < 6.0 * deviation, "{relation}: {heads} of {coins}");
        }
    }
}

#[test]
fn a_record_more_or_less_leaves_the_others_where_they_are() {
    let whole = dataset(200, |_, _| {});
    let (train, validation) = split(&whole, 0.3, 5, Relation::AddRemove).unwrap();
    for gone in [0u8, 77, 199] {
        let others = (0..200u8).filter(|&record| record != gone);
        let fewer = dataset(199, |bytes, labels| {
            *bytes = others.clone().collect();
            *labels = others.clone().map(|record| u32::from(record) % 3).collect();
        });
        let (still, off) = split(&fewer, 0.3, 5, Relation::AddRemove).unwrap();
        let without = |part: BTreeSet<u8>| part.into_iter().filter(|&record| record != gone).collect();
        let expected: (BTreeSet<u8>, BTreeSet<u8>) =
            (without(members(&train)), without(members(&validation)));
        assert_eq!((members(&still), members(&off)), expected, "without {gone}");
    }
}

#[test]
fn a_substituted_record_stays_on_its_side() {
    let whole = dataset(200, |_, _| {});
    for relation in [Relation::Replace, Relation::Patch] {
        let (train, validation) = split(&whole, 0.3, 5, relation).unwrap();
        let other = dataset(200, |bytes, labels| {
            (bytes[77], labels[77]) = (255, 2);
        });
        let (still, off) = split(&other, 0.3, 5, relation).unwrap();
        assert_eq!((still.len(), off.len()), (train.len(), validation.len()));
        let changed = |part: BTreeSet<u8>| -> BTreeSet<u8> {
            part.into_iter().map(|record| if record == 77 { 255 } else { record }).collect()
        };
        assert_eq!(
            (members(&still), members(&off)),
            (changed(members(&train)), changed(members(&validation)))
        );
    }
}

#[test]
fn files_are_known_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    for record in 0..60u8 {
        let path = folder.path().join(format!("{}/{record}.ppm", record % 2));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, [b"P6 1 1 255\n", &[record; 3][..]].concat()).unwrap();
    }
    let sides = |relation| {
        let whole = ImageFolder::open(folder.path(), &DataLimits::default()).unwrap();
        let (train, validation) = split(&(Arc::new(whole) as Arc<dyn Dataset>), 0.3, 5, relation).unwrap();
        (members(&train), members(&validation))
    };
    let before = sides(Relation::AddRemove);
    assert_eq!(sides(Relation::Replace), before);
    let (gone, other) = (*before.0.first().unwrap(), *before.1.first().unwrap());
    std::fs::remove_file(folder.path().join(format!("{}/{gone}.ppm", gone % 2))).unwrap();
    std::fs::write(folder.path().join(format!("{}/{other}.ppm", other % 2)), b"P6 1 1 255\n\xff\xff\xff")
        .unwrap();
    let (train, validation) = sides(Relation::AddRemove);
    assert_eq!(train, before.0.iter().copied().filter(|&record| record != gone).collect());
    assert_eq!(validation.len(), before.1.len());
}

#[test]
fn whatever_changes_has_another_fingerprint() {
    let plain = dataset(200, |_, _| {}).fingerprint().unwrap();
    assert_eq!(dataset(200, |_, _| {}).fingerprint().unwrap(), plain);
    assert_eq!(plain.len(), 64);
    assert_ne!(dataset(200, |bytes, _| bytes[77] ^= 1).fingerprint().unwrap(), plain);
    assert_ne!(dataset(200, |_, labels| labels[77] = (labels[77] + 1) % 3).fingerprint().unwrap(), plain);
    assert_ne!(dataset(199, |_, _| {}).fingerprint().unwrap(), plain);
    let whole = dataset(200, |_, _| {});
    let (train, validation) = split(&whole, 0.1, 5, Relation::Replace).unwrap();
    assert_ne!(train.fingerprint().unwrap(), validation.fingerprint().unwrap());
    assert_ne!(
        split(&whole, 0.1, 6, Relation::Replace).unwrap().0.fingerprint().unwrap(),
        train.fingerprint().unwrap()
    );
    assert!(Subset::new(whole, vec![200]).is_err());
}

/// Each class gives its share, to the nearest whole number, and other pixels change nothing.
#[test]
fn a_stratified_split_takes_its_share_of_every_class() {
    let whole = dataset(200, |_, _| {});
    let (train, validation) = stratified_split(&whole, 0.2, 5).unwrap();
    assert!(members(&train).is_disjoint(&members(&validation)));
    assert_eq!(train.len() + validation.len(), 200);
    let of_class =
        |part: &Subset, class| (0..part.len()).filter(|&record| part.label(record).unwrap() == class).count();
    // There are 67, 67 and 66 records of the classes.
    assert_eq!([0, 1, 2].map(|class| of_class(&validation, class)), [13, 13, 13]);
    assert_ne!(members(&stratified_split(&whole, 0.2, 6).unwrap().1), members(&validation));
    let painted = dataset(200, |bytes, _| bytes[3] = 250);
    let expected: BTreeSet<u8> =
        members(&validation).into_iter().map(|pixel| if pixel == 3 { 250 } else { pixel }).collect();
    assert_eq!(members(&stratified_split(&painted, 0.2, 5).unwrap().1), expected);
    assert!(stratified_split(&dataset(3, |_, _| {}), 0.1, 1).is_err());
}

/// Lists as Oxford Pets has them (names without endings, classes by number) and as SUN397 has them (paths whose folders are classes).
#[test]
fn lists_name_the_records_of_both_parts() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for name in ["Abyssinian_1.pgm", "beagle_2.pgm", "pug_3.pgm", "a/abbey/sun_1.pgm", "b/bar/out/sun_2.pgm"]
    {
        write(name, b"P5\n1 1\n255\n\0");
    }
    let open = |list: &str| {
        write("list.txt", list.as_bytes());
        ImageFolder::open_list(folder.path(), &folder.path().join("list.txt"), &DataLimits::default())
    };
    let pets =
        open("#Image CLASS-ID SPECIES BREED\nbeagle_2 10 2 1\n\nAbyssinian_1 2 1 1\npug_3 10 2 1\n").unwrap();
    assert_eq!(pets.class_names().unwrap(), ["2", "10"]);
    let labels =
        |data: &ImageFolder| (0..data.len()).map(|record| data.label(record).unwrap()).collect::<Vec<_>>();
    assert_eq!(labels(&pets), [1, 0, 1]);
    assert_eq!(pets.name(0).unwrap(), "beagle_2.pgm");
    let sun = open("/b/bar/out/sun_2.pgm\n/a/abbey/sun_1.pgm\n").unwrap();
    assert_eq!(
        (sun.class_names().unwrap(), labels(&sun)),
        (&["a/abbey".to_owned(), "b/bar/out".to_owned()][..], vec![1, 0])
    );
    write("other.txt", b"pug_3 2\n");
    let like = |classes: &[&str]| {
        let classes: Vec<String> = classes.iter().map(|&class| class.to_owned()).collect();
        ImageFolder::open_list_like(
            folder.path(),
            &folder.path().join("other.txt"),
            &classes,
            &DataLimits::default(),
        )
    };
    assert_eq!(labels(&like(&["1", "2"]).unwrap()), [1]);
    assert!(like(&["1"]).unwrap_err().to_string().contains("does not have its class \"2\""));
    for (list, says) in [
        ("", "no picture"),
        ("pug_3\n", "line 1: the picture has no class"),
        ("\nnothing 1\n", "line 2: there is no such picture"),
        ("../list.txt 1\n", "lies elsewhere"),
        ("pug_3 1\npug_3.pgm 2\n", "is the same as"),
    ] {
        let error = open(list).unwrap_err();
        assert!(error.to_string().contains(says) && error.hint().is_some(), "{list:?}: {error}");
    }
}

/// A file that is trained on is found in the test set under whichever path.
#[test]
fn a_record_is_not_tested_on_by_another_path() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    for path in ["photos/cat/a.pgm", "photos/cat/b.pgm", "other/cat/c.pgm"] {
        std::fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        std::fs::write(at(path), format!("P5\n1 1\n255\n{}", path.len())).unwrap();
    }
    let open = |path: &str| -> Arc<dyn Dataset> {
        Arc::new(ImageFolder::open(&at(path), &DataLimits::default()).unwrap())
    };
    let check = |test: &str| {
        let test = Some(Arc::clone(&open(test)));
        Opened { train: open("photos"), test, pool: None }.check_disjoint()
    };
    check("other").unwrap();
    // Both sets have the same number of records no more.
    std::fs::write(at("photos/cat/d.pgm"), "P5\n1 1\n255\n4").unwrap();
    assert!(check("other/../photos").is_err());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("photos/cat/b.pgm"), at("other/cat/e.pgm")).unwrap();
        let error = check("other").unwrap_err().to_string();
        assert!(error.contains("b.pgm is trained on"), "{error}");
    }
}
