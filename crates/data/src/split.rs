//! Splitting records off for evaluation.

use std::sync::Arc;

use dapple_plan::Relation;
use sha2::{Digest, Sha256};

use crate::keys::{MasterKey, Purpose};
use crate::uniform::unit;
use crate::{DataError, Dataset, Subset, Target, Values};

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
    let wrong = |problem| DataError::setting("data.validation", problem);
    if !(share > 0.0 && share < 1.0) {
        return Err(wrong(format!("a share of {share} leaves one side empty")));
    }
    let key = MasterKey::from_seed(seed).purpose(Purpose::Split).step(0);
    let (mut train, mut validation) = (Vec::new(), Vec::new());
    for record in 0..whole.len() {
        let mut coin = key.stream(identity(&**whole, record, relation)?);
        match unit(&mut coin) < share {
            true => validation.push(record),
            false => train.push(record),
        }
    }
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
            hash.update(b"content");
            match whole.target(record)? {
                Target::Class(class) => hash.update(class.to_le_bytes()),
                Target::Map(map) => hash.update(map.labels()),
            }
            match whole.read(record)?.values() {
                Values::Bytes(bytes) => hash.update(bytes),
                Values::Floats(floats) => floats.iter().for_each(|value| hash.update(value.to_le_bytes())),
            }
        }
    }
    Ok(hash.finalize().iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte)))
}
