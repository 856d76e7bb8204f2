//! Asks the model of a run about images and clips.

use std::path::Path;

use dapple_data::{DataError, Image, LabelMap, Values, Views};
use dapple_graph::{Parameters, tune, weights};
use dapple_plan::spec::{Performance, Pixels};
use dapple_plan::{EvaluationPlan, Look, TrainingPlan};

use crate::checkpoint::Checkpoint;
use crate::description::ModelDescription;
use crate::error::TrainError;
use crate::evaluation::{Segmenter, probabilities};
use crate::folder::Folder;
use crate::inference::Inference;
use crate::model::Blueprint;
use crate::recover::Recovered;
use crate::released::{self, ReleasedModel};

/// Weights of red, green and blue in a pixel's brightness (ITU-R BT.601), for models that see one value per pixel.
const BRIGHTNESS: [f32; 3] = [0.299, 0.587, 0.114];

/// What a model says about an image.
#[derive(Debug, Clone, PartialEq)]
pub enum Prediction {
    /// The probability of each class.
    Class(Vec<f64>),
    /// The likeliest class of each pixel, at the size of the image.
    Map(LabelMap),
}

/// The newest model of a run, ready to be asked. Opening it reads the plan and the weights, never the data.
pub struct Predictor {
    training: TrainingPlan,
    description: ModelDescription,
    views: Views,
    parameters: Parameters,
    inference: Inference,
    evaluation: EvaluationPlan,
}

impl Predictor {
    /// Opens the model of a run. Images are looked at as `look` says, and as the plan says where `look` is silent. Given settings of
    /// speed and memory replace those of the plan.
    ///
    /// # Errors
    /// A folder without a run or without weights, weights that are damaged or not the run's, a ledger that cannot be trusted.
    pub fn open(folder: &Path, look: Look, performance: &Performance) -> Result<Self, TrainError> {
        let files = Folder::new(folder);
        let recovered = Recovered::read(&files)?;
        recovered.check_model(&files)?;
        let training = recovered.with(performance)?.training;
        let description = ModelDescription::read(folder)?;
        let parts = training.privacy.parts();
        let spatial = parts[parts.len() - 1].spatial();
        let seen = (description.channels, description.frames);
        let views = Views::of_clips(spatial, &training.data.views, seen, spatial.image())?;
        let classes = description.classes.len();
        let evaluation = training.evaluation.with(look)?;
        let blueprint = Blueprint::described(&training.model, &description)?;
        let parameters = newest_weights(&files, &blueprint, &views, classes)?;
        let inference = Inference::new(&training, &blueprint.plain(), classes);
        Ok(Self { training, description, views, parameters, inference, evaluation })
    }

    /// The plan of the run, with everything filled in.
    #[must_use]
    pub fn plan(&self) -> &TrainingPlan {
        &self.training
    }

    /// What the model sees and says.
    #[must_use]
    pub fn description(&self) -> &ModelDescription {
        &self.description
    }

    /// The model as other programs get it, for inputs of the size of a view or of a given one.
    ///
    /// # Errors
    /// Submodels that answer together, and a size that the model does not take.
    pub fn release(&self, size: Option<Pixels>) -> Result<ReleasedModel, TrainError> {
        if self.inference.is_ensemble() {
            let problem = "its submodels answer together, and one graph holds one of them";
            let hint = "train with partition.predict = \"whole\", or ask the run by `dapple predict`";
            return Err(TrainError::setting("partition.predict", problem, hint));
        }
        let shape = released::of_size(&self.views.shape(), size);
        let graph = self.inference.whole(&shape)?;
        if !self.parameters.fit(&graph) {
            let (name, shape) = (&self.training.model.name, self.views.shape());
            let problem = format!("the weights of {name} belong to inputs of shape {shape:?}");
            return Err(TrainError::setting("model.name", problem, "leave out --size"));
        }
        let notes = released::notes(&self.description, &self.training.data.views);
        Ok(ReleasedModel { graph, parameters: self.parameters.clone(), notes })
    }

    /// Asks the model about an image or a clip; `place` names it in messages. A model of label maps takes images of any size.
    ///
    /// # Errors
    /// An image that is too small for the model or for a crop.
    pub fn predict(&mut self, image: &Image, place: &str) -> Result<Prediction, TrainError> {
        let named = |error: DataError| error.at(|| place.to_owned());
        let fitted = self.fitted(image);
        let image = fitted.as_ref().unwrap_or(image);
        match self.evaluation {
            EvaluationPlan::Crops { grid, .. } => {
                let count = self.views.evaluation_views(grid);
                let mut inputs = vec![0.0; count * self.views.view_length()];
                self.views.evaluate(image, grid, &mut inputs).map_err(named)?;
                let outputs = self.inference.forward(&self.views.shape(), &self.parameters, &inputs)?;
                Ok(Prediction::Class(probabilities(&outputs, self.inference.classes())))
            }
            EvaluationPlan::Maps(method) => {
                let whole = self.views.whole(image).map_err(named)?;
                let Self { views, parameters, inference, .. } = self;
                let labels = Segmenter { inference, parameters, views, method }.label(&whole)?;
                let (found, expected) = (whole.original(), image.size());
                let map = LabelMap::new(expected, labels).ok_or_else(|| DataError::LabelSize {
                    place: place.to_owned(),
                    found,
                    expected,
                })?;
                Ok(Prediction::Map(map))
            }
        }
    }

    /// The image in the channels that the model sees, if it has others and there is a usual conversion.
    fn fitted(&self, image: &Image) -> Option<Image> {
        let (Values::Bytes(bytes), 3, 1) = (image.values(), image.channels(), self.description.channels)
        else {
            return None;
        };
        let brightness = |pixel: &[u8]| {
            let sum: f32 =
                pixel.iter().zip(BRIGHTNESS).map(|(&value, weight)| f32::from(value) * weight).sum();
            sum.round() as u8
        };
        Image::new(image.size(), 1, Values::Bytes(bytes.chunks_exact(3).map(brightness).collect()))
    }
}

/// The weights of the plain model, from the file of a finished run or from the newest checkpoint.
fn newest_weights(
    folder: &Folder,
    blueprint: &Blueprint,
    views: &Views,
    classes: usize,
) -> Result<Parameters, TrainError> {
    let plain = blueprint.plain().build(&views.shape(), classes, 0.0)?;
    let path = folder.model();
    if path.exists() {
        return Ok(weights::load(&plain, &path)?);
    }
    let Some((checkpoint, _)) = Checkpoint::newest(&folder.checkpoints())? else {
        return Err(TrainError::Checkpoint { path, problem: "no weights were written yet".to_owned() });
    };
    let graph = blueprint.build(&views.shape(), classes, 0.0)?;
    let mut parameters = Parameters::zeros(&graph);
    match Checkpoint::fill(checkpoint.weights(), &mut parameters) {
        true => Ok(tune::merged(&graph, &parameters, &plain)?),
        false => Err(Checkpoint::misfit(folder.checkpoints())),
    }
}
