//! A model before its shapes are known.

use std::path::Path;

use dapple_geometry::TokenGrid;
use dapple_graph::zoo::LibraryNames;
use dapple_graph::{Graph, GraphError, Loss, Parameter, weights};
use dapple_plan::{ModelPlan, TrainedPart, WeightSource};

use super::architecture::{ModelTokens, architecture, first_names, token_grid};
use super::trained::tuned;
use crate::description::ModelDescription;
use crate::error::TrainError;

/// The most parameters of a model: eight gigabytes of them.
const MAX_PARAMETERS: usize = 1 << 31;

/// A model of which everything is known except the size of its views and the number of its classes.
#[derive(Debug, Clone)]
pub(crate) struct Blueprint {
    plan: ModelPlan,
    /// Whose names the parameters follow; none where the model has the same everywhere.
    names: Option<LibraryNames>,
}

impl Blueprint {
    /// The model of a plan whose paths begin in a folder. A model that several libraries offer has the names of its weights file, of which
    /// the head is read.
    ///
    /// # Errors
    /// A weights file that cannot be read.
    pub(crate) fn read(plan: &ModelPlan, base: &Path) -> Result<Self, TrainError> {
        let unread = Self::unread(plan);
        let (Some(first), WeightSource::File(path)) = (unread.names, &plan.first_weights) else {
            return Ok(unread);
        };
        let path = base.join(path);
        let shapes = weights::shapes(&path).map_err(|error| match error {
            GraphError::Format(problem) => GraphError::Format(format!("{}: {problem}", path.display())),
            other => other,
        })?;
        let tensors = shapes.iter().map(|(name, shape)| (name.as_str(), &shape[..]));
        // A file of another model is refused by the names that do not fit.
        Ok(Self { names: Some(LibraryNames::of(tensors).unwrap_or(first)), ..unread })
    }

    /// The model of a plan with timm's names, without reading any file.
    pub(crate) fn unread(plan: &ModelPlan) -> Self {
        Self { plan: plan.clone(), names: first_names(&plan.name) }
    }

    /// The model of a run's plan with the names that the run's description tells, so that no weights file is needed.
    pub(crate) fn described(plan: &ModelPlan, description: &ModelDescription) -> Result<Self, TrainError> {
        if let Some(LibraryNames::OpenClip { projection }) = description.names
            && !(1..=LibraryNames::MAX_PROJECTION).contains(&projection)
        {
            return Err(TrainError::setting(
                "model.json",
                format!("no model projects to {projection} features"),
                "restore the file, or remove it: resuming the run writes it anew",
            ));
        }
        let unread = Self::unread(plan);
        Ok(Self { names: unread.names.map(|first| description.names.unwrap_or(first)), ..unread })
    }

    /// Whose names the parameters follow; none where the model has the same everywhere.
    pub(crate) fn names(&self) -> Option<LibraryNames> {
        self.names
    }

    /// Which part trains, in words; `None` if everything does.
    pub(crate) fn trained(&self) -> Option<String> {
        (self.plan.trained != TrainedPart::All).then(|| self.plan.trained.to_string())
    }

    /// The same model without adapters, which is the one that is released and that other programs know.
    pub(crate) fn plain(&self) -> Self {
        let plan = ModelPlan { trained: TrainedPart::All, ..self.plan.clone() };
        Self { plan, ..*self }
    }

    /// The model for views of this shape.
    ///
    /// # Errors
    /// A name, a part to train or a shape that no model has.
    pub(crate) fn build(
        &self,
        shape: &[usize],
        classes: usize,
        label_smoothing: f64,
    ) -> Result<Graph, TrainError> {
        self.build_on(ModelTokens::All, shape, classes, label_smoothing)
    }

    /// The windows through which the model reads tokens, if it can be given a subset of them.
    pub(crate) fn token_grid(&self) -> Option<TokenGrid> {
        token_grid(&self.plan.name)
    }

    /// The same model, with the same parameters, on all places of an image or on some of them.
    ///
    /// # Errors
    /// As [`Blueprint::build`], and a model that is not told apart so.
    pub(crate) fn build_on(
        &self,
        tokens: ModelTokens,
        shape: &[usize],
        classes: usize,
        label_smoothing: f64,
    ) -> Result<Graph, TrainError> {
        let mut graph = architecture(&self.plan, self.names, shape, classes, tokens)?;
        if tokens == ModelTokens::Pooled {
            graph = graph.over_cells().map_err(|_| {
                let problem = format!("{} takes no mean over its features at last", self.plan.name);
                TrainError::setting("masked.pass", problem, "give \"blank\", or \"tokens\" for a transformer")
            })?;
        }
        if let Some(rate) = self.plan.head_dropout {
            graph = graph.with_head_dropout(rate as f32).map_err(|error| {
                TrainError::setting("model.head_dropout", error.to_string(), "leave it out")
            })?;
        }
        if label_smoothing != 0.0 {
            graph = graph.with_loss(Loss::CrossEntropy { label_smoothing: label_smoothing as f32 })?;
        }
        let graph = tuned(graph, &self.plan.trained)?;
        let parameters: usize = graph.parameters().iter().map(Parameter::len).sum();
        if parameters > MAX_PARAMETERS {
            return Err(TrainError::setting(
                "model.name",
                format!("{parameters} parameters, more than {MAX_PARAMETERS}"),
                "choose smaller crops, fewer classes or another model",
            ));
        }
        if graph.trainable_len() == 0 {
            return Err(TrainError::setting("model.trainable", "nothing trains", "name at least one layer"));
        }
        Ok(graph)
    }
}
