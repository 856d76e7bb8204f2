//! The server's and the client's part of federated learning, for `dapple.flower`.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dapple_train::{
    ClientSteps, FederatedCertificate, FederatedModel, FederatedRun, LocalTrainer, Status, TrainError,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::certificate::PyCertificate;
use crate::errors::Raise;
use crate::request::PlanRequest;
use crate::{html, verbs};

/// Name and shape of each array of a model, in order.
type Arrays = Vec<(String, Vec<usize>)>;

/// Numbers in single precision, four bytes each.
fn values(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|four| f32::from_le_bytes(*four)).collect()
}

fn bytes<'py>(py: Python<'py>, values: &[f32]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    PyBytes::new(py, &bytes)
}

/// The server's part of a federated run: its ledger, its coins, its clipping and its noise. `dapple.flower.Strategy` is what to use.
#[pyclass(name = "FederatedRun", module = "dapple", frozen)]
pub(crate) struct PyFederatedRun(Mutex<FederatedRun>);

impl PyFederatedRun {
    fn held(&self) -> MutexGuard<'_, FederatedRun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the run, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&mut FederatedRun) -> Result<T, TrainError> + Send,
    ) -> PyResult<T> {
        py.detach(|| job(&mut self.held())).map_err(|error| error.raise(py))
    }
}

#[pymethods]
impl PyFederatedRun {
    /// Begins a run in an empty or new folder, for a model of these arrays and values.
    #[staticmethod]
    #[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str]", folder: "str | PathLike[str]", arrays: "list[tuple[str, list[int]]]", first: "bytes", /))]
    fn start(
        py: Python<'_>,
        plan: &Bound<'_, PyAny>,
        folder: PathBuf,
        arrays: Arrays,
        first: &[u8],
    ) -> PyResult<Self> {
        let spec = PlanRequest::read(Some(plan), None, None)?.spec;
        let first = values(first);
        let begun = py.detach(|| {
            let model = FederatedModel::new(arrays, first)?;
            FederatedRun::start(&spec, &folder, model)
        });
        begun.map(|run| Self(Mutex::new(run))).map_err(|error| error.raise(py))
    }

    /// Goes on with a run that was stopped or killed. Rounds that were promised stay spent.
    #[staticmethod]
    #[pyo3(signature = (folder: "str | PathLike[str]", /))]
    fn resume(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        let again = py.detach(|| FederatedRun::resume(&folder));
        again.map(|run| Self(Mutex::new(run))).map_err(|error| error.raise(py))
    }

    /// Rounds of the plan.
    #[getter]
    fn rounds(&self) -> u64 {
        self.held().plan().steps()
    }

    /// Rounds that count as taken.
    #[getter]
    fn rounds_spent(&self) -> u64 {
        self.held().rounds_spent()
    }

    /// Clients that the plan declares.
    #[getter]
    fn clients(&self) -> u64 {
        self.held().plan().records()
    }

    /// Name and shape of each array of the model, in order.
    #[getter]
    fn arrays(&self) -> Arrays {
        self.held().model().arrays().to_vec()
    }

    /// The values of the model after the last round that was kept, four bytes each.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        bytes(py, self.held().model().values())
    }

    /// Promises the next round on disk, and then draws its clients, of which `online` are there.
    fn promise(&self, py: Python<'_>, online: u64) -> PyResult<Vec<usize>> {
        self.with(py, |run| run.promise(online))
    }

    /// Clips and adds what a client sends. The answer is false if it was of no use, and added zero.
    #[pyo3(signature = (client, update: "bytes", /))]
    fn add(&self, py: Python<'_>, client: usize, update: &[u8]) -> PyResult<bool> {
        let update = values(update);
        self.with(py, |run| run.add(client, &update)).map(|added| added.is_some())
    }

    /// Closes the round: the noisy sum divided by the expected number of clients.
    fn finish_round<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(bytes(py, &self.with(py, FederatedRun::finish_round)?))
    }

    /// Keeps the model that follows from the rounds so far.
    #[pyo3(signature = (model: "bytes", /))]
    fn keep(&self, py: Python<'_>, model: &[u8]) -> PyResult<()> {
        let model = values(model);
        self.with(py, |run| run.keep(&model))
    }

    /// Writes down that the run stops here.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, FederatedRun::stop)
    }

    /// The certificate of the rounds that count as taken.
    fn certificate(&self, py: Python<'_>) -> PyResult<PyFederatedCertificate> {
        self.with(py, |run| run.certificate()).map(PyFederatedCertificate)
    }
}

/// What a federated run promised and what it spent, at the level of clients. `spent` covers every model that the run released, by its ledger.
#[pyclass(name = "FederatedCertificate", module = "dapple", frozen, eq)]
#[derive(Clone, PartialEq)]
pub(crate) struct PyFederatedCertificate(FederatedCertificate);

#[pymethods]
impl PyFederatedCertificate {
    /// The certificate of the run in a folder, from its plan and its ledger.
    #[staticmethod]
    #[pyo3(signature = (folder: "str | PathLike[str]", /))]
    fn of(py: Python<'_>, folder: PathBuf) -> PyResult<Self> {
        py.detach(|| dapple_train::certify_federated(&folder)).map(Self).map_err(|error| error.raise(py))
    }

    /// Whether the run goes on: `running`, `stopped` or `finished`.
    #[getter]
    fn status(&self) -> &'static str {
        status(self.0.status)
    }

    /// Whom the clients trust, in words.
    #[getter]
    fn trust(&self) -> &str {
        &self.0.trust
    }

    /// What a reader must know before relying on the certificate.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.iter().map(ToString::to_string).collect()
    }

    /// Rounds that count as taken.
    #[getter]
    fn rounds_spent(&self) -> u64 {
        self.0.rounds_spent
    }

    /// An upper bound on epsilon for every model that the run released; 0 before the first round.
    #[getter]
    fn epsilon(&self) -> f64 {
        self.0.spent.as_ref().map_or(0.0, |spent| spent.epsilon.upper)
    }

    /// The price of the rounds that count as taken; `None` before the first.
    #[getter]
    fn spent(&self) -> Option<PyCertificate> {
        self.0.spent.clone().map(PyCertificate::from)
    }

    /// The price of all rounds of the plan.
    #[getter]
    fn planned(&self) -> PyCertificate {
        self.0.planned.clone().into()
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
        format!(
            "FederatedCertificate(status='{}', rounds_spent={}, epsilon={})",
            self.status(),
            self.0.rounds_spent,
            dapple_plan::number::up(self.epsilon(), 4)
        )
    }

    fn _repr_html_(&self) -> String {
        html::federated_certificate(&self.0, self.status())
    }
}

/// The word for a status.
pub(crate) fn status(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Stopped => "stopped",
        Status::Finished => "finished",
    }
}

/// A model of the zoo that a client trains with plain gradient descent. It knows nothing of privacy: the server clips and adds the noise.
///
/// `plan` names the model in its section `model`; `shape` is `[channels, height, width]`. Arrays of numbers are bytes, four for each value.
#[pyclass(name = "LocalTrainer", module = "dapple", frozen)]
pub(crate) struct PyLocalTrainer(Mutex<LocalTrainer>);

impl PyLocalTrainer {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&mut LocalTrainer) -> Result<T, TrainError> + Send,
    ) -> PyResult<T> {
        py.detach(|| job(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
            .map_err(|error| error.raise(py))
    }
}

#[pymethods]
impl PyLocalTrainer {
    #[new]
    #[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str]", shape, classes, *, threads = 1))]
    fn new(
        py: Python<'_>,
        plan: &Bound<'_, PyAny>,
        shape: Vec<usize>,
        classes: usize,
        threads: usize,
    ) -> PyResult<Self> {
        let PlanRequest { spec, base, .. } = PlanRequest::read(Some(plan), None, None)?;
        let made = py.detach(|| LocalTrainer::new(&spec.model, &base, (&shape, classes), threads));
        made.map(|trainer| Self(Mutex::new(trainer))).map_err(|error| error.raise(py))
    }

    /// Name and shape of each array that trains, in order.
    #[getter]
    fn arrays(&self, py: Python<'_>) -> PyResult<Arrays> {
        self.with(py, |trainer| Ok(trainer.arrays()))
    }

    /// The values that train: the first weights, or those that were set or trained last.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(bytes(py, &self.with(py, |trainer| Ok(trainer.values()))?))
    }

    /// Takes these values.
    #[pyo3(signature = (model: "bytes", /))]
    fn set(&self, py: Python<'_>, model: &[u8]) -> PyResult<()> {
        let model = values(model);
        self.with(py, |trainer| Ok(trainer.set(&model)?))
    }

    /// Takes steps of gradient descent on records that are drawn anew for each.
    #[pyo3(signature = (inputs: "bytes", labels, *, steps, batch, learning_rate))]
    fn train(
        &self,
        py: Python<'_>,
        inputs: &[u8],
        labels: Vec<u32>,
        steps: usize,
        batch: usize,
        learning_rate: f64,
    ) -> PyResult<()> {
        let inputs = values(inputs);
        let steps = ClientSteps { steps, batch, learning_rate };
        self.with(py, |trainer| trainer.train(&inputs, &labels, steps))
    }

    /// The share of records whose likeliest class is their own.
    #[pyo3(signature = (inputs: "bytes", labels))]
    fn accuracy(&self, py: Python<'_>, inputs: &[u8], labels: Vec<u32>) -> PyResult<f64> {
        let inputs = values(inputs);
        self.with(py, |trainer| trainer.accuracy(&inputs, &labels))
    }
}
