//! Keyword arguments: the keys of a plan under Python names, taken from the one table of keys.

use dapple_plan::spec::keys::{self, KEYS, Key, Kind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, Class};
use crate::mask;

/// The key of a keyword.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| of(key).is_some_and(|own| same(own, name)))
}

/// The key of a keyword, a flag name or a dotted path.
pub(crate) fn resolve(py: Python<'_>, name: &str) -> PyResult<&'static Key> {
    find(name).or_else(|| keys::resolve(name)).ok_or_else(|| unknown(py, name))
}

/// The error of a name that is no keyword, with the keywords that look like it.
pub(crate) fn unknown(py: Python<'_>, name: &str) -> PyErr {
    let near: Vec<String> = keys::near(name)
        .into_iter()
        .map(|path| keys::find(path).and_then(of).map_or_else(|| path.to_owned(), python_name))
        .collect();
    let hint = match near.as_slice() {
        [] => "keywords are the flags of the command line with underscores; dapple.keywords() lists them"
            .to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    errors::raise(py, Class::Plan, &format!("unknown key `{name}`"), Some(&hint))
}

/// The keyword of a key, but for its dashes: its flag, or its own name in a section that has flags. The other sections say what is
/// trained, not what is priced, and their keys are given with dots.
fn of(key: &Key) -> Option<&'static str> {
    let has_flags = || KEYS.iter().any(|other| other.section() == key.section() && other.flag.is_some());
    key.flag.or_else(|| has_flags().then(|| key.name()))
}

fn python_name(name: &str) -> String {
    name.replace('-', "_")
}

fn same(own: &str, name: &str) -> bool {
    own.len() == name.len() && own.bytes().zip(name.bytes()).all(|(a, b)| a == b || (a == b'-' && b == b'_'))
}

/// Every keyword argument that describes a plan, with its dotted key, its type, its meaning, and what holds if it is not given.
///
/// >>> import dapple
/// >>> dapple.keywords()["noise_multiplier"]["key"]
/// 'privacy.noise_multiplier'
#[pyfunction]
#[pyo3(signature = () -> "dict[str, dict[str, str]]")]
pub(crate) fn keywords(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for key in KEYS {
        let Some(name) = of(key) else { continue };
        let facts = PyDict::new(py);
        facts.set_item("key", key.path)?;
        facts.set_item("type", annotation(key))?;
        facts.set_item("meaning", key.meaning)?;
        facts.set_item("default", key.default.unwrap_or_default())?;
        all.set_item(python_name(name), facts)?;
    }
    Ok(all)
}

/// The Python type of a key.
fn annotation(key: &Key) -> String {
    if key.path == mask::KEY {
        return "str | PathLike[str] | Buffer | Sequence[Buffer]".to_owned();
    }
    if !key.choices.is_empty() {
        let words: Vec<String> = key.choices.iter().map(|word| format!("\"{word}\"")).collect();
        return format!("Literal[{}]", words.join(", "));
    }
    let kind = match key.kind {
        Kind::Word | Kind::Text | Kind::File | Kind::Device => "str",
        Kind::Switch => "bool",
        Kind::Whole => "int",
        Kind::Real => "float",
        Kind::Delta => "float | str",
        Kind::Bands => "int | str",
        Kind::Size => "int | tuple[int, int] | str",
        Kind::Range => "tuple[float, float] | str",
        Kind::Sizes => "str",
        Kind::Texts => "Sequence[str]",
        Kind::Wholes => "Sequence[int]",
        Kind::Reals => "Sequence[float]",
        Kind::Shares => "Sequence[tuple[int, float]]",
    };
    kind.to_owned()
}
