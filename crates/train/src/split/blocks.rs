//! Submodels that have some residual blocks of a model each.

use dapple_data::SubmodelLaw;
use dapple_engine::Clipping;
use dapple_graph::{Graph, GraphError};
use dapple_plan::spec::PredictionModel;
use dapple_plan::{SubmodelPlan, TrainingPlan};

use super::parts::{PartBounds, PartWords, clip_parts};
use crate::error::TrainError;

const WORDS: PartWords = PartWords {
    key: "partition.blocks",
    none: "none of their parameters is trained",
    train: "name blocks that are trained, or train more by model.trainable",
    some: "lie in the blocks",
    every: "lies in the blocks",
};

/// The split of a model by blocks, for views of any size.
#[derive(Debug, Clone)]
pub(crate) struct BlockSplit {
    plan: SubmodelPlan,
    /// The number of submodels of each way to split the model.
    counts: Vec<usize>,
}

impl BlockSplit {
    /// The split of a plan; `None` if every record updates the whole model.
    pub(crate) fn of(training: &TrainingPlan) -> Option<Self> {
        let law = SubmodelLaw::of(&training.privacy.parts()[0])?;
        let counts = law.counts().map(|count| usize::try_from(count).unwrap_or(usize::MAX)).collect();
        Some(Self { plan: training.submodels.clone()?, counts })
    }

    /// Whether the submodels answer together.
    pub(crate) fn is_ensemble(&self) -> bool {
        self.plan.predict == PredictionModel::Ensemble
    }

    /// How many submodels there are, those of all ways to split the model together.
    pub(crate) fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// All submodels of a graph, in the order in which [`SubmodelLaw`] numbers them.
    ///
    /// # Errors
    /// Blocks that the model does not have, that cannot be left out, or that are too few.
    pub(crate) fn submodels(&self, graph: &Graph) -> Result<Vec<Graph>, TrainError> {
        let blocks = self.blocks(graph)?;
        let of = |&count: &usize| graph.submodels(&blocks, count).map_err(refused);
        let ways = self.counts.iter().map(of).collect::<Result<Vec<_>, _>>()?;
        Ok(ways.into_iter().flatten().collect())
    }

    /// How the parts of a graph's gradient are clipped: the blocks that are dealt out, and the rest.
    ///
    /// # Guarantee
    /// Whatever submodel a record updates, its gradient lies in that submodel's blocks, within the bound of the split part, and in parameters
    /// outside of all listed blocks, within the bound of the rest.
    ///
    /// # Errors
    /// A part that is trained but has no bound, or that has a bound and is not trained.
    pub(super) fn clipping(&self, graph: &Graph, bounds: PartBounds) -> Result<Clipping, TrainError> {
        let own = graph.parameters_of_blocks(&self.blocks(graph)?);
        clip_parts(graph, &own, bounds, &WORDS)
    }

    fn blocks(&self, graph: &Graph) -> Result<Vec<usize>, TrainError> {
        graph.blocks_named(&self.plan.blocks).map_err(refused)
    }
}

fn refused(error: GraphError) -> TrainError {
    match error {
        GraphError::Block { .. } | GraphError::Tuning(_) => TrainError::setting(
            "partition.blocks",
            error.to_string(),
            "name residual blocks that keep the shape of their input, such as layer3.1..layer3.5, at least one for each submodel",
        ),
        other => other.into(),
    }
}
