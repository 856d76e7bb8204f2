//! Splitting records off for evaluation.

use std::sync::Arc;

use crate::keys::{MasterKey, Purpose};
use crate::uniform::shuffled;
use crate::{DataError, Dataset, Subset};

/// Splits a data set in two: the records to train on, and a `share` of them, at least one, for evaluation. Which ones depends on
/// the seed and on the number of records alone, so it tells nothing of their content.
///
/// # Errors
/// A share that leaves one side without records.
pub fn split(whole: &Arc<dyn Dataset>, share: f64, seed: u64) -> Result<(Subset, Subset), DataError> {
    let records = whole.len();
    let off = (records as f64 * share).round() as usize;
    if !(share > 0.0 && share < 1.0) || off == 0 || off >= records {
        let problem = format!("a share of {share} of {records} records leaves one side empty");
        return Err(DataError::Setting { key: "data.validation", problem });
    }
    let mut random = MasterKey::from_seed(seed).purpose(Purpose::Split).step(0).stream(0);
    let order = shuffled(&mut random, records);
    let side = |part: &[usize]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        Subset::new(Arc::clone(whole), part)
    };
    Ok((side(&order[off..])?, side(&order[..off])?))
}
