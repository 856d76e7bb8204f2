//! A certificate for a terminal.

use std::fmt::Write;

use super::{Certificate, Phase};
use crate::{Relation, number};

impl Certificate {
    /// The certificate in a few lines of plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![
            ("epsilon", format!("<= {}{}", number::up(self.epsilon.upper, 4), self.bracket_words())),
            ("delta", number::exact(self.delta)),
            ("protects", self.protects.clone()),
            ("relation", format!("{} (sensitivity {})", self.relation, self.sensitivity)),
            (
                "sampling",
                format!("{}, {} of {} {} a step", self.sampling, self.batch, self.records, self.units()),
            ),
        ];
        lines.extend(self.rates());
        lines.push(("steps", self.steps.to_string()));
        lines.push(("noise multiplier", self.noise_multiplier.to_string()));
        for (index, phase) in self.phases.iter().enumerate() {
            let name = if index == 0 { "phases" } else { "" };
            lines.push((name, self.phase_words(phase)));
        }
        lines.push(("accountant", self.accountant.to_owned()));
        lines.push(("plan hash", self.plan_hash.clone()));
        let mut text = String::new();
        for (name, value) in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<16}  {value}");
        }
        text
    }

    /// The rates, rounded up: a smaller one would be a stronger claim.
    fn rates(&self) -> Vec<(&'static str, String)> {
        let mut rates = vec![("sample rate", number::up(self.sample_rate, 4))];
        if self.relation == "patch" {
            rates.push(("inclusion", number::up(self.inclusion_probability, 4)));
            rates.push(("effective rate", number::up(self.effective_rate, 4)));
        }
        rates
    }

    fn phase_words(&self, phase: &Phase) -> String {
        let inclusion = if self.relation == Relation::Patch.name() {
            format!(", inclusion {}", number::up(phase.inclusion_probability, 4))
        } else {
            String::new()
        };
        format!(
            "{} steps of {} {}, noise multiplier {}{inclusion}",
            phase.steps,
            phase.batch,
            self.units(),
            phase.noise_multiplier
        )
    }

    /// What is drawn.
    pub(super) fn units(&self) -> &'static str {
        if self.relation == Relation::User.name() { "users" } else { "records" }
    }

    pub(super) fn bracket_words(&self) -> String {
        match self.epsilon.lower {
            Some(lower) => format!(
                "  (certified bracket {} to {})",
                number::down(lower, 4),
                number::up(self.epsilon.upper, 4)
            ),
            None => "  (an upper bound; this accountant gives no lower one)".to_owned(),
        }
    }
}
