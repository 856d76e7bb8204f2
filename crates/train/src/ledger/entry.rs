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
    /// Hash of the guarantee.
    pub plan: String,
    /// Fingerprint of the records trained on.
    pub data: String,
    /// Digest of the initial weights.
    pub weights: String,
    /// Steps of the plan.
    pub steps: u64,
    /// The most steps that one entry promises.
    pub largest_block: u64,
    /// Whether every random number follows from a seed, so that a step taken again releases the same.
    pub deterministic: bool,
    /// Whether gradients are clipped and noised.
    pub private: bool,
    /// Digest of the key of balanced sampling, which decides at the start which steps a record joins; none where no key is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling_key: Option<String>,
}

impl Start {
    /// Hash of the line that this is, which no other run has: the fingerprint of the data is hidden by a key of the run's own.
    pub(crate) fn id(&self) -> String {
        LedgerEntry::Start(self.clone()).to_line(chain::ROOT).1
    }

    /// Whether a step may be taken again at no cost: with a seed it releases the same, without privacy nothing is counted on.
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
    /// Steps that count as taken from here on, written before the first of them is.
    Promise {
        /// The first step, from 0.
        first: u64,
        /// How many.
        steps: u64,
        /// What each of them is to the accountant.
        event: SamplingEvent,
        /// The clip norm of the first of them, where it follows a quantile. It was released, and changes nothing that is counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clip_norm: Option<f64>,
    },
    /// A line that was cut off by a crash. It may have been any promise, so it counts as the largest.
    Torn {
        /// The first step, from 0.
        first: u64,
        /// How many are counted.
        steps: u64,
        /// Digest of what was there.
        sha256: String,
    },
    /// The steps from here on are computed on this machine. It changes nothing that is counted.
    Machine {
        /// The first of those steps, from 0.
        step: u64,
        /// The machine in words.
        machine: String,
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
        /// Why.
        reason: String,
    },
    /// The run is complete.
    Finished {
        /// Steps taken.
        step: u64,
        /// SHA-256 of `model.safetensors`; runs of earlier versions do not tell.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

impl LedgerEntry {
    /// What the promised steps are to the accountant.
    pub(super) fn event(&self) -> Option<SamplingEvent> {
        match self {
            Self::Promise { event, .. } => Some(*event),
            _ => None,
        }
    }

    /// The line after one with the hash `previous`, with its own hash.
    pub(crate) fn to_line(&self, previous: &str) -> (String, String) {
        // Every entry has a JSON form.
        chain::line(&serde_json::to_string(self).expect("numbers, words and lists of them"), previous)
    }
}
