//! Submodels that dropout at one half makes.

use std::collections::BTreeSet;

use dapple_engine::Clipping;
use dapple_graph::{Graph, ParameterId};

use super::parts::{PartBounds, PartWords, clip_parts};
use crate::error::TrainError;
use crate::model::EVEN_DROPOUT_MODELS;

const WORDS: PartWords = PartWords {
    key: "partition.dropout",
    none: "no trained parameter is a weight that touches a node which dropout may drop",
    train: "train the layers around a dropout layer, or set model.head_dropout = 0.5",
    some: "are weights that touch a node which dropout may drop",
    every: "is a weight that touches a node which dropout may drop",
};

/// The split of a model by its dropout layers, for views of any size.
#[derive(Debug, Clone)]
pub(crate) struct UnitSplit {
    /// The model's name, for messages.
    pub(super) model: String,
}

impl UnitSplit {
    /// How the parts of the gradients are clipped: the weights that touch a droppable node, and the rest. The graphs are those of a run's
    /// phases, whose views may differ in size.
    ///
    /// # Guarantee
    /// That of [`Graph::dropout_split`] for the split part of every graph: under a mask and its complement, which are equally likely, the
    /// gradient moves disjoint sets of its values, each within the bound of the split part. A parameter of which only some values are split
    /// belongs to the rest.
    ///
    /// # Errors
    /// A model without dropout layers; phases that split other parameters; a part that is trained but has no bound, or that has a bound and
    /// is not trained.
    pub(super) fn clipping(
        &self,
        graphs: &[Graph],
        bounds: Option<PartBounds>,
    ) -> Result<Option<Clipping>, TrainError> {
        if graphs[0].dropout_units().is_empty() {
            return Err(TrainError::setting(
                "partition.dropout",
                format!("{} has no dropout layer", self.model),
                format!(
                    "set model.head_dropout = 0.5, which every classifier that ends in a linear layer can have, or choose a model that has one: {EVEN_DROPOUT_MODELS}"
                ),
            ));
        }
        let whole = |graph: &Graph| graph.dropout_split().whole().collect::<BTreeSet<ParameterId>>();
        let own = whole(&graphs[0]);
        if let Some(phase) = graphs.iter().position(|graph| whole(graph) != own) {
            return Err(TrainError::setting(
                "pipeline.crop",
                format!("phase {}: dropout splits other parameters than in the first phase", phase + 1),
                "choose crops of one size, or leave partition.dropout out",
            ));
        }
        bounds.map(|bounds| clip_parts(&graphs[0], &own, bounds, &WORDS)).transpose()
    }
}
