//! `account`, `calibrate`, `profile`.

use dapple_plan::{BracketPrecision, PlanError, Unknown, ranges};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping, PyString};

use crate::calibration::Calibration;
use crate::certificate::PyCertificate;
use crate::errors::{self, Class, Raise};
use crate::request::PlanRequest;
use crate::{table, worker};

/// The precision a call asks for.
pub(crate) fn precision_of(py: Python<'_>, relative: f64) -> PyResult<BracketPrecision> {
    if (1e-5..=0.5).contains(&relative) {
        return Ok(BracketPrecision { relative });
    }
    let hint = "the precision is the width of the bracket over its upper end, e.g. 0.001";
    Err(errors::raise(
        py,
        Class::Plan,
        &format!("precision: {relative} is not between 1e-5 and 0.5"),
        Some(hint),
    ))
}

/// A JSON text as Python objects.
pub(crate) fn from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.getattr("loads")?.call1((text,))
}

/// Prices a plan: epsilon in a certified bracket, and what it protects.
///
/// The plan is given by keywords (the flags of the command line with underscores; `dapple.keywords()` lists them), by `plan` (a
/// `dapple.Plan`, a mapping, or the path of a TOML file), or by both; then keywords are laid over the plan.
///
/// >>> import dapple
/// >>> certificate = dapple.account(batch=100, records=3000, epochs=10, noise_multiplier=1.0, delta=1e-5)
/// >>> certificate.relation, round(certificate.epsilon, 2)
/// ('add-remove', 3.76)
#[pyfunction]
#[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, precision = 0.001, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]"))]
pub(crate) fn account(
    py: Python<'_>,
    plan: Option<&Bound<'_, PyAny>>,
    precision: f64,
    set: Option<&Bound<'_, PyMapping>>,
    values: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyCertificate> {
    let precision = precision_of(py, precision)?;
    let request = PlanRequest::read(plan, set, values)?;
    let priced = worker::run(py, move |_| {
        let plan = request.check()?;
        let certificate = plan.price(precision)?;
        Ok(PyCertificate::of(plan, certificate, precision))
    })?;
    priced.map_err(|error: PlanError| error.raise(py))
}

/// Solves a plan for one unknown: the least noise, or the most of anything else, that keeps epsilon at or below `epsilon`.
///
/// `solve_for` is `noise_multiplier`, `epochs`, `steps`, `batch`, `crop` or `patch`.
///
/// >>> import dapple
/// >>> found = dapple.calibrate("noise_multiplier", epsilon=3, batch=100, records=3000, epochs=10, delta=1e-5)
/// >>> found.epsilon <= 3, found.name
/// (True, 'noise_multiplier')
#[pyfunction]
#[pyo3(signature = (solve_for, plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, precision = 0.001, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]"))]
pub(crate) fn calibrate(
    py: Python<'_>,
    solve_for: &str,
    plan: Option<&Bound<'_, PyAny>>,
    precision: f64,
    set: Option<&Bound<'_, PyMapping>>,
    values: Option<&Bound<'_, PyDict>>,
) -> PyResult<Calibration> {
    let precision = precision_of(py, precision)?;
    let unknown = unknown_of(py, solve_for)?;
    let request = PlanRequest::read(plan, set, values)?;
    let job = request.clone();
    let found = worker::run(py, move |_| dapple_plan::calibrate(&job.spec, &job.masks, unknown, precision))?;
    Calibration::new(py, request, found.map_err(|error| error.raise(py))?, precision)
}

/// The unknown of a name, with dashes or underscores.
pub(crate) fn unknown_of(py: Python<'_>, name: &str) -> PyResult<Unknown> {
    let dashed = name.replace('_', "-");
    Unknown::ALL.into_iter().find(|unknown| unknown.name() == dashed).ok_or_else(|| {
        let names: Vec<String> =
            Unknown::ALL.iter().map(|unknown| unknown.name().replace('-', "_")).collect();
        let hint = format!("solve for {}", names.join(", "));
        errors::raise(py, Class::Plan, &format!("solve_for: `{name}` is nothing to solve for"), Some(&hint))
    })
}

/// The privacy profile of a plan: for each epsilon the delta it guarantees, and a lower bound on the exact one.
///
/// `epsilons` are numbers, or a text as on the command line (`"0:2:21"` means 21 numbers from 0 to 2). Without them, 41 numbers up to
/// twice the plan's own epsilon are taken.
///
/// >>> import dapple
/// >>> table = dapple.profile(batch=100, records=3000, epochs=10, noise_multiplier=1.0, epsilons=[1.0, 2.0])
/// >>> table.columns
/// ['epsilon', 'delta', 'delta_lower']
#[pyfunction]
#[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, epsilons: "Iterable[float] | str | None" = None, precision = 0.001, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]") -> "Table")]
pub(crate) fn profile<'py>(
    py: Python<'py>,
    plan: Option<&Bound<'py, PyAny>>,
    epsilons: Option<&Bound<'py, PyAny>>,
    precision: f64,
    set: Option<&Bound<'py, PyMapping>>,
    values: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let precision = precision_of(py, precision)?;
    let epsilons = epsilons.map(places).transpose()?;
    let mut request = PlanRequest::read(plan, set, values)?;
    request.spec = request.spec.for_profile();
    let points = worker::run(py, move |_| request.check()?.profile(epsilons, precision))?
        .map_err(|error: PlanError| error.raise(py))?;
    let rows = points.into_iter().map(|point| [point.epsilon, point.delta, point.delta_lower]);
    table::make(py, ["epsilon", "delta", "delta_lower"], rows)
}

/// Where a profile is evaluated.
fn places(object: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    match object.cast::<PyString>() {
        Ok(text) => ranges::points("epsilons", text.to_str()?).map_err(|error| error.raise(object.py())),
        Err(_) => numbers(object),
    }
}

/// The numbers of any iterable.
pub(crate) fn numbers(object: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    object.try_iter()?.map(|item| item?.extract()).collect()
}
