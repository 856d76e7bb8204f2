//! The class `Certificate`.

use std::sync::{Arc, OnceLock};

use dapple_plan::{BracketPrecision, Certificate, Plan, TradeOffPoint, number};
use pyo3::prelude::*;
use serde_json::json;

use crate::errors::Raise;
use crate::{html, verbs, worker};

/// A priced plan: the run is (`epsilon`, `delta`)-private under `relation`, provided every sentence of `assumptions` holds.
///
/// >>> import dapple
/// >>> dapple.account(image=(1000, 1000), crop=(100, 100), patch=(10, 10), sampling="poisson", batch=100, records=3000,
/// ...                epochs=100, noise_multiplier=1.0, delta=1e-5)
/// Certificate(epsilon=0.1919, bracket=(0.1917, 0.1919), relation='patch', delta=1e-5, sampling='poisson', steps=3000, noise_multiplier=1.0)
#[pyclass(name = "Certificate", module = "dapple", frozen, eq)]
pub(crate) struct PyCertificate {
    certificate: Certificate,
    /// The plan that was priced, and how narrowly, where it is at hand.
    priced: Option<(Arc<Plan>, BracketPrecision)>,
    /// Its trade-off curve, once somebody asked for it: it takes about as long as the price.
    curve: OnceLock<Option<Vec<TradeOffPoint>>>,
}

impl From<Certificate> for PyCertificate {
    fn from(certificate: Certificate) -> Self {
        Self { certificate, priced: None, curve: OnceLock::new() }
    }
}

impl PartialEq for PyCertificate {
    fn eq(&self, other: &Self) -> bool {
        self.certificate == other.certificate
    }
}

impl PyCertificate {
    /// The certificate of a plan that was priced with this precision.
    pub(crate) fn of(plan: Arc<Plan>, certificate: Certificate, precision: BracketPrecision) -> Self {
        Self { priced: Some((plan, precision)), ..Self::from(certificate) }
    }

    /// What tests can reach, where the whole curve is known.
    fn points(&self, py: Python<'_>) -> PyResult<Option<&[TradeOffPoint]>> {
        if self.curve.get().is_none() {
            let points = match self.priced.clone() {
                Some((plan, precision)) => worker::run(py, move |_| plan.trade_off_points(precision))?
                    .map_err(|error| error.raise(py))?,
                None => None,
            };
            // Whoever computed them meanwhile found the same.
            let _ = self.curve.set(points);
        }
        Ok(self.curve.get().and_then(Option::as_deref))
    }
}

#[pymethods]
impl PyCertificate {
    /// The guarantee: never below the exact epsilon of the mechanism.
    #[getter]
    fn epsilon(&self) -> f64 {
        self.certificate.epsilon.upper
    }

    /// The certified bracket of the exact epsilon. Its lower end is `None` where the accountant only bounds from above.
    #[getter]
    fn bracket(&self) -> (Option<f64>, f64) {
        (self.certificate.epsilon.lower, self.certificate.epsilon.upper)
    }

    /// The failure probability.
    #[getter]
    fn delta(&self) -> f64 {
        self.certificate.delta
    }

    /// The neighbouring relation: what may differ.
    #[getter]
    fn relation(&self) -> &'static str {
        self.certificate.relation.name()
    }

    /// How a step draws its records.
    #[getter]
    fn sampling(&self) -> &'static str {
        self.certificate.sampling.name()
    }

    /// The probability that a step sees a given record.
    #[getter]
    fn sample_rate(&self) -> f64 {
        self.certificate.sample_rate
    }

    /// The probability that a sampled record shows what is protected.
    #[getter]
    fn inclusion_probability(&self) -> f64 {
        self.certificate.inclusion_probability
    }

    /// The probability that a step sees what is protected.
    #[getter]
    fn effective_rate(&self) -> f64 {
        self.certificate.effective_rate
    }

    /// Steps of the whole run.
    #[getter]
    fn steps(&self) -> u64 {
        self.certificate.steps
    }

    /// Records in the data set.
    #[getter]
    fn records(&self) -> u64 {
        self.certificate.records
    }

    /// The expected number of records of a step.
    #[getter]
    fn batch(&self) -> u64 {
        self.certificate.batch
    }

    /// Standard deviation of the noise on the sum of clipped gradients, in clip norms.
    #[getter]
    fn noise_multiplier(&self) -> f64 {
        self.certificate.noise_multiplier
    }

    /// How far the sum of clipped gradients moves between neighbours, in clip norms.
    #[getter]
    fn sensitivity(&self) -> f64 {
        self.certificate.sensitivity
    }

    /// Which accountant answered.
    #[getter]
    fn accountant(&self) -> &'static str {
        self.certificate.accountant.name()
    }

    /// What must hold outside this program.
    #[getter]
    fn assumptions(&self) -> Vec<String> {
        self.certificate.assumptions.clone()
    }

    /// What is protected, as a sentence.
    #[getter]
    fn protects(&self) -> &str {
        &self.certificate.protects
    }

    /// The theorem behind the number.
    #[getter]
    fn theorem(&self) -> &str {
        &self.certificate.theorem
    }

    /// SHA-256 of everything in the plan that may change the guarantee.
    #[getter]
    fn plan_hash(&self) -> &str {
        &self.certificate.plan_hash
    }

    /// What tests between neighbouring data sets can reach (f-DP): pairs of a share of false alarms and the least share of misses. `None`
    /// where only epsilon is bounded, and in the certificate of a run, whose plan has the curve: `dapple.plan_of_run(folder).account()`.
    /// `plan.pld().trade_off` tells it at any share.
    #[getter]
    fn trade_off(&self, py: Python<'_>) -> PyResult<Option<Vec<(f64, f64)>>> {
        let pair = |point: &TradeOffPoint| (point.false_alarms, point.misses_at_least);
        Ok(self.points(py)?.map(|points| points.iter().map(pair).collect()))
    }

    /// The certificate as JSON, as `dapple account --json` prints it.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        let mut answer = json!(self.certificate.document());
        if let Some(points) = self.points(py)? {
            answer["trade_off"] = json!(points);
        }
        // This cannot fail: numbers and strings always have a JSON form.
        Ok(serde_json::to_string_pretty(&answer).unwrap_or_default())
    }

    /// The fields of the JSON form.
    #[pyo3(signature = () -> "dict[str, Any]")]
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        verbs::from_json(py, &self.to_json(py)?)
    }

    /// A statement for a reviewer, in Markdown: what the adversary sees, what is protected, what is assumed, and what a test can reach.
    fn statement(&self, py: Python<'_>) -> PyResult<String> {
        let section = self.points(py)?.map_or_else(String::new, TradeOffPoint::section);
        Ok(self.certificate.statement() + &section)
    }

    fn __str__(&self) -> String {
        self.certificate.text()
    }

    fn __repr__(&self) -> String {
        let certificate = &self.certificate;
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
        html::certificate(&self.certificate)
    }
}
