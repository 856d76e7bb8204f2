//! A model before its shapes are known.

use std::path::Path;

use dapple_graph::zoo::{VisionTransformer, VitDialect};
use dapple_graph::{Graph, GraphError, Loss, Parameter, weights};
use dapple_plan::{ModelPlan, TrainedPart, WeightSource};

use super::architecture::architecture;
use super::trained::tuned;
use crate::description::{ModelDescription, ParameterNames};
use crate::error::TrainError;

/// The most parameters of a model: eight gigabytes of them.
const MAX_PARAMETERS: usize = 1 << 31;

/// A model of which everything is known except the size of its views and the number of its classes.
#[derive(Debug, Clone)]
pub(crate) struct Blueprint {
    plan: ModelPlan,
    /// The library whose names the parameters have, if several libraries have the model.
    dialect: VitDialect,
}

impl Blueprint {
    /// The model of a plan whose paths are relative to `base`. A transformer takes the parameter names of its weights file, of which the
    /// header is read.
    ///
    /// # Errors
    /// A weights file that cannot be read.
    pub(crate) fn read(plan: &ModelPlan, base: &Path) -> Result<Self, TrainError> {
        let unread = Self::unread(plan);
        let (Some(_), WeightSource::File(path)) = (VisionTransformer::named(&plan.name), &plan.first_weights)
        else {
            return Ok(unread);
        };
        let path = base.join(path);
        let shapes = weights::shapes(&path).map_err(|error| match error {
            GraphError::Format(problem) => GraphError::Format(format!("{}: {problem}", path.display())),
            other => other,
        })?;
        let tensors = shapes.iter().map(|(name, shape)| (name.as_str(), &shape[..]));
        // A file of another model is refused later, because its names do not fit.
        Ok(Self { dialect: VitDialect::of(tensors).unwrap_or(unread.dialect), ..unread })
    }

    /// The model of a plan with timm's names, without reading any file.
    pub(crate) fn unread(plan: &ModelPlan) -> Self {
        Self { plan: plan.clone(), dialect: VitDialect::Timm }
    }

    /// The model of a run's plan with the names that the run's description tells, so that no weights file is needed.
    pub(crate) fn described(plan: &ModelPlan, description: &ModelDescription) -> Result<Self, TrainError> {
        let dialect = match description.names {
            None | Some(ParameterNames::Timm) => VitDialect::Timm,
            Some(ParameterNames::Torchvision) => VitDialect::Torchvision,
            Some(ParameterNames::OpenClip { projection })
                if (1..=VitDialect::MAX_PROJECTION).contains(&projection) =>
            {
                VitDialect::OpenClip { projection }
            }
            Some(ParameterNames::OpenClip { projection }) => {
                return Err(TrainError::setting(
                    "model.json",
                    format!("no model projects to {projection} features"),
                    "restore the file, or remove it: resuming the run writes it anew",
                ));
            }
        };
        Ok(Self { plan: plan.clone(), dialect })
    }

    /// The library whose names the parameters have; `None` if the model has the same names everywhere.
    pub(crate) fn names(&self) -> Option<ParameterNames> {
        VisionTransformer::named(&self.plan.name).map(|_| match self.dialect {
            VitDialect::Timm => ParameterNames::Timm,
            VitDialect::Torchvision => ParameterNames::Torchvision,
            VitDialect::OpenClip { projection } => ParameterNames::OpenClip { projection },
        })
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
        let mut graph = architecture(&self.plan, self.dialect, shape, classes)?;
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
