//! The class `Plan`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dapple_geometry::{CropDistribution, Mask, Operation, PaddingMode, Size};
use dapple_plan::{Plan, PlanSpec, Sampling};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping, PyType};

use crate::certificate::PyCertificate;
use crate::errors::Raise;
use crate::html;
use crate::pld::PyPld;
use crate::request::PlanRequest;
use crate::verbs::{self, precision_of};
use crate::worker;

/// A checked plan: what is protected, how records are drawn, what happens to an image, how much noise there is, and for how long. It is
/// what is priced, and what the samplers and crops of `dapple.torch` carry out.
///
/// Keyword arguments are the flags of the command line with underscores; `dapple.keywords()` lists them. `plan` is another plan, a
/// mapping or the path of a TOML file, over which the keywords are laid; `set` lays dotted keys over both.
///
/// >>> import dapple
/// >>> plan = dapple.Plan(batch=100, records=3000, epochs=100, noise_multiplier=1.0, delta=1e-5)
/// >>> plan.steps, plan.relation
/// (3000, 'add-remove')
/// >>> plan.replace(steps=10).steps
/// 10
/// >>> dapple.Plan.from_toml(plan.to_toml()) == plan
/// True
#[pyclass(name = "Plan", module = "dapple", frozen, weakref)]
pub(crate) struct PyPlan {
    request: Arc<PlanRequest>,
    plan: Arc<Plan>,
}

impl PyPlan {
    pub(crate) fn request(&self) -> PlanRequest {
        self.request.known(self.plan.clone())
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Checks a request.
    pub(crate) fn check(py: Python<'_>, request: PlanRequest) -> PyResult<Self> {
        let request = Arc::new(request);
        let job = request.clone();
        let plan = worker::run(py, move |_| job.check())?.map_err(|error| error.raise(py))?;
        Ok(Self { request, plan })
    }

    /// A plan that was checked elsewhere.
    pub(crate) fn known(request: PlanRequest, plan: Plan) -> Self {
        Self { request: Arc::new(request), plan: Arc::new(plan) }
    }

    /// The padding right before the crop.
    fn padding(&self) -> Option<(u32, u32, PaddingMode)> {
        match self.plan.spatial().operations().last() {
            Some(Operation::Pad { padding, mode }) => Some((padding.x, padding.y, *mode)),
            _ => None,
        }
    }
}

fn pair(size: Size) -> (u32, u32) {
    (size.width(), size.height())
}

#[pymethods]
impl PyPlan {
    #[new]
    #[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]"))]
    fn new(
        py: Python<'_>,
        plan: Option<&Bound<'_, PyAny>>,
        set: Option<&Bound<'_, PyMapping>>,
        values: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::check(py, PlanRequest::read(plan, set, values)?)
    }

    /// The plan of a TOML text.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: &str) -> PyResult<Self> {
        let spec = PlanSpec::from_toml(text).map_err(|error| error.raise(py))?;
        Self::check(py, PlanRequest::from_spec(py, spec, Path::new(""))?.measured(py)?)
    }

    /// The plan of a mapping: sections as in a TOML file, dotted keys, or keywords.
    ///
    /// >>> import dapple
    /// >>> sampling = {"batch": 100, "records": 3000, "epochs": 100}
    /// >>> dapple.Plan.from_dict({"sampling": sampling, "noise_multiplier": 1.0, "privacy.delta": "1/n"}).delta
    /// 0.0003333333333333333
    #[staticmethod]
    #[pyo3(signature = (mapping: "Mapping[str, Any]"))]
    fn from_dict(py: Python<'_>, mapping: &Bound<'_, PyMapping>) -> PyResult<Self> {
        Self::check(py, PlanRequest::read(Some(mapping.as_any()), None, None)?)
    }

    /// This plan with some values changed.
    #[pyo3(signature = (*, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]"))]
    fn replace(
        slf: &Bound<'_, Self>,
        set: Option<&Bound<'_, PyMapping>>,
        values: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::check(slf.py(), PlanRequest::read(Some(slf.as_any()), set, values)?)
    }

    /// The plan as TOML.
    fn to_toml(&self) -> String {
        self.request.spec.to_toml()
    }

    /// The plan as a dictionary of sections.
    #[pyo3(signature = () -> "dict[str, Any]")]
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        verbs::from_json(py, &serde_json::to_string(&self.request.spec).unwrap_or_default())
    }

    /// Prices the plan, as `dapple.account` does.
    #[pyo3(signature = (*, precision = 0.001))]
    fn account(&self, py: Python<'_>, precision: f64) -> PyResult<PyCertificate> {
        let precision = precision_of(py, precision)?;
        let plan = self.plan.clone();
        let priced = worker::run(py, move |_| {
            plan.price(precision).map(|certificate| PyCertificate::of(plan, certificate, precision))
        })?;
        priced.map_err(|error| error.raise(py))
    }

    /// The privacy-loss distribution of the whole run.
    fn pld(&self, py: Python<'_>) -> PyResult<PyPld> {
        let plan = self.plan.clone();
        worker::run(py, move |_| plan.pld())?.map(PyPld::from).map_err(|error| error.raise(py))
    }

    /// The neighbouring relation: what may differ.
    #[getter]
    fn relation(&self) -> &'static str {
        self.plan.relation().name()
    }

    /// How a step draws its records.
    #[getter]
    fn sampling(&self) -> &'static str {
        self.plan.sampling().name()
    }

    /// The expected number of records of a step, by which the noisy sum is divided.
    #[getter]
    fn batch(&self) -> u64 {
        self.plan.batch()
    }

    /// Records in the data set.
    #[getter]
    fn records(&self) -> u64 {
        self.plan.records()
    }

    /// Steps of the whole run.
    #[getter]
    fn steps(&self) -> u64 {
        self.plan.steps()
    }

    /// Steps of one pass over the data set, or of one allocation in balanced sampling.
    #[getter]
    fn epoch_steps(&self) -> u64 {
        match self.plan.sampling() {
            Sampling::Balanced { epoch_steps, .. } => epoch_steps,
            Sampling::Poisson | Sampling::WithoutReplacement => {
                self.plan.records().div_ceil(self.plan.batch()).min(self.plan.steps())
            }
        }
    }

    /// The probability that a step sees a given record.
    #[getter]
    fn sample_rate(&self) -> f64 {
        self.plan.sample_rate()
    }

    /// The probability that a sampled record shows what is protected.
    #[getter]
    fn inclusion_probability(&self) -> f64 {
        self.plan.inclusion_probability()
    }

    /// The probability that a step sees what is protected.
    #[getter]
    fn effective_rate(&self) -> f64 {
        self.plan.effective_rate()
    }

    /// Standard deviation of the noise on the sum of clipped gradients, in clip norms.
    #[getter]
    fn noise_multiplier(&self) -> f64 {
        self.plan.noise_multiplier()
    }

    /// The clip norm, where given.
    #[getter]
    fn max_grad_norm(&self) -> Option<f64> {
        self.plan.max_grad_norm()
    }

    /// The failure probability.
    #[getter]
    fn delta(&self) -> f64 {
        self.plan.delta()
    }

    /// The epsilon to reach, where given.
    #[getter]
    fn target_epsilon(&self) -> Option<f64> {
        self.plan.target_epsilon()
    }

    /// How far the sum of clipped gradients moves between neighbours, in clip norms.
    #[getter]
    fn sensitivity(&self) -> f64 {
        self.plan.sensitivity()
    }

    /// Width and height of the original image, where given.
    #[getter]
    fn image(&self) -> Option<(u32, u32)> {
        self.plan.spatial().image().map(pair)
    }

    /// Width and height of a crop of fixed size; `None` without one.
    #[getter]
    fn crop(&self) -> Option<(u32, u32)> {
        match self.plan.spatial().pipeline()?.crop_distribution() {
            CropDistribution::Fixed(size) => Some(pair(*size)),
            CropDistribution::Resized(_) => None,
        }
    }

    /// Pixels added on each side right before the crop, along x and y.
    #[getter]
    fn pad(&self) -> (u32, u32) {
        self.padding().map_or((0, 0), |(x, y, _)| (x, y))
    }

    /// What the padding shows.
    #[getter]
    fn pad_mode(&self) -> String {
        self.padding().map_or(PaddingMode::Zero, |(_, _, mode)| mode).to_string()
    }

    /// Operations on the whole image before padding and crop, as they are written in a plan.
    #[getter]
    fn operations(&self) -> Vec<String> {
        self.request.spec.pipeline.operations.clone().unwrap_or_default()
    }

    /// Views of a record, whose gradients are averaged before clipping.
    #[getter]
    fn views(&self) -> u32 {
        self.plan.spatial().views()
    }

    /// SHA-256 of everything that may change the guarantee.
    #[getter]
    fn hash(&self) -> &str {
        self.plan.hash()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.plan == other.plan
    }

    fn __hash__(&self) -> u64 {
        u64::from_str_radix(self.plan.hash().get(..16).unwrap_or_default(), 16).unwrap_or_default()
    }

    fn __repr__(&self) -> String {
        let plan = &self.plan;
        format!(
            "Plan(relation='{}', sampling='{}', batch={}, records={}, steps={}, noise_multiplier={:?}, delta={:?}, hash='{}')",
            plan.relation().name(),
            plan.sampling().name(),
            plan.batch(),
            plan.records(),
            plan.steps(),
            plan.noise_multiplier(),
            plan.delta(),
            plan.hash().get(..12).unwrap_or_default(),
        )
    }

    fn _repr_html_(&self) -> String {
        html::plan(&self.plan)
    }

    /// A plan is pickled as its text and the pixels of its masks.
    #[pyo3(signature = () -> "tuple[Any, ...]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py>> {
        let masks = self.request.masks.iter();
        let masks = masks.map(|mask| (pair(mask.size()), PyBytes::new(py, mask.bytes()))).collect();
        Ok((PyType::new::<Self>(py).getattr("_restore")?, (self.to_toml(), masks, self.request.base.clone())))
    }

    #[staticmethod]
    #[pyo3(signature = (text, masks: "list[tuple[tuple[int, int], bytes]]", base: "str | PathLike[str]"))]
    fn _restore(py: Python<'_>, text: &str, masks: Vec<PackedMask<'_>>, base: PathBuf) -> PyResult<Self> {
        let spec = PlanSpec::from_toml(text).map_err(|error| error.raise(py))?;
        let unpack = |((width, height), bytes): PackedMask<'_>| {
            let wrong = |error: dapple_geometry::GeometryError| {
                pyo3::exceptions::PyValueError::new_err(error.to_string())
            };
            let size = Size::named("mask", width, height).map_err(wrong)?;
            Mask::from_bytes(size, bytes.as_bytes().to_vec()).map_err(wrong)
        };
        let masks = masks.into_iter().map(unpack).collect::<PyResult<_>>()?;
        Self::check(py, PlanRequest::with_masks(spec, masks).based(base))
    }
}

/// The function that restores a pickled plan, and its arguments.
type Reduced<'py> = (Bound<'py, PyAny>, (String, Vec<PackedMask<'py>>, PathBuf));

/// A mask's width and height, and its pixels.
type PackedMask<'py> = ((u32, u32), Bound<'py, PyBytes>);
