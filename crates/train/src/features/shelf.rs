//! Features that several runs of one process share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use dapple_data::{Dataset, Views};
use dapple_graph::{Graph, Parameters};

use super::MOST_VALUES;
use crate::digest;
use crate::error::TrainError;

/// Features that runs of one process make of the same records by the same frozen trunk, kept in memory for the next run. A clone is the same
/// shelf. A shelf holds about a gigabyte, and lets go of what was put there first.
#[derive(Debug, Clone)]
pub struct FeatureShelf {
    kept: Arc<Mutex<VecDeque<KeptFeatures>>>,
    /// The most values that it holds.
    most: usize,
}

impl Default for FeatureShelf {
    fn default() -> Self {
        Self { kept: Arc::default(), most: MOST_VALUES }
    }
}

#[derive(Debug)]
struct KeptFeatures {
    key: String,
    values: Arc<Vec<f32>>,
}

impl FeatureShelf {
    /// The features of a key, which are made if they are not there. Whoever asks meanwhile waits, since it may ask for the same. `None` if
    /// `make` stopped before its end.
    pub(super) fn take(
        &self,
        key: String,
        make: impl FnOnce() -> Result<Option<Vec<f32>>, TrainError>,
    ) -> Result<Option<Arc<Vec<f32>>>, TrainError> {
        // A run that panicked here left the list as it was.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.iter().find(|found| found.key == key) {
            return Ok(Some(Arc::clone(&found.values)));
        }
        let Some(values) = make()?.map(Arc::new) else { return Ok(None) };
        kept.push_back(KeptFeatures { key, values: Arc::clone(&values) });
        while kept.iter().map(|kept| kept.values.len()).sum::<usize>() > self.most {
            kept.pop_front();
        }
        Ok(Some(values))
    }
}

/// A key that two kinds of features share only if they are the same values: those of a trunk, with its weights, on records that are shown so.
/// It tells about the records, so it is never written down.
pub(super) fn key(
    trunk: &Graph,
    parameters: &Parameters,
    records: &dyn Dataset,
    views: &Views,
) -> Result<String, TrainError> {
    let read = trunk.nodes().iter().flat_map(|node| node.op.parameters());
    let weights: Vec<u8> =
        read.flat_map(|id| parameters.get(id)).flat_map(|weight| weight.to_le_bytes()).collect();
    let (fingerprint, ways) = (records.fingerprint()?, format!("{trunk:?}\n{views:?}"));
    Ok(digest::of(&[fingerprint.as_bytes(), digest::of(&[&weights]).as_bytes(), ways.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_made_once_and_the_oldest_go() {
        let (shelf, mut made) = (FeatureShelf { most: 10, ..FeatureShelf::default() }, Vec::new());
        let mut take = |key: &str, count: usize| {
            let make = || {
                made.push(key.to_owned());
                Ok(Some(vec![count as f32; count]))
            };
            let values = shelf.clone().take(key.to_owned(), make).unwrap().unwrap();
            assert_eq!((values.len(), values[0]), (count, count as f32));
        };
        take("a", 3);
        take("b", 2);
        take("a", 3);
        take("c", 8);
        take("b", 2);
        take("a", 3);
        assert_eq!(made, ["a", "b", "c", "a"]);
        assert!(shelf.take("d".to_owned(), || Ok(None)).unwrap().is_none());
    }
}
