//! The entries of a ledger and the lines that hold them.

use dapple_data::SamplingEvent;
use serde::{Deserialize, Serialize};

use super::chain;

/// What a run began with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Digest of everything written in the plan but `[performance]`.
    pub spec: String,
    /// Hash of everything in the plan that may change the guarantee.
    pub plan: String,
    /// Fingerprint of the records to train on, hidden by a key.
    pub data: String,
    /// Digest of the initial weights.
    pub weights: String,
    /// Fingerprint of the synthetic images, hidden by the same key; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Steps of the plan.
    pub steps: u64,
    /// The most steps that one entry promises.
    pub largest_block: u64,
    /// Whether every random number follows from a seed, so that a step taken again releases the same.
    pub deterministic: bool,
    /// Whether gradients are clipped and noised.
    pub private: bool,
    /// Digest of the key that decides at the start which steps a record joins, or may join; `None` if no key is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_key: Option<String>,
}

impl Start {
    /// Hash of this line, which no other run has, because a key of the run's own hides the fingerprint of the data.
    pub(crate) fn id(&self) -> String {
        LedgerEntry::Start(self.clone()).to_line(chain::ROOT).1
    }

    /// Whether a step may be taken again at no cost. With a seed it releases the same values, and without privacy nothing is promised.
    #[must_use]
    pub fn repeats_freely(&self) -> bool {
        self.deterministic || !self.private
    }
}

/// One line of a ledger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LedgerEntry {
    /// The first line.
    Start(Start),
    /// Steps that count as taken from here on. The line is written before the first of them is taken.
    Promise {
        /// The first step, from 0.
        first: u64,
        /// How many steps.
        steps: u64,
        /// The event that the accountant prices for each of them.
        event: SamplingEvent,
        /// The clip norm of the first of them, where it follows a quantile. It was released, and changes nothing that is counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clip_norm: Option<f64>,
    },
    /// A line that a crash cut off. It may have been any promise, so it counts as the largest.
    Torn {
        /// The first step, from 0.
        first: u64,
        /// How many steps are counted.
        steps: u64,
        /// Digest of what was left of the line.
        sha256: String,
    },
    /// The steps from here on are computed on this machine. This changes nothing that is counted.
    Machine {
        /// The first of those steps, from 0.
        step: u64,
        /// The machine in words.
        machine: String,
        /// How many such machines share every step, or processes of one; `None` for a process by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ranks: Option<u64>,
    },
    /// The run went on from a checkpoint.
    Resumed {
        /// The step of the checkpoint.
        checkpoint: u64,
        /// The first step taken afterwards.
        step: u64,
    },
    /// The run ended early.
    Stopped {
        /// Steps taken.
        step: u64,
        /// Why it ended.
        reason: String,
    },
    /// The run is complete.
    Finished {
        /// Steps taken.
        step: u64,
        /// SHA-256 of `model.safetensors`; `None` in runs of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

impl LedgerEntry {
    /// The event that the accountant prices for the promised steps.
    pub(super) fn event(&self) -> Option<SamplingEvent> {
        match self {
            Self::Promise { event, .. } => Some(*event),
            _ => None,
        }
    }

    /// The line that follows one with the hash `previous`, and its own hash.
    pub(crate) fn to_line(&self, previous: &str) -> (String, String) {
        // Every entry has a JSON form.
        chain::line(&serde_json::to_string(self).expect("numbers, words and lists of them"), previous)
    }
}
