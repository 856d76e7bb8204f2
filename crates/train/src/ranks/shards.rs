//! How ranks deal out records that lie in shards, of which each rank need have some alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use dapple_data::Dataset;
use serde::{Deserialize, Serialize};

use crate::digest;

/// What a rank has of a data set in shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldShards {
    /// A digest of which record lies in which shard.
    cut: String,
    /// The records of each shard, and the number of the first one that is missing here.
    shards: BTreeMap<String, (u64, Option<usize>)>,
}

impl HeldShards {
    /// What this rank has; `None` if the records do not lie in shards.
    pub(super) fn of(dataset: &dyn Dataset) -> Option<Self> {
        let mut shards: BTreeMap<String, (u64, Option<usize>)> = BTreeMap::new();
        let mut cut = Vec::new();
        for record in 0..dataset.len() {
            let shard = dataset.shard(record)?;
            cut.extend((shard.len() as u64).to_le_bytes());
            cut.extend(shard.as_bytes());
            let (records, missing) = match shards.get_mut(shard) {
                Some(held) => held,
                None => shards.entry(shard.to_owned()).or_default(),
            };
            *records += 1;
            if missing.is_none() && !dataset.is_here(record) {
                *missing = Some(record);
            }
        }
        Some(Self { cut: digest::of(&[&cut]), shards })
    }

    /// Whether another rank cuts the records into other shards.
    pub(super) fn differs(one: Option<&Self>, other: Option<&Self>) -> bool {
        one.map(|held| &held.cut) != other.map(|held| &held.cut)
    }

    /// The rank that shows each record. Shards are dealt in the order of their sizes, the largest first and by name where these are equal,
    /// each to the rank that has all of it and has been dealt the fewest records so far, and of several such to the lowest.
    ///
    /// # Guarantee
    /// The deal is a function of what all ranks have, which all hear alike, so that every record has one owner, and the same on every rank.
    ///
    /// # Errors
    /// A shard that no rank has, with the first of its records that the first rank is without.
    pub(super) fn deal(dataset: &dyn Dataset, of_ranks: &[&Self]) -> Result<Arc<[usize]>, String> {
        let Some(first) = of_ranks.first() else { return Err("there is no rank".to_owned()) };
        let mut order: Vec<(&String, u64)> =
            first.shards.iter().map(|(name, (records, _))| (name, *records)).collect();
        order.sort_by_key(|(_, records)| std::cmp::Reverse(*records));
        let mut dealt = vec![0; of_ranks.len()];
        let mut owner_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, records) in order {
            let has = |rank: &usize| matches!(of_ranks[*rank].shards.get(name), Some((_, None)));
            let owner = (0..of_ranks.len()).filter(has).min_by_key(|&rank| dealt[rank]);
            let owner = owner.ok_or_else(|| {
                let missing = first.shards[name].1.unwrap_or_default();
                format!(
                    "no rank has all of shard {name:?}; rank 0 is without {}, for one",
                    dataset.name(missing).unwrap_or_else(|| dataset.place(missing))
                )
            })?;
            dealt[owner] += records;
            owner_of.insert(name, owner);
        }
        let owner = |record| dataset.shard(record).and_then(|shard| owner_of.get(shard).copied());
        (0..dataset.len())
            .map(|record| owner(record).ok_or_else(|| "a record lies in no shard".to_owned()))
            .collect()
    }
}

/// The rank that shows each record to train on, and each to evaluate on, where these lie in shards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DealtRecords {
    pub(crate) train: Option<Arc<[usize]>>,
    pub(crate) test: Option<Arc<[usize]>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_data::{DataError, Image, Target};
    use dapple_geometry::Size;

    /// Records of one shard after the other, of which some are here.
    struct InShards {
        shards: Vec<&'static str>,
        here: Vec<&'static str>,
    }

    impl Dataset for InShards {
        fn len(&self) -> usize {
            self.shards.len()
        }

        fn classes(&self) -> u32 {
            1
        }

        fn channels(&self) -> usize {
            1
        }

        fn image_size(&self) -> Option<Size> {
            None
        }

        fn target(&self, _: usize) -> Result<Target, DataError> {
            Ok(Target::Class(0))
        }

        fn read(&self, record: usize) -> Result<Image, DataError> {
            Err(DataError::Record { record, records: self.len() })
        }

        fn shard(&self, record: usize) -> Option<&str> {
            Some(self.shards[record])
        }

        fn is_here(&self, record: usize) -> bool {
            self.here.contains(&self.shards[record])
        }

        fn place(&self, record: usize) -> String {
            format!("record {record}")
        }

        fn fingerprint(&self) -> Result<String, DataError> {
            Ok(String::new())
        }
    }

    fn deal(here: &[&[&'static str]]) -> Result<Vec<usize>, String> {
        let of = |here: &[&'static str]| InShards {
            shards: ["a", "b", "c", "b", "b", "d", "c"].to_vec(),
            here: here.to_vec(),
        };
        let held: Vec<HeldShards> = here.iter().map(|here| HeldShards::of(&of(here)).unwrap()).collect();
        HeldShards::deal(&of(&[]), &held.iter().collect::<Vec<_>>()).map(|owners| owners.to_vec())
    }

    #[test]
    fn every_record_goes_to_a_rank_that_has_it() {
        // By size: b (3), c (2), a (1), d (1).
        let all: &[&str] = &["a", "b", "c", "d"];
        assert_eq!(deal(&[all]).unwrap(), [0; 7]);
        assert_eq!(deal(&[all, all]).unwrap(), [1, 0, 1, 0, 0, 0, 1]);
        assert_eq!(deal(&[all, all, all]).unwrap(), [2, 0, 1, 0, 0, 2, 1]);
        assert_eq!(deal(&[&["a", "b"], &["c", "d"]]).unwrap(), [0, 0, 1, 0, 0, 1, 1]);
        // A rank may have nothing, and one that has what others have takes what they do not.
        assert_eq!(deal(&[&[], all]).unwrap(), [1; 7]);
        assert_eq!(deal(&[&["c", "d"], all, &["b"]]).unwrap(), [1, 1, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn a_shard_that_nobody_has_is_named() {
        let error = deal(&[&["a", "b"], &["b", "d"]]).unwrap_err();
        assert_eq!(error, "no rank has all of shard \"c\"; rank 0 is without record 2, for one");
    }

    #[test]
    fn other_cuts_are_noticed() {
        let cut = |shards: &[&'static str]| {
            HeldShards::of(&InShards { shards: shards.to_vec(), here: shards.to_vec() }).unwrap()
        };
        let one = cut(&["a", "b", "a"]);
        assert!(!HeldShards::differs(Some(&one), Some(&cut(&["a", "b", "a"]))));
        for other in [&["a", "a", "b"][..], &["a", "b"], &["ab", "a"]] {
            assert!(HeldShards::differs(Some(&one), Some(&cut(other))));
        }
        assert!(HeldShards::differs(Some(&one), None) && !HeldShards::differs(None, None));
        // What a rank has is no difference.
        let bare = InShards { shards: vec!["a", "b", "a"], here: Vec::new() };
        assert!(!HeldShards::differs(Some(&one), HeldShards::of(&bare).as_ref()));
    }
}
