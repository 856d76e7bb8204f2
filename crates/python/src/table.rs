//! Makes the answers that have rows.

use pyo3::prelude::*;
use pyo3::types::PyList;

/// A `dapple.Table`.
pub(crate) fn make<'py, Row: IntoPyObject<'py>>(
    py: Python<'py>,
    columns: impl IntoIterator<Item = impl AsRef<str>>,
    rows: impl IntoIterator<Item = Row>,
) -> PyResult<Bound<'py, PyAny>> {
    let columns: Vec<String> = columns.into_iter().map(|name| name.as_ref().to_owned()).collect();
    let table = PyList::empty(py);
    for row in rows {
        table.append(row)?;
    }
    py.import("dapple.table")?.getattr("Table")?.call1((columns, table))
}
