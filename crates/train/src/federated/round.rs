//! A round that is under way.

use std::collections::BTreeMap;

use dapple_data::PurposeKey;
use dapple_private::{AddedUpdate, Noise, UpdateSum};
use serde::Serialize;

use super::error::FederatedError;
use crate::error::TrainError;

/// The clients that a round asked, and the sum of what they sent.
#[derive(Debug)]
pub(super) struct OpenRound {
    round: u64,
    length: usize,
    /// Whether each client that was drawn has answered.
    answered: BTreeMap<usize, bool>,
    sum: UpdateSum,
    clipped: usize,
    unusable: usize,
}

/// What became of a round. No noise protects these numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RoundCounts {
    round: u64,
    drawn: usize,
    answered: usize,
    clipped: usize,
    unusable: usize,
}

impl OpenRound {
    pub(super) fn new(
        round: u64,
        drawn: &[usize],
        length: usize,
        clip_norm: f64,
    ) -> Result<Self, TrainError> {
        let answered = drawn.iter().map(|&client| (client, false)).collect();
        let sum = UpdateSum::new(length, clip_norm)?;
        Ok(Self { round, length, answered, sum, clipped: 0, unusable: 0 })
    }

    /// Adds an update; `None` if it is of no use, and adds zero.
    pub(super) fn add(&mut self, client: usize, update: &[f32]) -> Result<Option<AddedUpdate>, TrainError> {
        let refuse = |problem| FederatedError::Answer { client, problem };
        let answered = self.answered.get_mut(&client).ok_or(refuse("was not drawn in this round"))?;
        if std::mem::replace(answered, true) {
            return Err(refuse("has answered in this round before").into());
        }
        let added = match update.len() == self.length {
            true => Some(self.sum.add(update)?).filter(|added| added.finite),
            false => None,
        };
        match &added {
            Some(added) => self.clipped += usize::from(!added.unclipped),
            None => self.unusable += 1,
        }
        Ok(added)
    }

    pub(super) fn counts(&self) -> RoundCounts {
        RoundCounts {
            round: self.round,
            drawn: self.answered.len(),
            answered: self.answered.values().filter(|&&answered| answered).count(),
            clipped: self.clipped,
            unusable: self.unusable,
        }
    }

    /// The noisy sum, divided by the expected number of clients.
    pub(super) fn release(
        self,
        noise: &Noise,
        key: &PurposeKey,
        clients: u64,
    ) -> Result<Vec<f32>, TrainError> {
        Ok(self.sum.release(noise, &key.step(self.round), clients)?)
    }
}
