//! Splits and fingerprints.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use dapple_data::formats::Packed;
use dapple_data::{Dataset, Subset, split};
use dapple_geometry::Size;

fn dataset(records: usize, change: impl Fn(&mut Vec<u8>, &mut Vec<u32>)) -> Arc<dyn Dataset> {
    let mut bytes: Vec<u8> = (0..records).map(|record| record as u8).collect();
    let mut labels: Vec<u32> = (0..records).map(|record| record as u32 % 3).collect();
    change(&mut bytes, &mut labels);
    let size = Size::new(1, 1).unwrap();
    Arc::new(Packed::new(Path::new("memory"), size, 1, bytes, labels, 3).unwrap())
}

/// The pixel of each record, which is its number.
fn members(part: &Subset) -> BTreeSet<u8> {
    let pixel = |record| match part.read(record).unwrap().values() {
        dapple_data::Values::Bytes(bytes) => bytes[0],
        dapple_data::Values::Floats(_) => unreachable!(),
    };
    (0..part.len()).map(pixel).collect()
}

#[test]
fn a_split_is_a_partition_that_the_seed_decides() {
    let whole = dataset(200, |_, _| {});
    let (train, validation) = split(&whole, 0.1, 5).unwrap();
    assert_eq!((train.len(), validation.len()), (180, 20));
    assert!(members(&train).is_disjoint(&members(&validation)));
    assert_eq!(members(&train).len() + members(&validation).len(), 200);
    assert_eq!(members(&split(&whole, 0.1, 5).unwrap().1), members(&validation));
    assert_ne!(members(&split(&whole, 0.1, 6).unwrap().1), members(&validation));
    // The content has no say in it.
    let other = dataset(200, |_, labels| labels.fill(0));
    assert_eq!(members(&split(&other, 0.1, 5).unwrap().1), members(&validation));
    for record in 0..train.len() {
        let pixel = *members(&train).iter().nth(record).unwrap();
        assert_eq!(train.label(record).unwrap(), u32::from(pixel) % 3);
    }
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
    let (train, validation) = split(&whole, 0.1, 5).unwrap();
    assert_ne!(train.fingerprint().unwrap(), validation.fingerprint().unwrap());
    assert_ne!(split(&whole, 0.1, 6).unwrap().0.fingerprint().unwrap(), train.fingerprint().unwrap());
    assert!(Subset::new(whole, vec![200]).is_err());
}
