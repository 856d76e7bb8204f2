//! The class `Sampler`.

use std::sync::{Mutex, PoisonError};

use dapple_data::{MasterKey, SamplerKeys};
use pyo3::prelude::*;

use crate::errors::Raise;
use crate::plan::PyPlan;

/// Draws the records of every step of a plan, exactly as the accountant assumes: Poisson coins of probability batch / records without
/// rounding, uniform subsets, or balanced allocations. The key comes from the operating system. A `seed` is for tests: nothing is private
/// from whoever knows it.
///
/// >>> import dapple
/// >>> plan = dapple.Plan(batch=2, records=10, steps=3, noise_multiplier=1.0, delta=1e-5)
/// >>> sampler = dapple.Sampler(plan)
/// >>> sampler.steps, all(0 <= index < 10 for step in range(3) for index in sampler.draw(step))
/// (3, True)
#[pyclass(module = "dapple", frozen)]
pub(crate) struct Sampler(Mutex<dapple_data::Sampler>);

impl Sampler {
    fn with<T>(&self, question: impl FnOnce(&mut dapple_data::Sampler) -> T) -> T {
        // A draw is a function of the key and the step, so what a panic left behind does no harm.
        question(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Sampler {
    #[new]
    #[pyo3(signature = (plan, *, seed = None))]
    fn new(py: Python<'_>, plan: &Bound<'_, PyPlan>, seed: Option<u64>) -> PyResult<Self> {
        let key = seed.map_or_else(MasterKey::from_os, |seed| Ok(MasterKey::from_seed(seed)));
        let key = SamplerKeys::of(&key.map_err(|error| error.raise(py))?);
        let plan = plan.get().plan();
        let sampler = dapple_data::Sampler::new(plan, plan.records() as usize, key);
        sampler.map(|sampler| Self(Mutex::new(sampler))).map_err(|error| error.raise(py))
    }

    /// Steps of the whole plan.
    #[getter]
    fn steps(&self) -> u64 {
        self.with(|sampler| sampler.steps())
    }

    /// The records of a step, in growing order. A Poisson draw may be empty, and even then the step adds noise.
    fn draw(&self, py: Python<'_>, step: u64) -> PyResult<Vec<usize>> {
        let drawn = py.detach(|| self.with(|sampler| sampler.draw(step)));
        drawn.map(|drawn| drawn.indices).map_err(|error| error.raise(py))
    }
}
