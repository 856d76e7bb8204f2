//! What a run promised, and what it spent.

use dapple_plan::Certificate;
use serde::Serialize;

use crate::error::TrainError;
use crate::ledger::{History, UsedMachine};
use crate::prepare::Prepared;

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Steps are left.
    Running,
    /// It ended before its last step.
    Stopped,
    /// Every step of the plan counts as taken.
    Finished,
}

/// The certificate of a run.
///
/// # Guarantee
/// `spent` covers every value that the run has released, by its ledger; it never exceeds `planned`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunCertificate {
    /// Whether the run goes on.
    pub status: Status,
    /// Whether gradients were clipped and noised; if not, nothing is guaranteed.
    pub private: bool,
    /// What a reader must know before relying on it.
    pub warnings: Vec<&'static str>,
    /// The machines that computed, in order, each from a step on.
    pub machines: Vec<UsedMachine>,
    /// Steps that count as taken.
    pub steps_spent: u64,
    /// The price of those steps; none before the first and without privacy.
    pub spent: Option<Certificate>,
    /// The price of the whole plan; none without privacy.
    pub planned: Option<Certificate>,
    /// Digest of the plan as it is written in the run folder.
    pub spec: String,
    /// Hash of the last line of the ledger.
    pub ledger: String,
}

impl RunCertificate {
    pub(crate) fn new(prepared: &Prepared, history: &History, status: Status) -> Result<Self, TrainError> {
        let mut warnings = Vec::new();
        if !prepared.private() {
            warnings.push("The run was neither clipped nor noised: nothing is guaranteed.");
        }
        if prepared.deterministic() {
            warnings.push(
                "Every random number follows from the seed in the plan: nothing is private against anyone who knows or guesses it.",
            );
        }
        if history.torn() {
            warnings.push("The ledger's last line was cut off; it counts as the largest promise.");
        }
        Ok(Self {
            status,
            private: prepared.private(),
            warnings,
            machines: history.machines().to_vec(),
            steps_spent: history.spent(),
            spent: prepared.price(history.spent())?,
            planned: prepared.planned.clone(),
            spec: history.start().spec.clone(),
            ledger: history.position().1.to_owned(),
        })
    }

    /// The certificate as JSON, one field a line.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers and strings always have a JSON form.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
