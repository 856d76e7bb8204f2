//! Raises errors as Python exceptions, with the words and hints of the command line, in which flags are keyword arguments.

use dapple_data::DataError;
use dapple_geometry::GeometryError;
use dapple_plan::PlanError;
use dapple_train::TrainError;
use pyo3::prelude::*;

use crate::words::in_python;

/// The exceptions of `dapple.errors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Plan,
    NoTheorem,
    UnsoundPipeline,
    Accounting,
    Unreachable,
    Run,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Plan => "PlanError",
            Self::NoTheorem => "NoTheoremError",
            Self::UnsoundPipeline => "UnsoundPipelineError",
            Self::Accounting => "AccountingError",
            Self::Unreachable => "UnreachableError",
            Self::Run => "RunError",
        }
    }

    fn of(error: &PlanError) -> Self {
        match error {
            PlanError::Phase { source, .. } | PlanError::At { source, .. } => Self::of(source),
            PlanError::NoTheorem { .. } => Self::NoTheorem,
            PlanError::Geometry { source: GeometryError::SpreadsOverImage { .. }, .. } => {
                Self::UnsoundPipeline
            }
            PlanError::Accounting { .. } => Self::Accounting,
            PlanError::Unreachable { .. } => Self::Unreachable,
            _ => Self::Plan,
        }
    }
}

/// Makes an exception of `dapple.errors` with its hint.
pub(crate) fn raise(py: Python<'_>, class: Class, message: &str, hint: Option<&str>) -> PyErr {
    let made =
        || py.import("dapple.errors")?.getattr(class.name())?.call1((one_line(message), hint.map(one_line)));
    match made() {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// Brings a message to one line, as on the command line, and to Python's words.
fn one_line(text: &str) -> String {
    in_python(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// An error that has a Python exception.
pub(crate) trait Raise {
    /// The exception.
    fn raise(self, py: Python<'_>) -> PyErr;
}

impl Raise for PlanError {
    fn raise(self, py: Python<'_>) -> PyErr {
        raise(py, Class::of(&self), &self.to_string(), self.hint().as_deref())
    }
}

impl Raise for DataError {
    fn raise(self, py: Python<'_>) -> PyErr {
        raise(py, Class::Plan, &self.to_string(), self.hint().as_deref())
    }
}

impl Raise for TrainError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let class = match &self {
            Self::Plan(error) => Class::of(error),
            Self::Data(_) | Self::Setting { .. } => Class::Plan,
            _ => Class::Run,
        };
        raise(py, class, &self.to_string(), self.hint().as_deref())
    }
}
