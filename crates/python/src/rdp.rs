//! The class `Rdp`.

use dapple_accounting::AccountingError;
use dapple_accounting::rdp::{Conversion, Rdp};
use dapple_plan::PlanError;
use pyo3::prelude::*;

use crate::errors::Raise;
use crate::verbs::numbers;

/// The Rényi divergences of a mechanism as a function of their order: a second opinion that shares no code with `Pld`.
///
/// >>> import dapple
/// >>> run = dapple.Rdp.poisson_gaussian(sample_rate=0.01, noise_multiplier=1.0).self_compose(1000)
/// >>> [round(divergence, 4) for divergence in run.curve([2, 8, 32])]
/// [0.1718, 0.8936, 11246.2759]
/// >>> run.epsilon(1e-5) >= dapple.Pld.poisson_gaussian(0.01, 1.0).self_compose(1000).epsilon_bracket(1e-5)[0]
/// True
#[pyclass(name = "Rdp", module = "dapple", frozen)]
pub(crate) struct PyRdp(Rdp);

fn made(py: Python<'_>, rdp: Result<Rdp, AccountingError>) -> PyResult<PyRdp> {
    rdp.map(PyRdp).map_err(|error| PlanError::from(error).raise(py))
}

fn answered<T>(py: Python<'_>, answer: Result<T, AccountingError>) -> PyResult<T> {
    answer.map_err(|error| PlanError::from(error).raise(py))
}

#[pymethods]
impl PyRdp {
    /// The Gaussian mechanism: two normals whose means differ by `sensitivity` at a standard deviation of `noise_multiplier`.
    #[staticmethod]
    #[pyo3(signature = (noise_multiplier, *, sensitivity = 1.0))]
    fn gaussian(py: Python<'_>, noise_multiplier: f64, sensitivity: f64) -> PyResult<Self> {
        made(py, Rdp::gaussian(sensitivity, noise_multiplier))
    }

    /// The Laplace mechanism with pure privacy parameter `epsilon`.
    #[staticmethod]
    fn laplace(py: Python<'_>, epsilon: f64) -> PyResult<Self> {
        made(py, Rdp::laplace(epsilon))
    }

    /// One step of DP-SGD with Poisson sampling, where records are added or removed.
    #[staticmethod]
    fn poisson_gaussian(py: Python<'_>, sample_rate: f64, noise_multiplier: f64) -> PyResult<Self> {
        made(py, Rdp::poisson_gaussian(sample_rate, noise_multiplier))
    }

    /// Both mechanisms on the same data.
    fn compose(&self, other: &Self) -> Self {
        Self(self.0.compose(&other.0))
    }

    /// The mechanism run `count` times.
    fn self_compose(&self, count: u64) -> Self {
        Self(self.0.self_compose(count))
    }

    /// The divergence at each of the orders, which must be above 1. Of the two directions, the larger one counts.
    #[pyo3(signature = (orders: "Iterable[float]"))]
    fn curve(&self, py: Python<'_>, orders: &Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
        let orders = numbers(orders)?;
        answered(py, py.detach(|| self.0.curve(&orders)))
    }

    /// An upper bound on epsilon at `delta`: the best over all real orders, or over those given.
    #[pyo3(signature = (delta, *, orders: "Iterable[float] | None" = None))]
    fn epsilon(&self, py: Python<'_>, delta: f64, orders: Option<&Bound<'_, PyAny>>) -> PyResult<f64> {
        let orders = orders.map(numbers).transpose()?;
        let answer = py.detach(|| match &orders {
            Some(orders) => self.0.epsilon_over(orders, delta, Conversion::Tight),
            None => self.0.epsilon(delta),
        });
        Ok(answered(py, answer)?.epsilon)
    }
}
