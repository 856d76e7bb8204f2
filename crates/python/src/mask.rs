//! Masks from arrays and from pictures.

use std::path::Path;

use dapple_data::{DataLimits, formats};
use dapple_geometry::{Mask, Size};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyTuple};

use crate::errors::{self, Class, Raise};

/// The key of a plan that names a mask.
pub(crate) const KEY: &str = "region.mask";

/// What a plan calls a mask that comes from an array and has no file.
pub(crate) const ARRAY: &str = "an array";

/// The masks of an array or of a sequence of arrays; `None` if the object is neither.
pub(crate) fn from_arrays(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Mask>>> {
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let views = object
            .try_iter()?
            .map(|item| Ok(PyMemoryView::from(&item?).ok()))
            .collect::<PyResult<Option<Vec<_>>>>()?;
        return views.map(|views| views.iter().map(from_view).collect()).transpose();
    }
    match PyMemoryView::from(object) {
        Ok(view) => Ok(Some(vec![from_view(&view)?])),
        Err(_) => Ok(None),
    }
}

/// The mask of an array of one byte a pixel, `[height, width]`, in any memory layout.
fn from_view(view: &Bound<'_, PyMemoryView>) -> PyResult<Mask> {
    let py = view.py();
    let shape: Vec<u32> = view.getattr("shape")?.extract().unwrap_or_default();
    let bytes_each: usize = view.getattr("itemsize")?.extract()?;
    let &[height, width] = shape.as_slice() else { return Err(wrong(py, "not an array of two dimensions")) };
    if bytes_each != 1 {
        return Err(wrong(py, &format!("an array of {bytes_each} bytes a pixel")));
    }
    let bytes = view.call_method0("tobytes")?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes().to_vec();
    Size::named("mask", width, height)
        .and_then(|size| Mask::from_bytes(size, bytes))
        .map_err(|error| wrong(py, &error.to_string()))
}

fn wrong(py: Python<'_>, problem: &str) -> PyErr {
    let hint = "give an array of bool or uint8, [height, width], in which every value but 0 is private";
    errors::raise(py, Class::Plan, &format!("region.mask (--region-mask): {problem}"), Some(hint))
}

/// The mask of a PNG picture.
pub(crate) fn read(py: Python<'_>, path: &Path) -> PyResult<Mask> {
    formats::read_mask(path, &DataLimits::default()).map_err(|error| error.raise(py))
}
