//! Python values as values of a plan.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyMapping, PyString};
use toml::{Table, Value};

/// The value as TOML has it: a number, a text (or a path), or a sequence or mapping of these. `None` for anything else.
pub(crate) fn read(object: &Bound<'_, PyAny>) -> Option<Value> {
    if let Ok(text) = object.cast::<PyString>() {
        return text.to_str().ok().map(|text| Value::String(text.to_owned()));
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Some(Value::Boolean(flag.is_true()));
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return Some(Value::Float(number.value()));
    }
    if let Ok(whole) = object.cast::<PyInt>() {
        return Some(integer(whole));
    }
    if let Ok(mapping) = object.cast::<PyMapping>() {
        let entry = |item: Bound<'_, PyAny>| {
            let (name, value): (String, Bound<'_, PyAny>) = item.extract().ok()?;
            Some((name, read(&value)?))
        };
        return mapping.items().ok()?.into_iter().map(entry).collect::<Option<Table>>().map(Value::Table);
    }
    if let Ok(path) = object.call_method0("__fspath__") {
        return read(&path);
    }
    // Try sequences before the scalars of array libraries, because an array of one element is both.
    if let Ok(items) = object.try_iter() {
        return items.map(|item| read(&item.ok()?)).collect::<Option<Vec<_>>>().map(Value::Array);
    }
    if let Ok(whole) = object.call_method0("__index__") {
        return whole.cast::<PyInt>().ok().map(integer);
    }
    object.extract::<f64>().ok().map(Value::Float)
}

/// A whole number. One that is too large stays text, which the plan refuses with a proper message.
fn integer(whole: &Bound<'_, PyInt>) -> Value {
    whole.extract::<i64>().map_or_else(|_| Value::String(whole.to_string()), Value::Integer)
}

/// The value as it would be written behind a flag.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
