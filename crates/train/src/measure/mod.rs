//! How far two folders of pictures lie apart, seen through the features of a model.
//!
//! Nothing here is private: the figures are computed from the pictures themselves, without noise.

mod frechet;
mod kernel;
mod spectrum;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use dapple_data::formats::ImageFolder;
use dapple_data::{DataLimits, Dataset, Views};
use dapple_graph::{Graph, GraphError, Parameters, weights};
use dapple_plan::spec::{ModelSpec, NormSpec, Pixels};
use dapple_plan::{ModelPlan, PlanSpec, Spatial, ViewPlan};

use crate::error::TrainError;
use crate::features::{FeatureMachine, outputs};
use crate::model::{Blueprint, FirstParameters, first_weights, usual};

pub use frechet::frechet_distance;
pub use kernel::{KernelDistance, kernel_distance};

/// Pictures are red, green and blue.
const CHANNELS: usize = 3;
/// The classes of the last layer, which is cut off.
const CLASSES: usize = 10;
/// The most features, because the distance of Fréchet takes a matrix of their square.
const MAX_FEATURES: usize = 8192;

/// Makes features of pictures: what a model's last layer reads.
#[derive(Debug)]
pub struct FeatureExtractor {
    trunk: Graph,
    parameters: Parameters,
    views: Views,
    threads: usize,
}

/// The features of some pictures, one row for each.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureSet {
    length: usize,
    // [pictures, length]
    values: Vec<f32>,
}

impl FeatureExtractor {
    /// The model of this name with the weights of a file. Pictures are brought to the size of `views`, or to the model's usual one. A
    /// model with batch norms normalises by the statistics of the file, if it has some. `threads` is 0 for one on each core.
    ///
    /// # Errors
    /// A model that does not exist or has no features before its last layer, a file that is none of its weights, a size that it does not
    /// take.
    pub fn open(name: &str, weights: &Path, views: &ViewPlan, threads: usize) -> Result<Self, TrainError> {
        let statistics = weights::shapes(weights)
            .map_err(|error| at(weights, error))?
            .keys()
            .any(|tensor| tensor.ends_with("running_mean"));
        let spec = ModelSpec {
            name: Some(name.to_owned()),
            norm: statistics.then_some(NormSpec::Frozen),
            weights: Some(weights.to_string_lossy().into_owned()),
            ..ModelSpec::default()
        };
        let plan = ModelPlan::check(&spec)?;
        let views = shown(name, views)?;
        let graph = Blueprint::read(&plan, Path::new(""))?.build(&views.shape(), CLASSES, 0.0)?;
        let FirstParameters { parameters, .. } = first_weights(&plan, &graph, Path::new(""))?;
        let trunk = graph.features().filter(|trunk| trunk.output_shape().len() == 1).ok_or_else(|| {
            let problem = format!("{name} has no features of a whole image before its last layer");
            TrainError::setting("model.name", problem, "choose a classifier such as resnet-18")
        })?;
        let length = trunk.node(trunk.output()).len();
        if length > MAX_FEATURES {
            let problem = format!("{name} has {length} features, more than {MAX_FEATURES}");
            return Err(TrainError::setting("model.name", problem, "choose another model"));
        }
        Ok(Self { trunk, parameters, views, threads })
    }

    /// The number of features of a picture.
    #[must_use]
    pub fn length(&self) -> usize {
        self.trunk.node(self.trunk.output()).len()
    }

    /// The features of all pictures below a folder, in the order of their names.
    ///
    /// # Errors
    /// A folder without pictures, a picture that cannot be read, features that are not finite.
    pub fn features(&self, folder: &Path) -> Result<FeatureSet, TrainError> {
        let pictures = ImageFolder::open_as(folder, &[String::new()], 0, &DataLimits::default())?;
        let Self { trunk, parameters, views, threads } = self;
        let go_on = &mut |_| ControlFlow::Continue(());
        let mut machine = FeatureMachine::processor(trunk, *threads)?;
        let pictures: Arc<dyn Dataset> = Arc::new(pictures);
        let values = outputs(&mut machine, parameters, &pictures, views, go_on)?;
        FeatureSet::new(self.length(), values.expect("nobody asked to stop"))
    }
}

impl FeatureSet {
    /// Features of this length, one picture after the other: `values` is `[pictures, length]`.
    ///
    /// # Errors
    /// Features that are not finite, or no whole number of pictures.
    pub fn new(length: usize, values: Vec<f32>) -> Result<Self, TrainError> {
        if length == 0
            || !values.len().is_multiple_of(length)
            || !values.iter().all(|value| value.is_finite())
        {
            let problem = "the features of some picture are not finite";
            return Err(TrainError::setting("model.weights", problem, "give a file of a model that works"));
        }
        Ok(Self { length, values })
    }

    /// The number of pictures.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len() / self.length
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.length)
    }
}

/// Refuses sets that cannot be compared: of too few pictures, or of features of different models.
fn comparable(one: &FeatureSet, other: &FeatureSet) -> Result<(), TrainError> {
    if one.length != other.length {
        let problem = format!("{} features cannot be compared with {}", one.length, other.length);
        return Err(TrainError::setting("model.name", problem, "use one model for both folders"));
    }
    if one.count().min(other.count()) < 2 {
        let problem = "a folder of one picture has no spread";
        return Err(TrainError::setting("folder", problem, "give folders of at least two pictures"));
    }
    Ok(())
}

/// Views of whole pictures of any size.
fn shown(name: &str, views: &ViewPlan) -> Result<Views, TrainError> {
    let (input, _) = usual(name);
    let size = views.size.or(match input {
        [_, height, width] => Some(Pixels { x: *width as u32, y: *height as u32 }),
        _ => None,
    });
    let spatial = Spatial::check(&PlanSpec::default(), &[])?;
    Ok(Views::of_channels(&spatial, &ViewPlan { size, ..views.clone() }, CHANNELS, None)?)
}

/// Names the file that an error is about.
fn at(path: &Path, error: GraphError) -> TrainError {
    match error {
        GraphError::Format(problem) => GraphError::Format(format!("{}: {problem}", path.display())).into(),
        other => other.into(),
    }
}
