//! How a run's model is split into submodels.

use dapple_data::SubmodelLaw;
use dapple_engine::Clipping;
use dapple_graph::{Graph, GraphError};
use dapple_plan::spec::PredictionModel;
use dapple_plan::{GradientBound, SubmodelPlan, TrainingPlan};

use crate::error::TrainError;

/// The split of a model, for views of any size.
#[derive(Debug, Clone)]
pub(crate) struct ModelSplit {
    plan: SubmodelPlan,
    /// The number of submodels of each way to split the model.
    counts: Vec<usize>,
}

impl ModelSplit {
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

    /// How the parts of a graph's gradient are clipped: what is split, and the rest.
    ///
    /// # Guarantee
    /// Whatever submodel a record updates, its gradient lies in that submodel's blocks, within the bound of the split part, and in parameters
    /// outside of all listed blocks, within the bound of the rest.
    ///
    /// # Errors
    /// A part that is trained but has no bound, or that has a bound and is not trained.
    pub(crate) fn clipping(
        &self,
        graph: &Graph,
        bound: GradientBound,
    ) -> Result<Option<Clipping>, TrainError> {
        let GradientBound::Parts { split, rest } = bound else { return Ok(None) };
        let own = graph.parameters_of_blocks(&self.blocks(graph)?);
        let trained = || graph.parameters().iter().enumerate().filter(|(_, parameter)| parameter.trainable);
        let is_split = |index: usize| own.iter().any(|id| id.index() == index);
        let groups: Vec<usize> = trained().map(|(index, _)| usize::from(!is_split(index))).collect();
        let len: usize = trained().filter(|(index, _)| is_split(*index)).map(|(_, own)| own.len()).sum();
        let share = len as f64 / graph.trainable_len() as f64;
        if len == 0 {
            return Err(TrainError::setting(
                "partition.blocks",
                "none of their parameters is trained",
                "name blocks that are trained, or train more by model.trainable",
            ));
        }
        match (groups.contains(&1), rest > 0.0) {
            (true, true) => Ok(Some(Clipping::PerGroup { groups, max_norms: vec![split, rest] })),
            (false, false) => Ok(Some(Clipping::Flat { max_norm: split })),
            (true, false) => Err(TrainError::setting(
                "partition.split_fraction",
                format!(
                    "only {share:.4} of the trained parameters lie in the blocks, and the rest has no clip norm"
                ),
                format!(
                    "set partition.split_fraction = {share:.4}, or partition.split_norm and partition.nonsplit_norm, or freeze the rest"
                ),
            )),
            (false, true) => Err(TrainError::setting(
                "partition.nonsplit_norm",
                "every trained parameter lies in the blocks, so that there is no other part",
                "leave it and partition.split_fraction out",
            )),
        }
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
