//! What a federated run promised, and what it spent.

use dapple_plan::{BracketPrecision, Certificate, Plan};
use serde::{Deserialize, Serialize};

use crate::certificate::{SCHEMA, Status, VERSION, Warning, today};
use crate::error::{TrainError, one_line};
use crate::ledger::History;

/// Whom the clients trust, as the certificate says it.
const TRUST: &str = "The server is trusted: it receives every update in the clear, draws the clients, clips, adds the noise and releases the model. \
     Nothing here protects a client from the server, or from whoever reads its memory or its network.";

/// What must hold in a federated run beside what the plan assumes.
const ASSUMED: [&str; 4] = [
    "A client is one user, and no user answers as two clients. Which clients were drawn in a round is known to the server and, each for itself, to these clients alone, for ever; so are the times and sizes of their messages.",
    "A client that was drawn and is absent, fails, or answers with what is not finite or has another shape counts as drawn, with an update of zero. Other clients may send whatever they like.",
    "Who is connected, and how long the server waits, is not hidden: the guarantee is about what the models of all rounds reveal.",
    "Nothing else that a client computes is released: no loss, no accuracy, no number of examples.",
];

/// The certificate of a federated run.
///
/// # Guarantee
/// `spent` covers every model that the run has released, by its ledger, and never exceeds `planned`. In the file `certificate.json` it is
/// never less than the ledger counts, whenever the process dies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FederatedCertificate {
    /// The version of the certificate, from 1.
    pub schema: u32,
    /// The version of the program that wrote it.
    pub program_version: String,
    /// The day on which it was written, in coordinated universal time.
    pub date: String,
    /// Whether the run goes on.
    pub status: Status,
    /// Whom the clients trust, in words.
    pub trust: String,
    /// What a reader must know before relying on the certificate.
    pub warnings: Vec<Warning>,
    /// Clients that the plan declares. Their number is public, because the rate follows from it.
    pub clients: u64,
    /// The expected number of clients of a round.
    pub clients_per_round: u64,
    /// The norm to which a client's whole update of a round is clipped.
    pub clip_norm: f64,
    /// Rounds that count as taken.
    pub rounds_spent: u64,
    /// The price of those rounds; `None` before the first.
    pub spent: Option<Certificate>,
    /// The price of all rounds of the plan.
    pub planned: Certificate,
    /// SHA-256 of the values of the first model, which is assumed to be public.
    pub first_weights: String,
    /// SHA-256 of `model.safetensors`, once the run is finished.
    pub model_sha256: Option<String>,
    /// Digest of the plan as it is written in the folder.
    pub spec: String,
    /// Hash of the last line of the ledger.
    pub ledger: String,
}

/// The price of the first rounds of a plan; `None` for no rounds.
pub(super) fn price(plan: &Plan, rounds: u64) -> Result<Option<Certificate>, TrainError> {
    let Some(first) = plan.first(rounds) else { return Ok(None) };
    let mut certificate = first.price(BracketPrecision::default())?;
    certificate.assumptions.push(TRUST.to_owned());
    certificate.assumptions.extend(ASSUMED.map(str::to_owned));
    Ok(Some(certificate))
}

impl FederatedCertificate {
    /// The certificate of a run with this ledger, of which `spent` is the price of `rounds` rounds, as many as it counts or more.
    pub(super) fn new(
        (plan, planned): (&Plan, &Certificate),
        history: &History,
        status: Status,
        (rounds, spent): (u64, Option<Certificate>),
    ) -> Self {
        Self {
            schema: SCHEMA,
            program_version: VERSION.to_owned(),
            date: today(),
            status,
            trust: TRUST.to_owned(),
            warnings: Warning::of_server(planned, history),
            clients: plan.records(),
            clients_per_round: plan.batch(),
            clip_norm: plan.clip_norm(),
            rounds_spent: rounds,
            spent,
            planned: planned.clone(),
            first_weights: history.start().weights.clone(),
            model_sha256: history.model().map(str::to_owned),
            spec: history.start().spec.clone(),
            ledger: history.position().1.to_owned(),
        }
    }

    /// Reads a certificate back, with every number exact to its last bit.
    ///
    /// # Errors
    /// Text that is not the certificate of a federated run. The message is one line.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(one_line)
    }

    /// The certificate as JSON, with one field per line.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Numbers and strings always have a JSON form.
        serde_json::to_string_pretty(self).expect("numbers, words and lists of them")
    }
}
