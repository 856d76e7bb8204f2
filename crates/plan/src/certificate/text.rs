//! Certificates as text for a terminal.

use super::{AdaptiveClipFacts, AllocationFacts, Certificate, CertificatePhase, PartitionFacts};
use crate::spec::Accountant;
use crate::{Relation, number};

/// The width of lines that are wrapped.
const WIDTH: usize = 110;
/// The width of the names in front of values.
const NAME: usize = 16;

/// A line `name  value`, wrapped between words. Further lines begin below the value. Where several spaces stand together, they stay.
#[must_use]
pub fn wrapped(name: &str, value: &str) -> String {
    let mut text = String::new();
    let mut line = format!("{name:<NAME$} ");
    let begins = line.chars().count();
    for word in value.split(' ') {
        let (used, more) = (line.chars().count(), word.chars().count());
        if used > begins && used + 1 + more > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(NAME + 1);
        }
        line.push(' ');
        line.push_str(word);
    }
    text + line.trim_end() + "\n"
}

/// A noise multiplier in full where that is short, and otherwise rounded up to five digits, as a calibration tells it.
fn noise_words(noise: f64) -> String {
    let full = number::exact(noise);
    if full.len() <= 6 { full } else { number::up(noise, 5) }
}

impl Certificate {
    /// The certificate in a few lines of plain text. Numbers are rounded up, which claims less: more delta, and more noise for the same
    /// epsilon. In full they are in the document.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![
            ("epsilon", format!("<= {}{}", number::up(self.epsilon.upper, 4), self.bracket_words())),
            ("delta", number::brief(self.delta)),
            ("protects", self.protects.clone()),
            ("relation", format!("{} (sensitivity {})", self.relation, number::brief(self.sensitivity))),
            ("sampling", self.sampling_words()),
        ];
        if let Some(partition) = self.partition {
            lines.push(("submodels", partition.words()));
        }
        lines.extend(self.rates());
        lines.push(("steps", self.steps.to_string()));
        lines.push(("noise multiplier", noise_words(self.noise_multiplier)));
        lines.extend(self.correlated_noise.as_ref().map(|noise| ("bands", noise.words())));
        lines.extend(self.adaptive_clip.map(|clip| ("clip norm", clip.words())));
        for (index, phase) in self.phases.iter().enumerate() {
            let name = if index == 0 { "phases" } else { "" };
            lines.push((name, self.phase_words(phase)));
        }
        lines.push(("accountant", self.accountant.name().to_owned()));
        if let Some(allocation) = &self.allocation {
            lines.push(("bound", allocation.bound.clone()));
        }
        lines.push(("plan hash", self.plan_hash.clone()));
        lines.iter().map(|(name, value)| wrapped(name, value)).collect()
    }

    pub(super) fn sampling_words(&self) -> String {
        let (scheme, records, units) = (self.sampling.name(), self.records, self.units());
        match &self.allocation {
            Some(allocation) if self.phases.is_empty() => {
                let AllocationFacts { per_record, epoch_steps, .. } = allocation;
                let epochs = match self.steps / epoch_steps {
                    1 => String::new(),
                    epochs => format!(" of each of {epochs} epochs"),
                };
                format!("{scheme}, each of {records} {units} in {per_record} of {epoch_steps} steps{epochs}")
            }
            _ => format!("{scheme}, {} of {records} {units} a step", self.batch),
        }
    }

    /// The rates, rounded up, because a smaller rate would be a stronger claim.
    fn rates(&self) -> Vec<(&'static str, String)> {
        let mut rates = vec![("sample rate", number::up(self.sample_rate, 4))];
        if self.relation == Relation::Patch {
            rates.push(("inclusion", number::up(self.inclusion_probability, 4)));
            rates.push(("effective rate", number::up(self.effective_rate, 4)));
        }
        rates
    }

    fn phase_words(&self, phase: &CertificatePhase) -> String {
        let inclusion = if self.relation == Relation::Patch {
            format!(", inclusion {}", number::up(phase.inclusion_probability, 4))
        } else {
            String::new()
        };
        format!(
            "{} steps of {} {}, noise multiplier {}{inclusion}",
            phase.steps,
            phase.batch,
            self.units(),
            noise_words(phase.noise_multiplier)
        )
    }

    /// What is drawn, in the plural.
    pub(super) fn units(&self) -> &'static str {
        if self.relation == Relation::User { "users" } else { "records" }
    }

    /// Whether epsilon is that of the theorem's own pair, rather than of a bound on it.
    pub(super) fn is_tight(&self) -> bool {
        self.allocation.as_ref().is_none_or(|allocation| allocation.tight)
    }

    pub(super) fn bracket_words(&self) -> String {
        match self.epsilon.lower {
            Some(lower) => format!(
                "  (certified bracket{} {} to {})",
                if self.is_tight() { "" } else { " of the bound" },
                number::down(lower, 4),
                number::up(self.epsilon.upper, 4)
            ),
            None if self.accountant == Accountant::Pld => {
                "  (an upper bound; the best one known here has no lower end)".to_owned()
            }
            None => "  (an upper bound; this accountant gives no lower one)".to_owned(),
        }
    }
}

impl AdaptiveClipFacts {
    /// What is adapted, and that it is counted.
    #[must_use]
    pub fn words(self) -> String {
        let (quantile, noise) = (number::exact(self.quantile), number::brief(self.count_noise));
        format!("adapted (quantile {quantile}, count noise {noise}), counted")
    }
}

impl PartitionFacts {
    /// The parts and their norms.
    pub(super) fn words(self) -> String {
        let by = if self.dropout { " by dropout" } else { "" };
        let counted = if self.counted { "" } else { "; not counted under this relation" };
        let norms = if self.nonsplit_norm == 0.0 && self.split_norm == 1.0 {
            String::new()
        } else {
            let (split, rest) = (number::brief(self.split_norm), number::brief(self.nonsplit_norm));
            format!(", clipped to {split}, the rest to {rest}")
        };
        let least = match self.partitions {
            1 => String::new(),
            count => format!(" at least, in {count} partitions"),
        };
        format!("{}{least}{by}{norms}{counted}", self.submodels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("delta", "1e-5"), "delta             1e-5\n");
        let long = wrapped("protects", &"seven77 ".repeat(20));
        assert!(long.lines().count() == 2 && long.lines().all(|line| line.len() <= WIDTH), "{long}");
        assert!(long.lines().nth(1).is_some_and(|line| line.starts_with("                  seven77")));
        let word = "x".repeat(200);
        assert_eq!(wrapped("", &word).trim(), word);
    }

    #[test]
    fn noise_is_rounded_up_where_it_is_long() {
        assert_eq!(
            ["1", "2.5", "0.8356"].map(|text| noise_words(text.parse().unwrap())),
            ["1", "2.5", "0.8356"]
        );
        assert_eq!(noise_words(2.548_223_980_389_412), "2.5483");
    }
}
