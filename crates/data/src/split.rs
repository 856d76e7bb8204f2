//! Splitting records off for evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;

use dapple_plan::Relation;
use sha2::{Digest, Sha256};

use crate::keys::{MasterKey, Purpose};
use crate::uniform::unit;
use crate::{DataError, Dataset, Subset, Target, Users, Values};

/// Splits a data set in two: the records to train on, and about a `share` of all for evaluation. A coin of its own decides for each
/// record.
///
/// # Guarantee
/// The coin of a record depends on the seed and on that record, never on the others or on how many there are, so neighbouring data sets
/// are split into neighbouring ones. Where the relation adds or removes records, the coin follows from the record's name, or from its
/// content if it has no name. Where the relation substitutes content, the coin follows from the record's name or number, which stay.
///
/// # Errors
/// A share that is not between 0 and 1 or leaves one side without records, a record that cannot be read.
pub fn split(
    whole: &Arc<dyn Dataset>,
    share: f64,
    seed: u64,
    relation: Relation,
) -> Result<(Subset, Subset), DataError> {
    check(share)?;
    let coins = coins(&**whole, seed, relation)?;
    parts(whole, share, |record| coins[record] < share)
}

/// Splits a data set in two as [`split`] does, but with the same share of each class, as exactly as whole numbers allow: the records of a
/// class whose coins are lowest are for evaluation.
///
/// # Guarantee
/// The split follows from the seed, from the names or numbers of the records and from their classes. So neighbouring data sets are split
/// into neighbouring ones if neighbours differ in neither, as where a region of an image is protected and its class is public. Where
/// records are added, removed or substituted, they may not be split so.
///
/// # Errors
/// As [`split`], and records with label maps.
pub fn stratified_split(
    whole: &Arc<dyn Dataset>,
    share: f64,
    seed: u64,
) -> Result<(Subset, Subset), DataError> {
    check(share)?;
    let coins = coins(&**whole, seed, Relation::Patch)?;
    let mut classes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for record in 0..whole.len() {
        classes.entry(whole.label(record)?).or_default().push(record);
    }
    let mut held_out = vec![false; whole.len()];
    for mut records in classes.into_values() {
        records.sort_by(|&one, &other| coins[one].total_cmp(&coins[other]));
        let count = (share * records.len() as f64).round() as usize;
        records.iter().take(count).for_each(|&record| held_out[record] = true);
    }
    parts(whole, share, |record| held_out[record])
}

/// Splits users off with all of their records: the records to train on, with their users, and those of about a `share` of all users.
///
/// # Guarantee
/// The coin of a user depends on the seed and on the user's name, never on the others or on how many there are, so neighbouring data sets
/// are split into neighbouring ones.
///
/// # Errors
/// A share that is not between 0 and 1 or leaves one side without users.
pub(crate) fn split_users(
    whole: &Arc<dyn Dataset>,
    users: &Users,
    share: f64,
    seed: u64,
) -> Result<(Subset, Users, Subset), DataError> {
    check(share)?;
    let key = MasterKey::from_seed(seed).purpose(Purpose::Split).step(0);
    let (train, left, validation) = users.part(|identity| unit(&mut key.stream(identity)) < share);
    if train.is_empty() || validation.is_empty() {
        return Err(wrong(format!("a share of {share} of {} users leaves one side empty", users.len())));
    }
    Ok((Subset::new(Arc::clone(whole), train)?, left, Subset::new(Arc::clone(whole), validation)?))
}

fn wrong(problem: String) -> DataError {
    DataError::setting("data.validation", problem)
}

fn check(share: f64) -> Result<(), DataError> {
    match share > 0.0 && share < 1.0 {
        true => Ok(()),
        false => Err(wrong(format!("a share of {share} leaves one side empty"))),
    }
}

/// A uniform number in [0, 1) for each record.
fn coins(whole: &dyn Dataset, seed: u64, relation: Relation) -> Result<Vec<f64>, DataError> {
    let key = MasterKey::from_seed(seed).purpose(Purpose::Split).step(0);
    (0..whole.len()).map(|record| Ok(unit(&mut key.stream(identity(whole, record, relation)?)))).collect()
}

/// The records to train on, and those that are held out, neither of which may be none.
fn parts(
    whole: &Arc<dyn Dataset>,
    share: f64,
    held_out: impl Fn(usize) -> bool,
) -> Result<(Subset, Subset), DataError> {
    let (validation, train): (Vec<usize>, Vec<usize>) =
        (0..whole.len()).partition(|&record| held_out(record));
    if train.is_empty() || validation.is_empty() {
        return Err(wrong(format!("a share of {share} of {} records leaves one side empty", whole.len())));
    }
    Ok((Subset::new(Arc::clone(whole), train)?, Subset::new(Arc::clone(whole), validation)?))
}

/// A number for what a record is known by. Two records share one by chance with probability 2^-64.
fn identity(whole: &dyn Dataset, record: usize, relation: Relation) -> Result<u64, DataError> {
    let mut hash = Sha256::new();
    match (whole.name(record), relation) {
        (Some(name), _) => {
            hash.update(b"name");
            hash.update(name.as_bytes());
        }
        (None, Relation::Replace | Relation::Patch | Relation::Masked) => {
            hash.update(b"number");
            hash.update((record as u64).to_le_bytes());
        }
        (None, Relation::AddRemove | Relation::User) => {
            let known = whole.content_digest(record).and_then(|digest| digest.get(..16));
            if let Some(known) = known.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
                return Ok(known);
            }
            hash = content_hash(&whole.target(record)?, whole.read(record)?.values());
        }
    }
    Ok(first_word(hash))
}

/// A hash of what a record is, by which it is known where it has no name: [`Dataset::content_digest`].
pub(crate) fn content_hash(target: &Target, values: &Values) -> Sha256 {
    let mut hash = Sha256::new_with_prefix(b"content");
    match target {
        Target::Class(class) => hash.update(class.to_le_bytes()),
        Target::Map(map) => hash.update(map.labels()),
    }
    match values {
        Values::Bytes(bytes) => hash.update(bytes),
        Values::Floats(floats) => floats.iter().for_each(|value| hash.update(value.to_le_bytes())),
    }
    hash
}

/// The first 64 bits of a digest, by which something is known.
pub(crate) fn first_word(hash: Sha256) -> u64 {
    hash.finalize().iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
}
