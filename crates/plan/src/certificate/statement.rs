//! Certificates as statements for a reviewer.

use super::{Certificate, CertificatePhase};
use crate::{Relation, number};

impl Certificate {
    /// The phases of a schedule.
    fn phase_table(&self) -> String {
        if self.phases.is_empty() {
            return String::new();
        }
        let row = |phase: &CertificatePhase| {
            format!(
                "| {} | {} | {} | {} |\n",
                phase.steps,
                phase.batch,
                number::up(phase.effective_rate, 4),
                phase.noise_multiplier
            )
        };
        let rows: String = self.phases.iter().map(row).collect();
        format!(
            "The run has phases, in this order; above stand the largest rates and the least noise of all of them.\n\n\
             | steps | expected batch | probability that a step sees what is protected | noise multiplier |\n|---|---|---|---|\n{rows}\n"
        )
    }

    /// Between which ends epsilon lies.
    fn bracket_sentence(&self) -> String {
        let Some(lower) = self.epsilon.lower else {
            return "This is an upper bound; no lower one comes with it.".to_owned();
        };
        let whose = match self.is_tight() {
            true => "the theorem's dominating pair",
            false => "a pair that dominates the run, and may cost more than it,",
        };
        let (lower, upper) = (number::down(lower, 4), number::up(self.epsilon.upper, 4));
        format!(
            "The exact epsilon of {whose} lies between {lower} and {upper}; the upper end is the guarantee."
        )
    }

    /// Rows about a clip norm that follows a quantile.
    fn clip_rows(&self) -> String {
        self.adaptive_clip.map_or_else(String::new, |facts| {
            let noise = number::down(facts.gradient_noise, 5);
            format!("| clip norm | {} |\n| noise on the sum, in clip norms | {noise} |\n", facts.words())
        })
    }

    /// The certificate as a Markdown statement: what the adversary sees, what is protected, what is assumed.
    #[must_use]
    pub fn statement(&self) -> String {
        let epsilon = number::up(self.epsilon.upper, 4);
        let allocation = self.allocation.as_ref().map_or_else(String::new, |facts| {
            format!(
                "| steps that each of the {} joins | {} of {} |\n| bound | {} |\n",
                self.units(),
                facts.per_record,
                facts.epoch_steps,
                facts.bound
            )
        });
        let submodels =
            self.partition.map_or_else(String::new, |facts| format!("| submodels | {} |\n", facts.words()));
        let inclusion = if self.relation == Relation::Patch {
            format!(
                "| probability that a sampled image shows the region | {} |\n| probability that a step sees the region | {} |\n",
                number::up(self.inclusion_probability, 4),
                number::up(self.effective_rate, 4)
            )
        } else {
            String::new()
        };
        let phases = self.phase_table();
        let assumptions: String = self.assumptions.iter().map(|sentence| format!("- {sentence}\n")).collect();
        format!(
            "# Privacy statement\n\n\
             Training is ({epsilon}, {delta})-differentially private under the `{relation}` relation.\n\n\
             ## What the adversary sees\n\n\
             {released} of all {steps} steps, hence every checkpoint and everything computed from them; the plan \
             itself, the model's code, and all {units} but the one in question. Not the random numbers.\n\n\
             ## What is protected\n\n\
             The guarantee is about {protects}. For any two data sets that differ in this alone, any event has a \
             probability under one of at most e^{epsilon} times that under the other, plus {delta}.\n\n\
             ## The numbers\n\n\
             {bracket}\n\n\
             | quantity | value |\n|---|---|\n\
             | epsilon, at most | {epsilon} |\n\
             | delta | {delta} |\n\
             | {units} | {records} |\n\
             | expected batch | {batch} |\n\
             | sampling | {sampling} |\n\
             | sample rate | {rate} |\n\
             {inclusion}\
             {allocation}\
             {submodels}\
             | steps | {steps} |\n\
             | noise multiplier (standard deviation in clip norms) | {sigma} |\n\
             {correlated}\
             {clip}\
             | sensitivity (in clip norms) | {sensitivity} |\n\
             | accountant | {accountant} |\n\n\
             {phases}\
             ## What is assumed\n\n\
             {assumptions}\n\
             ## Why it holds\n\n\
             By {theorem}.\n\n\
             Plan: `{hash}` (SHA-256)\n",
            bracket = self.bracket_sentence(),
            correlated = self
                .correlated_noise
                .as_ref()
                .map_or_else(String::new, |noise| format!("| bands of the noise | {} |\n", noise.words())),
            clip = self.clip_rows(),
            released = match (&self.correlated_noise, self.adaptive_clip) {
                (Some(_), _) => "Every noisy sum of gradients of successive steps",
                (None, None) => "Every noisy gradient",
                (None, Some(_)) =>
                    "Every noisy gradient and every noisy count of gradients within the clip norm",
            },
            delta = number::exact(self.delta),
            relation = self.relation,
            steps = self.steps,
            protects = self.protects,
            records = self.records,
            units = self.units(),
            batch = self.batch,
            sampling = self.sampling.name(),
            rate = number::up(self.sample_rate, 4),
            sigma = self.noise_multiplier,
            sensitivity = number::brief(self.sensitivity),
            accountant = self.accountant.name(),
            theorem = self.theorem,
            hash = self.plan_hash,
        )
    }
}
