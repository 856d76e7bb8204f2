//! The class `Predictor`: asks the model of a run.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dapple_geometry::Size;
use dapple_train::data::{Image, Values, clips, formats};
use dapple_train::{Look, Prediction, Predictor, TrainError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping};

use crate::errors::{self, Class, Raise};
use crate::train::performance;
use crate::worker;

/// The newest model of a run, ready to be asked. Opening it reads the plan and the weights, never the data; `dapple.predict` and
/// `Run.predict` are what to use.
#[pyclass(name = "Predictor", module = "dapple", frozen)]
pub(crate) struct PyPredictor {
    predictor: Arc<Mutex<Predictor>>,
    classes: Vec<String>,
}

/// Probabilities of classes; or width, height and bytes of a label map.
#[derive(IntoPyObject)]
pub(crate) enum Answered<'py> {
    Class(Vec<f64>),
    Map((u32, u32, Bound<'py, PyBytes>)),
}

impl PyPredictor {
    fn ask<'py>(
        &self,
        py: Python<'py>,
        question: impl FnOnce(&mut Predictor) -> Result<Prediction, TrainError> + Send + 'static,
    ) -> PyResult<Answered<'py>> {
        let predictor = self.predictor.clone();
        let said = worker::run(py, move |_| {
            question(&mut predictor.lock().unwrap_or_else(PoisonError::into_inner))
        })?;
        Ok(match said.map_err(|error| error.raise(py))? {
            Prediction::Class(probabilities) => Answered::Class(probabilities),
            Prediction::Map(map) => {
                let (width, height) = (map.size().width(), map.size().height());
                Answered::Map((width, height, PyBytes::new(py, map.labels())))
            }
        })
    }
}

#[pymethods]
impl PyPredictor {
    #[new]
    #[pyo3(signature = (folder: "str | PathLike[str]", /, *, set: "Mapping[str, Any] | None" = None))]
    fn new(py: Python<'_>, folder: PathBuf, set: Option<&Bound<'_, PyMapping>>) -> PyResult<Self> {
        let performance = performance(py, set)?;
        let opened = worker::run(py, move |_| Predictor::open(&folder, Look::default(), &performance))?;
        let predictor = opened.map_err(|error| error.raise(py))?;
        let classes = predictor.description().classes.iter().map(|class| class.name.clone()).collect();
        Ok(Self { predictor: Arc::new(Mutex::new(predictor)), classes })
    }

    /// The names of the classes, in the order of the model's outputs.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.classes.clone()
    }

    /// Asks about a picture, or a clip for a model of clips.
    #[pyo3(signature = (path: "str | PathLike[str]", /) -> "list[float] | tuple[int, int, bytes]")]
    fn file<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Answered<'py>> {
        self.ask(py, move |predictor| {
            let limits = predictor.plan().data.limits;
            let image = match predictor.description().frames {
                Some(frames) => clips::read_clip(&path, frames, &limits),
                None => formats::read_picture(&path, &limits),
            }?;
            predictor.predict(&image, &path.display().to_string())
        })
    }

    /// Asks about an image of bytes, `[height, width, channels]`.
    #[pyo3(signature = (width, height, channels, pixels, /) -> "list[float] | tuple[int, int, bytes]")]
    fn pixels<'py>(
        &self,
        py: Python<'py>,
        width: u32,
        height: u32,
        channels: usize,
        pixels: Vec<u8>,
    ) -> PyResult<Answered<'py>> {
        let made = Size::named("image", width, height).ok();
        let made = made.and_then(|size| Image::new(size, channels, Values::Bytes(pixels)));
        let Some(image) = made else {
            let hint = "give arrays of uint8, [height, width, channels] or [height, width]";
            return Err(errors::raise(
                py,
                Class::Plan,
                "an image of no size, or with too few bytes",
                Some(hint),
            ));
        };
        self.ask(py, move |predictor| predictor.predict(&image, "the array"))
    }
}
