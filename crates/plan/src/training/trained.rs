//! Which part of a model trains.

use std::fmt;

use crate::error::PlanError;
use crate::spec::{ModelSpec, TuneSpec};

/// Rank of an adapter if the plan does not say.
const RANK: u32 = 8;
/// What the product of an adapter is multiplied by, times its rank, if the plan does not say.
const ALPHA: f64 = 16.0;

/// Which part of a model trains. Every choice but the named parameters includes the last layers, which a fine-tuned model gets anew.
#[derive(Debug, Clone, PartialEq)]
pub enum TrainedPart {
    /// Everything that the architecture does not freeze.
    All,
    /// Only the last layers.
    Head,
    /// Scales and shifts of norms.
    Norms,
    /// Every bias.
    Bias,
    /// This many blocks at the end, and what follows them.
    Last(u32),
    /// Adapters of low rank.
    Adapters(AdapterPlan),
    /// Parameters whose names have one of these prefixes.
    Named(Vec<String>),
}

/// Adapters of low rank (LoRA).
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterPlan {
    /// Rank of the product of an adapter's two matrices.
    pub rank: u32,
    /// The product is multiplied by this over the rank.
    pub alpha: f64,
    /// Names, or parts of names, of the layers that get an adapter; empty for all linear layers but the last, or all convolutions where there are none.
    pub targets: Vec<String>,
}

impl TrainedPart {
    /// The part that the `[model]` section names.
    ///
    /// # Errors
    /// Two statements about what trains, settings of adapters without adapters, or a rank or factor that leaves nothing of them.
    pub(super) fn check(spec: &ModelSpec) -> Result<Self, PlanError> {
        let either = |key, other: &str| {
            let hint = "give one of model.trainable, model.tune and model.last";
            Err(PlanError::invalid(key, format!("{other} says what trains already"), hint))
        };
        let adapters = spec.tune == Some(TuneSpec::Lora);
        let own = [
            ("model.lora_rank", spec.lora_rank.is_some()),
            ("model.lora_alpha", spec.lora_alpha.is_some()),
            ("model.lora_targets", spec.lora_targets.is_some()),
        ];
        match (&spec.trainable, spec.tune, spec.last) {
            (Some(_), Some(_), _) => return either("model.tune", "model.trainable"),
            (Some(_), _, Some(_)) => return either("model.last", "model.trainable"),
            (_, Some(_), Some(_)) => return either("model.last", "model.tune"),
            _ => {}
        }
        if let Some((key, _)) = own.into_iter().find(|(_, given)| *given && !adapters) {
            return Err(PlanError::invalid(
                key,
                "there are no adapters",
                "set model.tune = \"lora\", or leave it out",
            ));
        }
        Ok(match (&spec.trainable, spec.tune, spec.last) {
            (Some(prefixes), ..) => Self::Named(prefixes.clone()),
            (.., Some(0)) => {
                return Err(PlanError::invalid(
                    "model.last",
                    "no block is none to train",
                    "give 1 or more, or model.tune = \"head\"",
                ));
            }
            (.., Some(blocks)) => Self::Last(blocks),
            (_, Some(TuneSpec::Lora), _) => Self::Adapters(AdapterPlan::check(spec)?),
            (_, Some(TuneSpec::Head), _) => Self::Head,
            (_, Some(TuneSpec::Norms), _) => Self::Norms,
            (_, Some(TuneSpec::Bias), _) => Self::Bias,
            (_, Some(TuneSpec::All) | None, _) => Self::All,
        })
    }
}

impl AdapterPlan {
    fn check(spec: &ModelSpec) -> Result<Self, PlanError> {
        let rank = spec.lora_rank.unwrap_or(RANK);
        if rank == 0 {
            return Err(PlanError::invalid(
                "model.lora_rank",
                "adapters of rank 0 hold nothing",
                "give 1 or more",
            ));
        }
        let alpha = spec.lora_alpha.unwrap_or(ALPHA);
        // Models compute in single precision, in which a factor may vanish that does not vanish here.
        if !(alpha as f32 / rank as f32).is_normal() || alpha < 0.0 {
            return Err(PlanError::invalid(
                "model.lora_alpha",
                format!("adapters cannot be multiplied by {alpha} / {rank}"),
                "give a positive number; twice the rank is usual",
            ));
        }
        Ok(Self { rank, alpha, targets: spec.lora_targets.clone().unwrap_or_default() })
    }
}

impl fmt::Display for TrainedPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("all parameters"),
            Self::Head => formatter.write_str("the last layers"),
            Self::Norms => formatter.write_str("norms and the last layers"),
            Self::Bias => formatter.write_str("biases and the last layers"),
            Self::Last(1) => formatter.write_str("the last block and what follows it"),
            Self::Last(blocks) => write!(formatter, "the last {blocks} blocks and what follows them"),
            Self::Named(prefixes) => formatter.write_str(&prefixes.join(", ")),
            Self::Adapters(AdapterPlan { rank, alpha, targets }) => {
                write!(formatter, "adapters of rank {rank} and alpha {alpha}")?;
                if !targets.is_empty() {
                    write!(formatter, " beside {}", targets.join(", "))?;
                }
                formatter.write_str(", and the last layers")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(section: &str) -> Result<TrainedPart, PlanError> {
        let spec = crate::PlanSpec::from_toml(&format!("[model]\n{section}\n")).unwrap();
        TrainedPart::check(&spec.model)
    }

    #[test]
    fn every_way_to_say_what_trains_is_one_part() {
        let adapters = |rank, alpha, targets: &[&str]| {
            let targets = targets.iter().map(|&target| target.to_owned()).collect();
            TrainedPart::Adapters(AdapterPlan { rank, alpha, targets })
        };
        for (section, part) in [
            ("", TrainedPart::All),
            ("tune = 'all'", TrainedPart::All),
            ("tune = 'head'", TrainedPart::Head),
            ("tune = 'norms'", TrainedPart::Norms),
            ("tune = 'bias'", TrainedPart::Bias),
            ("last = 3", TrainedPart::Last(3)),
            ("trainable = ['fc']", TrainedPart::Named(vec!["fc".to_owned()])),
            ("tune = 'lora'", adapters(8, 16.0, &[])),
            (
                "tune = 'lora'\nlora_rank = 4\nlora_alpha = 4.5\nlora_targets = ['qkv']",
                adapters(4, 4.5, &["qkv"]),
            ),
        ] {
            assert_eq!(checked(section).unwrap(), part, "{section}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        for (section, key) in [
            ("trainable = ['fc']\ntune = 'head'", "model.tune"),
            ("trainable = ['fc']\nlast = 1", "model.last"),
            ("tune = 'head'\nlast = 1", "model.last"),
            ("last = 0", "model.last"),
            ("tune = 'bias'\nlora_rank = 4", "model.lora_rank"),
            ("lora_alpha = 4.0", "model.lora_alpha"),
            ("last = 1\nlora_targets = ['qkv']", "model.lora_targets"),
            ("tune = 'lora'\nlora_rank = 0", "model.lora_rank"),
            ("tune = 'lora'\nlora_alpha = 0.0", "model.lora_alpha"),
            ("tune = 'lora'\nlora_alpha = -1.0", "model.lora_alpha"),
            ("tune = 'lora'\nlora_alpha = inf", "model.lora_alpha"),
            ("tune = 'lora'\nlora_alpha = nan", "model.lora_alpha"),
            ("tune = 'lora'\nlora_alpha = 1e-300", "model.lora_alpha"),
        ] {
            let error = checked(section).unwrap_err();
            assert!(error.to_string().starts_with(key) && error.hint().is_some(), "{section}: {error}");
        }
    }
}
