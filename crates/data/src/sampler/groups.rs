//! Which records of a step are clipped together: the microbatches of the papers.

use std::collections::BTreeMap;

use crate::StepKey;
use crate::uniform::below;

/// Draws the group of each record among `groups` of them, and returns the groups that records joined: for each number of records, all
/// groups of that many, one after the other.
///
/// # Guarantee
/// A record's group is uniform, and a function of (key, step, record) alone. So a record more, less or with other content changes one
/// group, and leaves every other record where it is.
pub(crate) fn clip_groups(key: &StepKey, records: &[usize], groups: u64) -> BTreeMap<usize, Vec<usize>> {
    let mut joined: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for &record in records {
        let group = below(&mut key.stream(record as u64), groups);
        joined.entry(group).or_default().push(record);
    }
    let mut by_size: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for group in joined.into_values() {
        by_size.entry(group.len()).or_default().extend(group);
    }
    by_size
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{MasterKey, Purpose};
    use crate::statistics::{ALPHA, chi_square_accepts};
    use proptest::prelude::*;

    fn key(seed: u64) -> StepKey {
        MasterKey::from_seed(seed).purpose(Purpose::ClipGroups).step(3)
    }

    /// The groups as sets of records.
    fn groups(key: &StepKey, records: &[usize], groups: u64) -> Vec<Vec<usize>> {
        let by_size = clip_groups(key, records, groups);
        let mut all: Vec<Vec<usize>> = by_size
            .into_iter()
            .flat_map(|(size, records)| records.chunks(size).map(<[usize]>::to_vec).collect::<Vec<_>>())
            .collect();
        all.sort();
        all
    }

    proptest! {
        /// The sensitivity of two clip norms rests on this.
        #[test]
        fn a_record_more_changes_one_group(seed in 0u64..1000, drawn in 1usize..40, number in 1u64..20, left in 0usize..40) {
            let records: Vec<usize> = (0..drawn).map(|record| 3 * record + 1).collect();
            let left = records[left % drawn];
            let without: Vec<usize> = records.iter().copied().filter(|&record| record != left).collect();
            let (with, without) = (groups(&key(seed), &records, number), groups(&key(seed), &without, number));
            let expected: Vec<Vec<usize>> = {
                let rest = with.iter().map(|group| group.iter().copied().filter(|&record| record != left).collect());
                let mut rest: Vec<Vec<usize>> = rest.filter(|group: &Vec<usize>| !group.is_empty()).collect();
                rest.sort();
                rest
            };
            prop_assert_eq!(without, expected);
            let mut all: Vec<usize> = with.concat();
            all.sort_unstable();
            prop_assert_eq!(all, records);
        }
    }

    #[test]
    fn groups_are_uniform() {
        // With two records and five groups, both meet with probability 1/5.
        let mut counts = [0u64; 2];
        for seed in 0..20_000 {
            counts[usize::from(groups(&key(seed), &[4, 9], 5).len() == 1)] += 1;
        }
        assert!(chi_square_accepts(&counts, &[16_000.0, 4_000.0], ALPHA), "{counts:?}");
    }
}
