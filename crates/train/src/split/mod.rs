//! How a run's model is split, so that each record updates a part of it that is drawn in secret.

mod blocks;
mod parts;
mod units;

pub(crate) use blocks::BlockSplit;
use parts::PartBounds;
use units::UnitSplit;

use dapple_engine::Clipping;
use dapple_graph::{DropoutUnits, Graph, Halves};
use dapple_plan::{GradientBound, TrainingPlan};

use crate::error::TrainError;

/// The split of a model, for views of any size.
#[derive(Debug, Clone)]
pub(crate) enum TrainedSplit {
    /// Blocks are dealt out to submodels, of which a record draws one.
    Blocks(BlockSplit),
    /// Dropout at one half makes two submodels of every mask and its complement, and a record draws a mask.
    Units(UnitSplit),
}

impl TrainedSplit {
    /// The split of a plan; `None` if every record updates the whole model.
    pub(crate) fn of(training: &TrainingPlan) -> Option<Self> {
        match training.is_split_by_dropout() {
            true => Some(Self::Units(UnitSplit { model: training.model.name.clone() })),
            false => BlockSplit::of(training).map(Self::Blocks),
        }
    }

    /// All submodels of a graph, which records share; none if dropout makes them.
    ///
    /// # Errors
    /// Blocks that the model does not have, that cannot be left out, or that are too few.
    pub(crate) fn submodels(&self, graph: &Graph) -> Result<Vec<Graph>, TrainError> {
        match self {
            Self::Blocks(split) => split.submodels(graph),
            Self::Units(_) => Ok(Vec::new()),
        }
    }

    /// The units of a graph for which each record draws a mask; `None` if dropout splits nothing.
    pub(crate) fn units(&self, graph: &Graph) -> Option<DropoutUnits> {
        match self {
            Self::Blocks(_) => None,
            Self::Units(_) => Some(graph.dropout_units()),
        }
    }

    /// The halves of a graph whose second one can be split as the graph is; `None` if there are none.
    pub(crate) fn halves(&self, graph: &Graph) -> Option<Halves> {
        match self {
            // What follows a trunk is no sequence of blocks.
            Self::Blocks(_) => None,
            Self::Units(_) => graph.halves(),
        }
    }

    /// The submodels that answer together, if they do.
    pub(crate) fn ensemble(&self) -> Option<&BlockSplit> {
        match self {
            Self::Blocks(split) => Some(split).filter(|split| split.is_ensemble()),
            Self::Units(_) => None,
        }
    }

    /// How the parts of the gradients of a run's graphs are clipped; `None` if they are not bounded by parts.
    ///
    /// # Guarantee
    /// Whatever a record draws, its gradient in the split part lies within that part's bound, in what it drew alone, and the rest lies within
    /// the bound of the rest.
    ///
    /// # Errors
    /// A model that cannot be split so; a part that is trained but has no bound, or that has a bound and is not trained.
    pub(crate) fn clipping(
        &self,
        graphs: &[Graph],
        bound: GradientBound,
    ) -> Result<Option<Clipping>, TrainError> {
        let bounds = match bound {
            GradientBound::Parts { split, rest } => Some(PartBounds { split, rest }),
            _ => None,
        };
        match self {
            Self::Blocks(split) => bounds.map(|bounds| split.clipping(&graphs[0], bounds)).transpose(),
            Self::Units(split) => split.clipping(graphs, bounds),
        }
    }
}
