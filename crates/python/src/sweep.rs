//! `sweep`: many plans at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dapple_plan::{Certificate, PlanError, Precision, Solved, Unknown};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping};

use crate::calibration::Number;
use crate::errors::{self, Class};
use crate::request::{Layer, Request};
use crate::verbs::{precision_of, unknown_of};
use crate::worker::{self, Wanted};
use crate::{keywords, table, values};

/// What a row tells beside its values.
const MEASURES: [&str; 5] = ["epsilon", "epsilon_lower", "inclusion_probability", "effective_rate", "steps"];
/// More plans than this are a slip of the pen.
const MAX_POINTS: usize = 100_000;

/// Prices a plan for every combination of some values, on all cores; with `solve_for`, solves each for that unknown instead.
///
/// `over` names the keys that vary, each with its values; the first varies slowest. A row is empty (`None`) where epsilon is too large
/// to report or no value of the unknown reaches the target.
///
/// >>> import dapple
/// >>> table = dapple.sweep(over={"batch": [50, 100], "noise_multiplier": [1.0, 2.0]}, records=3000, epochs=10, delta=1e-5)
/// >>> table.columns[:3], len(table)
/// (['batch', 'noise_multiplier', 'epsilon'], 4)
#[pyfunction]
#[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, over: "Mapping[str, Iterable[Any]]", solve_for = None, precision = 0.001, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]") -> "Table")]
pub(crate) fn sweep<'py>(
    py: Python<'py>,
    plan: Option<&Bound<'py, PyAny>>,
    over: &Bound<'py, PyMapping>,
    solve_for: Option<&str>,
    precision: f64,
    set: Option<&Bound<'py, PyMapping>>,
    values: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let precision = precision_of(py, precision)?;
    let unknown = solve_for.map(|name| unknown_of(py, name)).transpose()?;
    let base = Request::read(plan, set, values)?;
    let axes = axes(over)?;
    let points = combinations(py, &axes)?;
    let jobs = points.iter().map(|point| request(&base, &axes, point)).collect::<PyResult<Vec<_>>>()?;
    let priced = worker::run(py, move |wanted| run(&jobs, unknown, precision, wanted))?.map_err(
        |(index, error)| at_point(py, &axes, points.get(index).map_or(&[], Vec::as_slice), &error),
    )?;
    let rows = points.iter().zip(priced).map(|(point, priced)| row(py, point, priced, unknown.is_some()));
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    let names = axes.iter().map(|axis| axis.name.clone());
    let solved = unknown.map(|unknown| unknown.name().replace('-', "_"));
    let columns = names.chain(solved).chain(MEASURES.map(str::to_owned));
    table::make(py, columns, rows)
}

/// A key and the values it takes.
struct Axis<'py> {
    name: String,
    key: &'static dapple_plan::spec::keys::Key,
    values: Vec<Bound<'py, PyAny>>,
}

fn axes<'py>(over: &Bound<'py, PyMapping>) -> PyResult<Vec<Axis<'py>>> {
    let py = over.py();
    let mut axes: Vec<Axis<'py>> = Vec::new();
    for item in over.items()? {
        let (name, values): (String, Bound<'py, PyAny>) = item.extract()?;
        let key = keywords::resolve(py, &name)?;
        let values = values.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        if axes.iter().any(|axis| axis.key == key) {
            let hint = "give all its values at once, e.g. over={\"crop\": [50, 100, 200]}";
            return Err(errors::raise(py, Class::Plan, &format!("over: {name} is given twice"), Some(hint)));
        }
        axes.push(Axis { name, key, values });
    }
    Ok(axes)
}

/// Every combination, the first axis slowest.
fn combinations<'py>(py: Python<'py>, axes: &[Axis<'py>]) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
    let count = axes.iter().map(|axis| axis.values.len()).try_fold(1usize, usize::checked_mul);
    if count.is_none_or(|count| count > MAX_POINTS) {
        let message = format!("a sweep of more than {MAX_POINTS} plans");
        return Err(errors::raise(py, Class::Plan, &message, Some("take larger steps or fewer axes")));
    }
    Ok(axes.iter().fold(vec![Vec::new()], |rows, axis| {
        let extended = |row: &Vec<Bound<'py, PyAny>>| {
            let row = row.clone();
            axis.values.iter().map(move |value| row.iter().chain([value]).cloned().collect())
        };
        rows.iter().flat_map(extended).collect()
    }))
}

fn request<'py>(base: &Request, axes: &[Axis<'py>], point: &[Bound<'py, PyAny>]) -> PyResult<Request> {
    let mut request = base.clone();
    let mut layer = Layer::default();
    for (axis, value) in axes.iter().zip(point) {
        layer.put(axis.key, value)?;
    }
    if let Some(value) = point.first() {
        request.lay(value.py(), layer)?;
    }
    Ok(request)
}

/// What a plan costs; `None` where epsilon is too large to report, or no value of the unknown reaches the target.
type Priced = Option<(Certificate, Option<Solved>)>;

/// Prices every plan, in their order, once all hold together. The error is that of the first that is wrong.
fn run(
    requests: &[Request],
    unknown: Option<Unknown>,
    precision: Precision,
    wanted: &Wanted,
) -> Result<Vec<Priced>, (usize, PlanError)> {
    let priced = |priced: Result<(Certificate, Option<Solved>), PlanError>| match priced {
        Ok(priced) => Ok(Some(priced)),
        Err(PlanError::Accounting { key: None, .. } | PlanError::Unreachable { .. }) => Ok(None),
        Err(error) => Err(error),
    };
    if let Some(unknown) = unknown {
        return on_all_cores(requests, wanted, |request| {
            let found = dapple_plan::calibrate(&request.spec, &request.masks, unknown, precision);
            priced(found.map(|found| (found.certificate, Some(found.solved))))
        });
    }
    let plans = on_all_cores(requests, wanted, Request::check)?;
    on_all_cores(&plans, wanted, |plan| priced(plan.price(precision).map(|certificate| (certificate, None))))
}

/// Does the work for each item, in any order, and gives the answers in theirs. Fewer answers than items only where they are no
/// longer wanted.
///
/// Threads of this call alone, because a pool would not survive the forks by which data loaders make their workers.
fn on_all_cores<Item: Sync, Done: Send>(
    items: &[Item],
    wanted: &Wanted,
    work: impl Fn(&Item) -> Result<Done, PlanError> + Sync,
) -> Result<Vec<Done>, (usize, PlanError)> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<Done, PlanError>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let worker = || {
        while wanted.still() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(place)) = (items.get(index), done.get(index)) else { return };
            let answer = work(item);
            if answer.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            if let Ok(mut place) = place.lock() {
                *place = Some(answer);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(worker))));
    let answers = done.into_iter().filter_map(|place| place.into_inner().ok().flatten());
    answers.enumerate().map(|(index, answer)| answer.map_err(|error| (index, error))).collect()
}

fn row<'py>(
    py: Python<'py>,
    point: &[Bound<'py, PyAny>],
    priced: Priced,
    solving: bool,
) -> PyResult<Bound<'py, PyList>> {
    let row = PyList::new(py, point)?;
    let (certificate, solved) =
        priced.map_or((None, None), |(certificate, solved)| (Some(certificate), solved));
    if solving {
        row.append(solved.map(|solved| Number::from(solved.value)))?;
    }
    match certificate {
        Some(certificate) => {
            row.append(certificate.epsilon.upper)?;
            row.append(certificate.epsilon.lower)?;
            row.append(certificate.inclusion_probability)?;
            row.append(certificate.effective_rate)?;
            row.append(certificate.steps)?;
        }
        None => MEASURES.iter().try_for_each(|_| row.append(py.None()))?,
    }
    Ok(row)
}

/// Says for which combination a plan is wrong.
fn at_point(py: Python<'_>, axes: &[Axis<'_>], point: &[Bound<'_, PyAny>], error: &PlanError) -> PyErr {
    let value = |value| values::read(value).as_ref().map_or_else(String::new, values::written);
    let pairs = axes.iter().zip(point).map(|(axis, given)| format!("{}={}", axis.name, value(given)));
    let place = pairs.collect::<Vec<_>>().join(", ");
    errors::raise(py, Class::of(error), &format!("at {place}: {error}"), error.hint().as_deref())
}
