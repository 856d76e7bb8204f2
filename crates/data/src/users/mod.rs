//! Whose records are whose.

mod records;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use records::UserRecords;
pub use table::{decode_users, read_users};

use std::collections::BTreeMap;

use chacha20::rand_core::Rng;
use sha2::{Digest, Sha256};

use crate::StepKey;
use crate::split::first_word;
use crate::uniform::below;

/// The records of each user. Every user has at least one, and every record exactly one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// Where each user's records begin in `records`, and at the end where the last user's end.
    starts: Vec<usize>,
    /// The records of one user after the other, growing within a user.
    records: Vec<usize>,
    /// What each user is known by, whoever else there is.
    identities: Vec<u64>,
    /// The most records of a user that a round sees.
    most: usize,
}

impl Users {
    /// Users by the name or number that each record's user has, record after record. Users are counted in the order of these.
    #[must_use]
    pub fn of_owners<N: Ord + ToString>(owners: impl IntoIterator<Item = N>) -> Self {
        let mut by_name: BTreeMap<N, Vec<usize>> = BTreeMap::new();
        for (record, owner) in owners.into_iter().enumerate() {
            by_name.entry(owner).or_default().push(record);
        }
        let users = by_name.into_iter().map(|(name, records)| (identity(&name.to_string()), records));
        Self::of_lists(users, usize::MAX)
    }

    fn of_lists(users: impl IntoIterator<Item = (u64, Vec<usize>)>, most: usize) -> Self {
        let mut all = Self { starts: vec![0], records: Vec::new(), identities: Vec::new(), most };
        for (identity, records) in users {
            all.identities.push(identity);
            all.records.extend(records);
            all.starts.push(all.records.len());
        }
        all
    }

    /// The same users, of each of whom a round sees at most so many records.
    #[must_use]
    pub fn with_most(self, most: Option<u64>) -> Self {
        Self { most: most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)), ..self }
    }

    /// How many users there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.identities.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.identities.is_empty()
    }

    /// The records of a user, in growing order; none for a user that does not exist.
    #[must_use]
    pub fn records(&self, user: usize) -> &[usize] {
        match (self.starts.get(user), self.starts.get(user + 1)) {
            (Some(&first), Some(&end)) => &self.records[first..end],
            _ => &[],
        }
    }

    /// The records of a user that the round of this key sees, in the order in which the user's steps go through them.
    ///
    /// # Guarantee
    /// Both follow from (key, user) and this user's own records alone: a uniform choice of at most as many as a round sees, in uniform
    /// order. Drawing it anew in each round is as good as drawing it once, because what a user sends is bounded as a whole, whichever of
    /// its records it comes from.
    #[must_use]
    pub fn shown(&self, user: usize, key: &StepKey) -> Vec<usize> {
        let mut records = self.records(user).to_vec();
        let count = records.len().min(self.most);
        let mut random = key.stream(user as u64);
        shuffle(&mut records, count, &mut random);
        records.truncate(count);
        records
    }

    /// Splits records and users in two by a coin for each user: the records of those for which `held_out` says no, with their users among
    /// these records; and the records of all others.
    pub(crate) fn part(&self, held_out: impl Fn(u64) -> bool) -> (Vec<usize>, Self, Vec<usize>) {
        let (mut kept, mut others) = (Vec::new(), Vec::new());
        let mut users = Vec::new();
        for (user, &identity) in self.identities.iter().enumerate() {
            match held_out(identity) {
                true => others.extend_from_slice(self.records(user)),
                false => {
                    users.push((identity, self.records(user)));
                    kept.extend_from_slice(self.records(user));
                }
            }
        }
        kept.sort_unstable();
        others.sort_unstable();
        let place = |record: &usize| kept.partition_point(|other| other < record);
        let users =
            users.into_iter().map(|(identity, records)| (identity, records.iter().map(place).collect()));
        let users = Self::of_lists(users, self.most);
        (kept, users, others)
    }

    /// Adds all that says whose records are whose to a fingerprint.
    pub(crate) fn hash(&self, hash: &mut Sha256) {
        for numbers in [&self.starts, &self.records] {
            hash.update((numbers.len() as u64).to_le_bytes());
            numbers.iter().for_each(|&number| hash.update((number as u64).to_le_bytes()));
        }
        self.identities.iter().for_each(|identity| hash.update(identity.to_le_bytes()));
    }
}

/// Puts a uniform choice of `count` values first, in uniform order.
fn shuffle(values: &mut [usize], count: usize, random: &mut impl Rng) {
    for place in 0..count {
        let other = place + below(random, (values.len() - place) as u64) as usize;
        values.swap(place, other);
    }
}

/// A number for what a user is known by. Two users share one by chance with probability 2^-64.
fn identity(name: &str) -> u64 {
    first_word(Sha256::new().chain_update(b"user").chain_update(name.as_bytes()))
}
