//! The class `RunCertificate`.

use dapple_plan::number;
use dapple_train::RunCertificate;
use pyo3::prelude::*;

use crate::certificate::PyCertificate;
use crate::federated::status;
use crate::{html, verbs};

/// What a run promised and what it spent. `spent` covers every value that the run has released, by its ledger.
#[pyclass(name = "RunCertificate", module = "dapple", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyRunCertificate(RunCertificate);

impl From<RunCertificate> for PyRunCertificate {
    fn from(certificate: RunCertificate) -> Self {
        Self(certificate)
    }
}

#[pymethods]
impl PyRunCertificate {
    /// Whether the run goes on: `running`, `stopped` or `finished`.
    #[getter]
    fn status(&self) -> &'static str {
        status(self.0.status)
    }

    /// Whether gradients were clipped and noised; if not, nothing is guaranteed.
    #[getter]
    fn private(&self) -> bool {
        self.0.private
    }

    /// Steps that count as taken.
    #[getter]
    fn steps_spent(&self) -> u64 {
        self.0.steps_spent
    }

    /// An upper bound on epsilon for everything that the run released: 0 before the first step, `None` without privacy.
    #[getter]
    fn epsilon(&self) -> Option<f64> {
        self.0.private.then(|| self.0.spent.as_ref().map_or(0.0, |spent| spent.epsilon.upper))
    }

    /// The price of the steps that count as taken; `None` before the first step, and without privacy.
    #[getter]
    fn spent(&self) -> Option<PyCertificate> {
        self.0.spent.clone().map(PyCertificate::from)
    }

    /// The price of the whole plan; `None` without privacy.
    #[getter]
    fn planned(&self) -> Option<PyCertificate> {
        self.0.planned.clone().map(PyCertificate::from)
    }

    /// What a reader must know before relying on the certificate.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.iter().map(ToString::to_string).collect()
    }

    /// The certificate as JSON, as in `certificate.json`.
    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The fields of the JSON form.
    #[pyo3(signature = () -> "dict[str, Any]")]
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        verbs::from_json(py, &self.0.to_json())
    }

    fn __repr__(&self) -> String {
        let epsilon = self.epsilon().map_or_else(|| "None".to_owned(), |epsilon| number::up(epsilon, 4));
        format!(
            "RunCertificate(status='{}', steps_spent={}, epsilon={epsilon})",
            self.status(),
            self.0.steps_spent
        )
    }

    fn _repr_html_(&self) -> String {
        html::run_certificate(&self.0, self.status())
    }
}
