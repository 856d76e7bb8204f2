//! A model as other programs get it.

use std::io::Write;
use std::path::Path;

use dapple_engine::{CpuExecutor, CpuOptions};
use dapple_graph::{Graph, Parameter, Parameters};
use dapple_onnx::OnnxError;
use dapple_plan::spec::{ModelSpec, Pixels};
use dapple_plan::{ModelPlan, ViewPlan};
use safetensors::tensor::{Dtype, TensorView};

use crate::description::ModelDescription;
use crate::error::TrainError;
use crate::model::{Blueprint, first_weights, usual};

/// Samples in what [`ReleasedModel::sample`] writes: more than one, so that the axis of the batch is seen to work.
const SAMPLES: usize = 2;
/// The fraction of the golden ratio. Its multiples, without their whole parts, lie evenly between zero and one.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// A model with its weights, for inputs of one shape, without anything that only training needs.
#[derive(Debug, Clone)]
pub struct ReleasedModel {
    pub(crate) graph: Graph,
    pub(crate) parameters: Parameters,
    /// What else a program must know that uses the model: keys and texts.
    pub(crate) notes: Vec<(&'static str, String)>,
}

impl ReleasedModel {
    /// A model by its name, for inputs of the usual shape and as many classes as usual where they are not given. Its weights come from the
    /// file that the section names, whose path begins in a folder, or from a seed.
    ///
    /// # Errors
    /// A name, an input or a number of classes that no model has, and weights that do not fit.
    pub fn named(
        spec: &ModelSpec,
        base: &Path,
        size: Option<Pixels>,
        classes: Option<usize>,
    ) -> Result<Self, TrainError> {
        let plan = ModelPlan::check(spec)?;
        let (shape, usual_classes) = usual(&plan.name);
        let blueprint = Blueprint::read(&plan, base)?;
        let shape = of_size(shape, size);
        let graph = blueprint.plain().build(&shape, classes.unwrap_or(usual_classes), 0.0)?;
        let parameters = first_weights(&plan, &graph, base)?.parameters;
        Ok(Self { graph, parameters, notes: Vec::new() })
    }

    /// The shape of an input, without the batch: channels, the frames of a clip, height, width.
    #[must_use]
    pub fn input_shape(&self) -> &[usize] {
        self.graph.input_shape()
    }

    /// The shape of what the model says about an input: a score for each class, or for each class and pixel. Scores are those in front of the
    /// softmax.
    #[must_use]
    pub fn output_shape(&self) -> &[usize] {
        self.graph.output_shape()
    }

    /// The number of values that are stored.
    #[must_use]
    pub fn stored_values(&self) -> usize {
        self.graph.parameters().iter().map(Parameter::len).sum()
    }

    /// Writes the model as an ONNX file.
    ///
    /// # Errors
    /// A model that does not fit into one file, and what the writer says.
    pub fn write_onnx(&self, out: &mut impl Write) -> Result<(), OnnxError> {
        let notes: Vec<(&str, &str)> = self.notes.iter().map(|(key, text)| (*key, text.as_str())).collect();
        dapple_onnx::write(&self.graph, &self.parameters, &notes, out)
    }

    /// The bytes of a safetensors file with two inputs, `input`, and what the model says about them, `output`, by which other programs can be
    /// checked that run the model.
    ///
    /// # Errors
    /// A model that takes more memory than there is.
    pub fn sample(&self) -> Result<Vec<u8>, TrainError> {
        let length: usize = self.graph.input_shape().iter().product();
        let value = |index: usize| (2.0 * (index as f64 * GOLDEN).fract() - 1.0) as f32;
        let inputs: Vec<f32> = (0..SAMPLES * length).map(value).collect();
        let mut executor = CpuExecutor::new(&self.graph, CpuOptions::default())?;
        let outputs = executor.load(&self.parameters)?.forward(&inputs)?;
        let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let stored = [
            ("input", self.graph.input_shape(), bytes(&inputs)),
            ("output", self.graph.output_shape(), bytes(&outputs)),
        ];
        let views = stored.iter().map(|(name, shape, bytes)| {
            let shape = [&[SAMPLES][..], shape].concat();
            let view = TensorView::new(Dtype::F32, shape, bytes).expect("shapes are those of the values");
            (*name, view)
        });
        Ok(safetensors::serialize(views, None).expect("two tensors with names of their own"))
    }
}

/// A shape whose last two axes, height and width, are given.
pub(crate) fn of_size(shape: &[usize], size: Option<Pixels>) -> Vec<usize> {
    let outer = &shape[..shape.len() - 2];
    match size {
        None => shape.to_vec(),
        Some(size) => [outer, &[size.y as usize, size.x as usize]].concat(),
    }
}

/// What a program must know that asks the model of a run: its classes, and what becomes of pixels before the model sees them. Lists are in
/// JSON.
pub(crate) fn notes(description: &ModelDescription, views: &ViewPlan) -> Vec<(&'static str, String)> {
    let names: Vec<&str> = description.classes.iter().map(|class| class.name.as_str()).collect();
    let mut notes = vec![("classes", serde_json::json!(names).to_string())];
    let pixels = "between 0 and 1, less `mean`, over `std`";
    notes.push(("pixels", pixels.to_owned()));
    for (key, values, otherwise) in [("mean", &views.mean, 0.0), ("std", &views.std, 1.0)] {
        let given = values.clone().unwrap_or_else(|| vec![otherwise; description.channels]);
        notes.push((key, serde_json::json!(given).to_string()));
    }
    notes
}
