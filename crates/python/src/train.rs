//! `train` and `resume`, and what a run folder says.

use std::path::{Path, PathBuf};

use dapple_plan::PlanSpec;
use dapple_plan::spec::Performance;
use dapple_train::{Launch, Request, RunOutcome, TrainError, Within};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use crate::errors::{self, Class, Raise};
use crate::event::{CallingObserver, Told};
use crate::mask;
use crate::plan::PyPlan;
use crate::request::PlanRequest;
use crate::run_certificate::PyRunCertificate;
use crate::worker;

/// What comes of a run that was carried through, or of one that was not.
type Carried = Result<RunOutcome, TrainError>;

/// Trains a model by a plan, certifies what it spent, and leaves a run folder: what `dapple train` does.
///
/// `plan` is a mapping, the path of a TOML file or a `dapple.Plan`, with sections `data`, `model` and `optimiser`; keywords and `set` are
/// laid over it. Paths in a plan are relative to its file. `out` is a folder that holds no run yet.
///
/// `progress` is called with a `dapple.TrainingEvent` at every event. If it returns `False`, raises, or is interrupted, the run ends in
/// order, ready for `dapple.resume`. `budget` counts the run in a budget, whose total is `epsilon_total`.
#[pyfunction]
#[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, out: "str | PathLike[str]", progress: "Callable[[TrainingEvent], object] | None" = None, budget: "str | PathLike[str] | None" = None, epsilon_total = None, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]") -> "Run")]
#[allow(clippy::too_many_arguments)]
pub(crate) fn train<'py>(
    py: Python<'py>,
    plan: Option<&Bound<'py, PyAny>>,
    out: PathBuf,
    progress: Option<Py<PyAny>>,
    budget: Option<PathBuf>,
    epsilon_total: Option<f64>,
    set: Option<&Bound<'py, PyMapping>>,
    values: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    refuse_launchers(py)?;
    let PlanRequest { spec, masks, base, .. } = PlanRequest::read(plan, set, values)?;
    let request = Request { spec, base, masks };
    let within = within(py, budget, epsilon_total)?;
    let folder = out.clone();
    watched(py, progress, move |observer| {
        dapple_train::start_within(&request, &folder, within.as_ref(), observer)
    })?;
    run_of(py, &out)
}

/// Goes on with a run that was stopped or killed; steps that were promised before stay spent. A run that is complete is left as it is.
///
/// `set` changes settings of speed and memory: `{"performance.threads": 1}`.
#[pyfunction]
#[pyo3(signature = (folder: "str | PathLike[str] | Run", /, *, progress: "Callable[[TrainingEvent], object] | None" = None, budget: "str | PathLike[str] | None" = None, epsilon_total = None, set: "Mapping[str, Any] | None" = None) -> "Run")]
pub(crate) fn resume<'py>(
    py: Python<'py>,
    folder: PathBuf,
    progress: Option<Py<PyAny>>,
    budget: Option<PathBuf>,
    epsilon_total: Option<f64>,
    set: Option<&Bound<'py, PyMapping>>,
) -> PyResult<Bound<'py, PyAny>> {
    refuse_launchers(py)?;
    let performance = performance(py, set)?;
    let within = within(py, budget, epsilon_total)?;
    let place = folder.clone();
    watched(py, progress, move |observer| {
        dapple_train::resume_within(&place, &performance, within.as_ref(), observer)
    })?;
    run_of(py, &folder)
}

/// Refuses to carry a run through in each of several processes that a launcher started, which would be as many runs.
fn refuse_launchers(py: Python<'_>) -> PyResult<()> {
    let Some(launch) = Launch::detect().filter(Launch::tells_of_others) else { return Ok(()) };
    let several = launch.size.map_or_else(|| "several".to_owned(), |size| size.to_string());
    let message = format!("{several} processes were started, and each would begin a run of its own");
    let hint = "start Python without a launcher; only `dapple train` and `dapple resume` on the command line share a run among processes";
    Err(errors::raise(py, Class::Run, &message, Some(hint)))
}

/// The settings of speed and memory in a mapping, which holds nothing else.
pub(crate) fn performance(py: Python<'_>, set: Option<&Bound<'_, PyMapping>>) -> PyResult<Performance> {
    let spec = PlanRequest::read(None, set, None)?.spec;
    let performance = spec.performance.clone();
    if spec != (PlanSpec { performance: performance.clone(), ..PlanSpec::default() }) {
        let hint = "what else a run does is in its plan, which never changes: start another run";
        let message = "set: only keys of `performance` can change from here on";
        return Err(errors::raise(py, Class::Plan, message, Some(hint)));
    }
    Ok(performance)
}

fn within(py: Python<'_>, file: Option<PathBuf>, total: Option<f64>) -> PyResult<Option<Within>> {
    if file.is_none() && total.is_some() {
        let hint = "name the file of the budget: budget=\"budget.jsonl\"";
        return Err(errors::raise(py, Class::Plan, "epsilon_total is that of a budget", Some(hint)));
    }
    Ok(file.map(|file| Within { file, total }))
}

/// Carries a run through, and calls back.
fn watched(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    job: impl FnOnce(&mut CallingObserver<'_, Carried>) -> Carried + Send + 'static,
) -> PyResult<RunOutcome> {
    let told = progress.is_some();
    let carried = worker::run_in_order(
        py,
        move |wanted, teller| job(&mut CallingObserver { wanted, teller: told.then_some(teller) }),
        |py, word: Told| progress.as_ref().map_or(Ok(()), |progress| word.call(py, progress)),
    )?;
    carried.map_err(|error| error.raise(py))
}

/// The `dapple.Run` of a folder.
fn run_of<'py>(py: Python<'py>, folder: &Path) -> PyResult<Bound<'py, PyAny>> {
    py.import("dapple.run")?.getattr("Run")?.call1((folder,))
}

/// The certificate of a run folder: what its ledger counts.
#[pyfunction]
#[pyo3(signature = (folder: "str | PathLike[str]", /))]
pub(crate) fn certify(py: Python<'_>, folder: PathBuf) -> PyResult<PyRunCertificate> {
    let certificate = worker::run(py, move |_| dapple_train::certify(&folder))?;
    certificate.map(PyRunCertificate::from).map_err(|error| error.raise(py))
}

/// The plan of a run folder, with everything filled in.
#[pyfunction]
#[pyo3(signature = (folder: "str | PathLike[str]", /))]
pub(crate) fn plan_of_run(py: Python<'_>, folder: PathBuf) -> PyResult<PyPlan> {
    let spec = dapple_train::plan_of_run(&folder).map_err(|error| error.raise(py))?;
    let path = folder.join("mask.pgm");
    let masks = if path.exists() { vec![mask::read(py, &path)?] } else { Vec::new() };
    PyPlan::check(py, PlanRequest::with_masks(spec, masks))
}
