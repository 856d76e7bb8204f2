//! `sweep`: many plans at once.

use std::borrow::Cow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dapple_plan::ranges::{self, Written};
use dapple_plan::sweep::{self as grid, PricedCombination, SweepAxis, SweepMeasure};
use dapple_plan::{BracketPrecision, PlanError, Unknown};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyString};

use crate::errors::Raise;
use crate::request::{Layer, PlanRequest};
use crate::verbs::{precision_of, unknown_of};
use crate::worker::{self, Wanted};
use crate::{keywords, table, values};

/// Prices a plan for every combination of some values, on all cores. With `solve_for`, solves each plan for that unknown instead.
///
/// `over` names the keys that vary, each with its values or with a text as on the command line (`"50:700:50"`, `"64,128"`). The first key
/// varies slowest. A row has no answers (`None`) where epsilon is too large to report or no value of the unknown reaches the target.
///
/// >>> import dapple
/// >>> table = dapple.sweep(over={"batch": [50, 100], "noise_multiplier": [1.0, 2.0]}, records=3000, epochs=10, delta=1e-5)
/// >>> table.columns[:3], len(table)
/// (['batch', 'noise_multiplier', 'epsilon'], 4)
#[pyfunction]
#[pyo3(signature = (plan: "Plan | Mapping[str, Any] | str | PathLike[str] | None" = None, /, *, over: "Mapping[str, Iterable[Any] | str]", solve_for = None, precision = 0.001, set: "Mapping[str, Any] | None" = None, **values: "Unpack[PlanKeywords]") -> "Table")]
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
    let base = PlanRequest::read(plan, set, values)?;
    let (names, axes): (Vec<String>, Vec<SweepAxis<_>>) = axes(over)?.into_iter().unzip();
    let points = grid::combinations(&axes).map_err(|error| error.raise(py))?;
    let jobs = points.iter().map(|point| request(&base, &axes, point)).collect::<PyResult<Vec<_>>>()?;
    // Plans that leave their noise or their steps to epsilon are solved for them, as training would.
    let unknown = unknown.or_else(|| jobs.first()?.spec.left_to_epsilon());
    let priced = worker::run(py, move |wanted| run(&jobs, unknown, precision, wanted))?.map_err(
        |(index, error)| {
            let point = points.get(index).map_or(&[][..], Vec::as_slice);
            grid::at(&axes, point, written, error).raise(py)
        },
    )?;
    let rows = points.iter().zip(priced).map(|(point, priced)| row(py, point, priced.as_ref(), unknown));
    let rows = rows.collect::<PyResult<Vec<_>>>()?;
    let measured = grid::measured(unknown).map(|name| name.replace('-', "_"));
    let names = names.into_iter().map(|name| match grid::asked(&name.replace('_', "-"), unknown) {
        Cow::Owned(asked) => asked.replace('-', "_"),
        Cow::Borrowed(_) => name,
    });
    table::make(py, names.chain(measured), rows)
}

/// The keys that vary, with their names as they were given.
fn axes<'py>(over: &Bound<'py, PyMapping>) -> PyResult<Vec<(String, SweepAxis<Bound<'py, PyAny>>)>> {
    let py = over.py();
    let axis = |item: Bound<'py, PyAny>| {
        let (name, values): (String, Bound<'py, PyAny>) = item.extract()?;
        let key = keywords::resolve(py, &name)?;
        let values = match values.cast::<PyString>() {
            Ok(text) => {
                let found = ranges::values(&name, text.to_str()?).map_err(|error| error.raise(py))?;
                found.iter().map(|value| value_of(py, value)).collect::<PyResult<_>>()?
            }
            Err(_) => values.try_iter()?.collect::<PyResult<_>>()?,
        };
        Ok((name, SweepAxis { key, values }))
    };
    over.items()?.into_iter().map(axis).collect()
}

/// A value of a text as Python has it.
fn value_of<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    match Written::read(text) {
        Written::Whole(whole) => Ok(whole.into_pyobject(py)?.into_any()),
        Written::Real(real) => Ok(real.into_pyobject(py)?.into_any()),
        Written::Text(text) => Ok(text.into_pyobject(py)?.into_any()),
    }
}

/// A value as it reads in a sentence.
fn written(value: &Bound<'_, PyAny>) -> String {
    values::read(value).as_ref().map_or_else(String::new, values::written)
}

fn request<'py>(
    base: &PlanRequest,
    axes: &[SweepAxis<Bound<'py, PyAny>>],
    point: &[Bound<'py, PyAny>],
) -> PyResult<PlanRequest> {
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

/// Prices every plan, in order, once all have been checked. An error is that of the first plan that is wrong.
fn run(
    requests: &[PlanRequest],
    unknown: Option<Unknown>,
    precision: BracketPrecision,
    wanted: &Wanted,
) -> Result<Vec<Option<PricedCombination>>, (usize, PlanError)> {
    if let Some(unknown) = unknown {
        return on_all_cores(requests, wanted, |request| {
            grid::solve(&request.spec, &request.masks, unknown, precision)
        });
    }
    let plans = on_all_cores(requests, wanted, PlanRequest::check)?;
    on_all_cores(&plans, wanted, |plan| grid::price(plan, precision))
}

/// Does the work for each item, in any order, and returns the answers in the order of the items. There are fewer answers than items only
/// if they are no longer wanted.
///
/// The threads live only as long as this call, because a pool would not survive the forks by which data loaders make their workers.
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
    priced: Option<&PricedCombination>,
    unknown: Option<Unknown>,
) -> PyResult<Bound<'py, PyList>> {
    let row = PyList::new(py, point)?;
    for measure in grid::measures(priced, unknown) {
        match measure {
            None => row.append(py.None())?,
            Some(SweepMeasure::Whole(value)) => row.append(value)?,
            Some(SweepMeasure::Upper(value) | SweepMeasure::Lower(value)) => row.append(value)?,
        }
    }
    Ok(row)
}
