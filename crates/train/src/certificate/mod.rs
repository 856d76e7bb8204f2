//! What a run promised, and what it spent.

mod date;
mod facts;
mod warning;

use dapple_geometry::CropDistribution;
use dapple_plan::{Certificate, Protected, Relation};
use serde::{Deserialize, Serialize};

use crate::error::one_line;
use crate::ledger::{History, UsedMachine};
use crate::terms::{Cost, Terms};

pub(crate) use date::today;
pub use facts::{FirstWeights, Known, LabelStatus, Origin, RecordLevel, Rounding};
pub use warning::Warning;

/// The version of the certificates that this program writes. Certificates without a number are older than this numbering.
pub(crate) const SCHEMA: u32 = 1;
/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a run goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Steps are left.
    Running,
    /// It ended before its last step.
    Stopped,
    /// Every step of the plan counts as taken.
    Finished,
}

impl Status {
    /// The status that a ledger tells.
    pub(crate) fn of(history: &History) -> Self {
        match () {
            () if history.finished() => Self::Finished,
            () if history.stopped() => Self::Stopped,
            () => Self::Running,
        }
    }
}

/// The certificate of a run.
///
/// # Guarantee
/// `spent` covers every value that the run has released, by its ledger, and never exceeds `planned`. In the file `certificate.json` of a
/// run that goes on or was killed, `steps_spent` and `spent` are ahead of the ledger: they cover every step that can be taken before the
/// file is written again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunCertificate {
    /// The version of the certificate, from 1. Certificates older than this numbering read as 0, and lack every field that has a default
    /// here.
    #[serde(default)]
    pub schema: u32,
    /// The version of the program that wrote it.
    #[serde(default)]
    pub program_version: String,
    /// The day on which it was written, in coordinated universal time. The hour would tell how long steps took.
    #[serde(default)]
    pub date: String,
    /// Whether the run goes on.
    pub status: Status,
    /// Whether gradients were clipped and noised; if not, nothing is guaranteed.
    pub private: bool,
    /// What a reader must know before relying on the certificate.
    pub warnings: Vec<Warning>,
    /// The machines that computed, in order, each with its first step.
    #[serde(default)]
    pub machines: Vec<UsedMachine>,
    /// Steps that count as taken.
    pub steps_spent: u64,
    /// The price of those steps; `None` before the first step, and without privacy.
    pub spent: Option<Certificate>,
    /// The price of the whole plan; `None` without privacy.
    pub planned: Option<Certificate>,
    /// The price of the same run if a whole record is substituted, where the plan protects less than a record.
    #[serde(default)]
    pub record_level: Option<RecordLevel>,
    /// Records in the data set. Their number is public, because the sample rate follows from it.
    #[serde(default)]
    pub public_records: Option<u64>,
    /// The clip norm; the first one where it follows a quantile, as `planned` then says.
    #[serde(default)]
    pub clip_norm: Option<f64>,
    /// What rounding adds to the clip norm.
    #[serde(default)]
    pub rounding: Option<Rounding>,
    /// Width and height of the images.
    #[serde(default)]
    pub image: Option<[u32; 2]>,
    /// Width and height of a crop, if all crops have the same size.
    #[serde(default)]
    pub crop: Option<[u32; 2]>,
    /// Width and height of the protected region, if it is a rectangle.
    #[serde(default)]
    pub patch: Option<[u32; 2]>,
    /// The protected region in words.
    #[serde(default)]
    pub region: Option<String>,
    /// What the guarantee says about labels.
    #[serde(default)]
    pub labels: Option<LabelStatus>,
    /// The weights that the run began with.
    #[serde(default)]
    pub first_weights: Option<FirstWeights>,
    /// SHA-256 of `model.safetensors`, once the run is finished.
    #[serde(default)]
    pub model_sha256: Option<String>,
    /// Digest of the plan as it is written in the run folder.
    pub spec: String,
    /// Hash of the last line of the ledger.
    pub ledger: String,
}

impl RunCertificate {
    /// The certificate of a run with this ledger. `spent` is the cost of its steps or of more steps, and `whole` that of the plan.
    pub(crate) fn new(
        terms: Terms<'_>,
        history: &History,
        status: Status,
        spent: &Cost,
        whole: &Cost,
    ) -> Self {
        let spatial = terms.plan().parts()[0].spatial();
        let crop = spatial.pipeline().and_then(|pipeline| match pipeline.crop_distribution() {
            CropDistribution::Fixed(size) => Some([size.width(), size.height()]),
            CropDistribution::Resized(_) => None,
        });
        Self {
            schema: SCHEMA,
            program_version: VERSION.to_owned(),
            date: today(),
            status,
            private: terms.private(),
            warnings: Warning::all(terms, history),
            machines: history.machines().to_vec(),
            steps_spent: spent.steps,
            spent: spent.price.clone(),
            planned: whole.price.clone(),
            record_level: (terms.private() && terms.protects_less_than_records()).then_some(RecordLevel {
                relation: Relation::Replace,
                spent: spent.whole_record,
                planned: whole.whole_record,
            }),
            public_records: Some(terms.plan().records()),
            clip_norm: terms.private().then(|| terms.plan().clip_norm()),
            rounding: terms.private().then(|| Rounding::of(history)),
            image: spatial.image().map(|size| [size.width(), size.height()]),
            crop,
            patch: spatial.protected().and_then(Protected::patch).map(|size| [size.width(), size.height()]),
            region: spatial.protected().map(|protected| protected.words()),
            labels: LabelStatus::of(terms.training),
            first_weights: Some(FirstWeights::of(terms.training, history)),
            model_sha256: history.model().map(str::to_owned),
            spec: history.start().spec.clone(),
            ledger: history.position().1.to_owned(),
        }
    }

    /// Reads a certificate back, with every number exact to its last bit.
    ///
    /// # Errors
    /// Text that is not the certificate of a run. The message is one line.
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

#[cfg(test)]
mod tests;
