//! What pricing a plan yields: numbers with their bracket, and what they mean.

mod document;
mod partition;
mod statement;
mod text;
mod trade_off;
mod words;

use dapple_accounting::Bracket;
use serde::{Deserialize, Serialize};

use crate::Plan;
use crate::error::PlanError;
use crate::pricing::loss::{BalancedBound, EpsilonAnswer};
use crate::spec::Accountant;
use crate::{Relation, Sampling, Scheme};
pub use document::CertificateDocument;
pub use text::wrapped;
pub use trade_off::TradeOffPoint;
pub(crate) use words::protects;

/// A priced plan.
///
/// # Guarantee
/// The run the plan describes is (`epsilon.upper`, `delta`)-private under `relation`, provided every sentence of
/// `assumptions` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The certified bracket.
    pub epsilon: Bracket,
    /// The failure probability.
    pub delta: f64,
    /// The relation.
    pub relation: Relation,
    /// The sampling scheme.
    pub sampling: Scheme,
    /// The probability that a step sees a given record.
    pub sample_rate: f64,
    /// The probability that a sampled record shows what is protected.
    pub inclusion_probability: f64,
    /// The probability that a step sees what is protected.
    pub effective_rate: f64,
    /// Steps.
    pub steps: u64,
    /// Noise in clip norms.
    pub noise_multiplier: f64,
    /// How far the sum of clipped gradients moves between neighbours, in clip norms.
    pub sensitivity: f64,
    /// Which accountant answered.
    pub accountant: Accountant,
    /// What must hold outside this program.
    pub assumptions: Vec<String>,
    /// SHA-256 of everything in the plan that may change the guarantee.
    pub plan_hash: String,
    /// What is protected, as a sentence.
    pub protects: String,
    /// The theorem behind the number.
    pub theorem: String,
    /// Records in the data set.
    pub records: u64,
    /// The expected number of records of a step.
    pub batch: u64,
    /// How the clip norm follows the gradients, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive_clip: Option<AdaptiveClipFacts>,
    /// How the noise of different steps cancels, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlated_noise: Option<CorrelatedNoiseFacts>,
    /// How often a record is seen; only for balanced sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationFacts>,
    /// Which parts of the model a record updates, if it does not update all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionFacts>,
    /// The phases of a schedule. The numbers above are then the largest of all phases, and for the noise the smallest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<CertificatePhase>,
}

/// How the noise of different steps cancels. Step `t` releases the sum over `i` of coefficient `i` times the clipped sum of step `t - i`, with the noise
/// of step `t`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorrelatedNoiseFacts {
    /// How many sums are released together, and into how many groups records are dealt out.
    pub bands: usize,
    /// The coefficients, exactly.
    pub coefficients: Vec<f64>,
    /// Their norm, rounded up: how far a contribution moves the releases that it enters, in clip norms.
    pub norm: f64,
}

impl CorrelatedNoiseFacts {
    fn of(plan: &Plan) -> Option<Self> {
        let noise = plan.correlated_noise()?;
        Some(Self { bands: noise.bands(), coefficients: noise.coefficients().collect(), norm: noise.norm() })
    }

    /// Over how many steps the noise cancels, and what that costs.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{}, counted by the coefficients' norm {}", self.bands, crate::number::up(self.norm, 4))
    }
}

/// How the clip norm follows the norms of gradients. What is released for it is counted: the sum of clipped gradients and the number of gradients
/// within the clip norm, each with its noise, together cost what the noise multiplier says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdaptiveClipFacts {
    /// The share of gradients that is to lie within the clip norm.
    pub quantile: f64,
    /// How fast the clip norm follows.
    pub rate: f64,
    /// Standard deviation of the noise on the number of gradients within the clip norm; in a schedule, of the phase with the least.
    pub count_noise: f64,
    /// Standard deviation of the noise on the sum, in clip norms; likewise.
    pub gradient_noise: f64,
}

impl AdaptiveClipFacts {
    fn of(plan: &Plan) -> Option<Self> {
        let clip = plan.clip_quantile()?;
        let least = |noise: fn(&Plan) -> f64| plan.parts().iter().map(noise).fold(f64::INFINITY, f64::min);
        Some(Self {
            quantile: clip.quantile(),
            rate: clip.rate(),
            count_noise: least(|part| part.count_noise().unwrap_or(f64::INFINITY)),
            gradient_noise: least(Plan::gradient_noise),
        })
    }
}

/// How often a record is seen under balanced sampling. In a schedule, this is for the phase that sees it most often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationFacts {
    /// Steps of an epoch that each record joins.
    pub per_record: u64,
    /// Steps of an epoch.
    pub epoch_steps: u64,
    /// The best of the known bounds, which gave epsilon.
    pub bound: String,
    /// Whether epsilon is that of the run itself, rather than of a bound on it.
    pub tight: bool,
}

/// Which parts of the model a record updates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartitionFacts {
    /// Number of submodels, of which a record updates one in each step. Of several partitions, the smallest number.
    pub submodels: u64,
    /// Number of partitions, of which a record draws one first.
    pub partitions: usize,
    /// Whether dropout makes the submodels.
    pub dropout: bool,
    /// Clip norm of the split part, in clip norms.
    pub split_norm: f64,
    /// Clip norm of the part that all records update, in clip norms.
    pub nonsplit_norm: f64,
    /// Whether epsilon gains from the hidden submodel.
    pub counted: bool,
}

/// A phase of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CertificatePhase {
    /// Steps.
    pub steps: u64,
    /// The expected number of records of a step.
    pub batch: u64,
    /// The probability that a sampled record shows what is protected.
    pub inclusion_probability: f64,
    /// The probability that a step sees what is protected.
    pub effective_rate: f64,
    /// Noise in clip norms.
    pub noise_multiplier: f64,
}

impl CertificatePhase {
    fn new(plan: &Plan) -> Self {
        Self {
            steps: plan.steps(),
            batch: plan.batch(),
            inclusion_probability: plan.inclusion_probability(),
            effective_rate: plan.effective_rate(),
            noise_multiplier: plan.noise_multiplier(),
        }
    }
}

fn allocation(plan: &Plan, bound: Option<BalancedBound>) -> Option<AllocationFacts> {
    match (plan.sampling(), bound) {
        (Sampling::Balanced { per_record, epoch_steps }, Some(bound)) => Some(AllocationFacts {
            per_record,
            epoch_steps,
            bound: partition::bound(plan, bound),
            tight: partition::is_tight(plan, bound),
        }),
        _ => None,
    }
}

impl Certificate {
    pub(crate) fn new(
        plan: &Plan,
        EpsilonAnswer { epsilon, bound }: EpsilonAnswer,
        accountant: Accountant,
    ) -> Result<Self, PlanError> {
        plan.parts().iter().try_for_each(Plan::check_count_noise)?;
        Ok(Self {
            epsilon,
            delta: plan.delta(),
            relation: plan.relation(),
            sampling: plan.sampling().scheme(),
            sample_rate: plan.sample_rate(),
            inclusion_probability: plan.inclusion_probability(),
            effective_rate: plan.effective_rate(),
            steps: plan.steps(),
            noise_multiplier: plan.noise_multiplier(),
            sensitivity: plan.sensitivity(),
            accountant,
            assumptions: words::assumptions(plan),
            plan_hash: plan.hash().to_owned(),
            protects: words::protects(plan),
            theorem: words::theorem(plan, bound)?,
            records: plan.records(),
            batch: plan.batch(),
            adaptive_clip: AdaptiveClipFacts::of(plan),
            correlated_noise: CorrelatedNoiseFacts::of(plan),
            allocation: allocation(plan, bound),
            partition: plan.split().map(|split| PartitionFacts {
                submodels: split.submodels(),
                partitions: split.partitions().len(),
                dropout: split.by_dropout(),
                split_norm: split.split_norm(),
                nonsplit_norm: split.nonsplit_norm(),
                counted: plan.counts_submodels(),
            }),
            phases: plan.phases().iter().map(CertificatePhase::new).collect(),
        })
    }
}
