//! What is trained.

use crate::error::PlanError;
use crate::number;
use crate::spec::{ModelSpec, NormSpec, PoolingSpec, keys};

use super::TrainedPart;

/// A model before its shapes are known.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelPlan {
    /// Its name in the zoo.
    pub name: String,
    /// What stands in place of batch norm; `None` if the plan leaves it to the model.
    pub norm: Option<NormSpec>,
    /// Pixels between neighbouring positions of a backbone's last features; `None` if the plan leaves it to the model.
    pub output_stride: Option<u32>,
    /// What a transformer's classifier reads; `None` if the plan leaves it to the model.
    pub pooling: Option<PoolingSpec>,
    /// The rate of dropout in front of the last layer; `None` if the plan leaves it to the model.
    pub head_dropout: Option<f64>,
    /// Where the first weights come from.
    pub first_weights: WeightSource,
    /// Seed of the first weights that no file gives.
    pub seed: u64,
    /// What trains.
    pub trained: TrainedPart,
}

/// Where the first weights come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WeightSource {
    /// Only the seed.
    Seed,
    /// A file of the whole model, except for a head of other classes.
    File(String),
    /// A file of a classifier, which gives the backbone.
    Backbone(String),
}

impl ModelPlan {
    /// Fills in what is not given.
    ///
    /// # Errors
    /// No name, a rate of dropout that is none, two files for the first weights, two statements about what trains, or adapters that make no
    /// sense.
    pub fn check(spec: &ModelSpec) -> Result<Self, PlanError> {
        let name = spec.name.clone().ok_or_else(|| {
            PlanError::invalid("model.name", "it is missing", format!("models are {}", Self::names()))
        })?;
        if let Some(rate) = spec.head_dropout.filter(|rate| !(0.0..1.0).contains(rate)) {
            return Err(PlanError::invalid(
                "model.head_dropout",
                format!("{} is no rate in [0, 1)", number::exact(rate)),
                "give the share of values that is dropped, e.g. 0.5, or leave it out",
            ));
        }
        let first_weights = match (&spec.weights, &spec.backbone_weights) {
            (None, None) => WeightSource::Seed,
            (Some(path), None) => WeightSource::File(path.clone()),
            (None, Some(path)) => WeightSource::Backbone(path.clone()),
            (Some(_), Some(_)) => {
                return Err(PlanError::invalid(
                    "model.backbone_weights",
                    "the whole model has a file already",
                    "give either model.weights or model.backbone_weights",
                ));
            }
        };
        Ok(Self {
            name,
            norm: spec.norm,
            output_stride: spec.output_stride,
            pooling: spec.pooling,
            head_dropout: spec.head_dropout,
            first_weights,
            seed: spec.seed.unwrap_or(0),
            trained: TrainedPart::check(spec)?,
        })
    }

    /// The names of all models, for messages.
    #[must_use]
    pub fn names() -> String {
        keys::find("model.name").map_or(&[][..], |key| key.choices).join(", ")
    }

    /// What to do about a name that no model has.
    #[must_use]
    pub fn hint_for(name: &str) -> String {
        let choices = keys::find("model.name").map_or(&[][..], |key| key.choices);
        match keys::meant(&keys::near_words(choices.iter().copied(), name)) {
            Some(meant) => format!("{meant} `dapple models` lists them all"),
            None => format!("models are {}", Self::names()),
        }
    }
}
