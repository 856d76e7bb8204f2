//! The class `Certificate`.

use dapple_plan::{Certificate, number};
use pyo3::prelude::*;

use crate::{html, verbs};

/// A priced plan: the run is (`epsilon`, `delta`)-private under `relation`, provided every sentence of `assumptions` holds.
///
/// >>> import dapple
/// >>> dapple.account(image=(1000, 1000), crop=(100, 100), patch=(10, 10), sampling="poisson", batch=100, records=3000,
/// ...                epochs=100, noise_multiplier=1.0, delta=1e-5)
/// Certificate(epsilon=0.1919, bracket=(0.1917, 0.1919), relation='patch', delta=1e-5, sampling='poisson', steps=3000, noise_multiplier=1.0)
#[pyclass(name = "Certificate", module = "dapple", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyCertificate(Certificate);

impl From<Certificate> for PyCertificate {
    fn from(certificate: Certificate) -> Self {
        Self(certificate)
    }
}

#[pymethods]
impl PyCertificate {
    /// The guarantee: never below the exact epsilon of the mechanism.
    #[getter]
    fn epsilon(&self) -> f64 {
        self.0.epsilon.upper
    }

    /// The certified bracket of the exact epsilon. Its lower end is `None` where the accountant only bounds from above.
    #[getter]
    fn bracket(&self) -> (Option<f64>, f64) {
        (self.0.epsilon.lower, self.0.epsilon.upper)
    }

    /// The failure probability.
    #[getter]
    fn delta(&self) -> f64 {
        self.0.delta
    }

    /// The neighbouring relation: what may differ.
    #[getter]
    fn relation(&self) -> &'static str {
        self.0.relation.name()
    }

    /// How a step draws its records.
    #[getter]
    fn sampling(&self) -> &'static str {
        self.0.sampling.name()
    }

    /// The probability that a step sees a given record.
    #[getter]
    fn sample_rate(&self) -> f64 {
        self.0.sample_rate
    }

    /// The probability that a sampled record shows what is protected.
    #[getter]
    fn inclusion_probability(&self) -> f64 {
        self.0.inclusion_probability
    }

    /// The probability that a step sees what is protected.
    #[getter]
    fn effective_rate(&self) -> f64 {
        self.0.effective_rate
    }

    /// Steps of the whole run.
    #[getter]
    fn steps(&self) -> u64 {
        self.0.steps
    }

    /// Records in the data set.
    #[getter]
    fn records(&self) -> u64 {
        self.0.records
    }

    /// The expected number of records of a step.
    #[getter]
    fn batch(&self) -> u64 {
        self.0.batch
    }

    /// Standard deviation of the noise on the sum of clipped gradients, in clip norms.
    #[getter]
    fn noise_multiplier(&self) -> f64 {
        self.0.noise_multiplier
    }

    /// How far the sum of clipped gradients moves between neighbours, in clip norms.
    #[getter]
    fn sensitivity(&self) -> f64 {
        self.0.sensitivity
    }

    /// Which accountant answered.
    #[getter]
    fn accountant(&self) -> &'static str {
        self.0.accountant.name()
    }

    /// What must hold outside this program.
    #[getter]
    fn assumptions(&self) -> Vec<String> {
        self.0.assumptions.clone()
    }

    /// What is protected, as a sentence.
    #[getter]
    fn protects(&self) -> &str {
        &self.0.protects
    }

    /// The theorem behind the number.
    #[getter]
    fn theorem(&self) -> &str {
        &self.0.theorem
    }

    /// SHA-256 of everything in the plan that may change the guarantee.
    #[getter]
    fn plan_hash(&self) -> &str {
        &self.0.plan_hash
    }

    /// The certificate as JSON, as `dapple account --json` prints it.
    pub(crate) fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The fields of the JSON form.
    #[pyo3(signature = () -> "dict[str, Any]")]
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        verbs::from_json(py, &self.0.to_json())
    }

    /// A statement for a reviewer, in Markdown: what the adversary sees, what is protected, what is assumed.
    fn statement(&self) -> String {
        self.0.statement()
    }

    fn __str__(&self) -> String {
        self.0.text()
    }

    fn __repr__(&self) -> String {
        let certificate = &self.0;
        let upper = number::up(certificate.epsilon.upper, 4);
        let lower =
            certificate.epsilon.lower.map_or_else(|| "None".to_owned(), |lower| number::down(lower, 4));
        format!(
            "Certificate(epsilon={upper}, bracket=({lower}, {upper}), relation='{}', delta={}, sampling='{}', steps={}, noise_multiplier={:?})",
            certificate.relation,
            number::exact(certificate.delta),
            certificate.sampling.name(),
            certificate.steps,
            certificate.noise_multiplier,
        )
    }

    fn _repr_html_(&self) -> String {
        html::certificate(&self.0)
    }
}
