//! How a model is split into submodels, and what answers in the end.

use crate::Plan;
use crate::error::PlanError;
use crate::spec::{PartitionSpec, PredictionModel};
use crate::training::TargetKind;

/// The submodels of a run: which blocks are dealt out to them, and what predicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmodelPlan {
    /// Names of blocks, or ranges of them, in the order in which they are dealt out.
    pub blocks: Vec<String>,
    /// What answers after training.
    pub predict: PredictionModel,
}

impl SubmodelPlan {
    /// The submodels of a checked plan, for records with these targets; `None` if it splits nothing, or by dropout.
    ///
    /// # Errors
    /// Blocks of a model that is not split, or by dropout; a split model without the names of its blocks; an ensemble that is to answer with
    /// label maps, or without blocks.
    pub fn check(plan: &Plan, spec: &PartitionSpec, targets: TargetKind) -> Result<Option<Self>, PlanError> {
        let Some(split) = plan.parts()[0].split() else { return unsplit(spec) };
        if split.by_dropout() {
            return by_dropout(spec);
        }
        let blocks = spec.blocks.clone().unwrap_or_default();
        if blocks.is_empty() {
            return Err(PlanError::Missing {
                key: "partition.blocks",
                why: "training must know which blocks of the model are dealt out to the submodels",
            });
        }
        let predict = spec.predict.unwrap_or_default();
        if predict == PredictionModel::Ensemble && targets == TargetKind::LabelMap {
            return Err(PlanError::invalid(
                "partition.predict",
                "an ensemble answers with one class an image",
                "leave it out: the model with all its blocks answers with label maps",
            ));
        }
        Ok(Some(Self { blocks, predict }))
    }
}

/// Refuses names of blocks that nothing splits. One submodel splits nothing either, but says so.
fn unsplit(spec: &PartitionSpec) -> Result<Option<SubmodelPlan>, PlanError> {
    let said = spec.submodels.is_some() || spec.mixture.is_some();
    match spec.blocks.is_some() || spec.predict.is_some() {
        true if !said => Err(PlanError::invalid(
            if spec.blocks.is_some() { "partition.blocks" } else { "partition.predict" },
            "has no meaning for a model that is not split",
            "give partition.submodels as well, or leave it out",
        )),
        _ => Ok(None),
    }
}

/// Refuses what only submodels of blocks have, where dropout makes the submodels.
fn by_dropout(spec: &PartitionSpec) -> Result<Option<SubmodelPlan>, PlanError> {
    let ensemble = spec.predict == Some(PredictionModel::Ensemble);
    let (key, problem) = match (&spec.blocks, ensemble) {
        (None, false) => return Ok(None),
        (Some(_), _) => ("partition.blocks", "dropout splits the model, and deals out no blocks"),
        (None, true) => ("partition.predict", "dropout makes more submodels than could answer together"),
    };
    let hint = "leave it out, or give partition.submodels in the place of partition.dropout";
    Err(PlanError::invalid(key, problem, hint))
}
