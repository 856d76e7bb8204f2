//! The class `Calibration`.

use std::sync::Arc;

use dapple_plan::{BracketPrecision, Calibrated, Certificate, PlanSpec, SolvedUnknown, SolvedValue, number};
use pyo3::prelude::*;
use serde_json::json;

use crate::certificate::PyCertificate;
use crate::errors::Raise;
use crate::html;
use crate::plan::PyPlan;
use crate::request::PlanRequest;

/// A plan that was solved for one unknown: the value, the plan with it, and its certificate, whose epsilon is at most the target.
#[pyclass(module = "dapple", frozen)]
pub(crate) struct Calibration {
    solved: SolvedUnknown,
    certificate: Certificate,
    precision: BracketPrecision,
    plan: Py<PyPlan>,
}

impl Calibration {
    /// The answer to a request, as Python objects.
    pub(crate) fn new(
        py: Python<'_>,
        request: PlanRequest,
        found: Calibrated,
        precision: BracketPrecision,
    ) -> PyResult<Self> {
        let Calibrated { solved, plan, certificate, .. } = found;
        let PlanRequest { mut spec, masks, base, .. } = request;
        // A size is solved for as a whole, and replaces whatever the plan says of it, as a flag replaces what a file says.
        let written = match (solved.size, solved.value) {
            (Some(size), _) => size.to_string(),
            (None, SolvedValue::Whole(value)) => value.to_string(),
            (None, SolvedValue::Real(value)) => format!("{value:?}"),
        };
        let mut layer = PlanSpec::default();
        layer.set(solved.name, &written).map_err(|error| error.raise(py))?;
        spec = spec.merge(&layer);
        Ok(Self {
            solved,
            certificate,
            precision,
            plan: Py::new(py, PyPlan::known(PlanRequest::with_masks(spec, masks).based(base), plan))?,
        })
    }
}

impl Calibration {
    /// The value as people read it.
    fn shown(&self) -> String {
        match (self.solved.size, self.solved.value) {
            (Some(size), _) => format!("({}, {})", size.x, size.y),
            (None, SolvedValue::Whole(value)) => value.to_string(),
            // Real values are noise multipliers, for which rounding up is the safe side.
            (None, SolvedValue::Real(value)) => number::up(value, 5),
        }
    }
}

/// A solved value as Python has it.
#[derive(IntoPyObject)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl From<SolvedValue> for Number {
    fn from(value: SolvedValue) -> Self {
        match value {
            SolvedValue::Whole(value) => Self::Whole(value),
            SolvedValue::Real(value) => Self::Real(value),
        }
    }
}

#[pymethods]
impl Calibration {
    /// The keyword of the value that was solved for.
    #[getter]
    fn name(&self) -> String {
        self.solved.name.replace('-', "_")
    }

    /// The value found; for a crop or a patch its width.
    #[getter]
    fn value(&self) -> Number {
        self.solved.value.into()
    }

    /// Width and height, for a crop or a patch.
    #[getter]
    fn size(&self) -> Option<(u32, u32)> {
        self.solved.size.map(|size| (size.x, size.y))
    }

    /// The plan with the value found.
    #[getter]
    fn plan(&self, py: Python<'_>) -> Py<PyPlan> {
        self.plan.clone_ref(py)
    }

    /// The certificate of that plan.
    #[getter]
    fn certificate(&self) -> PyCertificate {
        let plan = Arc::clone(self.plan.get().plan());
        PyCertificate::of(plan, self.certificate.clone(), self.precision)
    }

    /// The epsilon of that plan, at most the target.
    #[getter]
    fn epsilon(&self) -> f64 {
        self.certificate.epsilon.upper
    }

    /// The certificate and what was solved for, as `dapple calibrate --json` prints them.
    fn to_json(&self) -> String {
        let mut answer = json!(self.certificate.document());
        answer["solved"] = json!(self.solved);
        // This cannot fail: numbers and strings always have a JSON form.
        serde_json::to_string_pretty(&answer).unwrap_or_default()
    }

    fn __repr__(&self) -> String {
        format!("Calibration({}={}, epsilon={})", self.name(), self.shown(), number::up(self.epsilon(), 4))
    }

    fn _repr_html_(&self) -> String {
        html::calibration(&self.name(), self.shown(), &self.certificate)
    }
}
