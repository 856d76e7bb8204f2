//! The class `Pld`.

use std::sync::Arc;

use dapple_accounting::{AccountingError, Bracket, BracketPrecision, GivenLosses, Pld};
use dapple_plan::{PlanError, number};
use pyo3::prelude::*;

use crate::errors::{self, Class, Raise};
use crate::verbs::{numbers, precision_of};
use crate::{html, worker};

/// Where a notebook shows epsilon, in how many words, and how precisely.
const SHOWN_DELTAS: [(f64, &str); 4] = [
    (1e-3, "epsilon at delta 1e-3, at most"),
    (1e-5, "epsilon at delta 1e-5, at most"),
    (1e-7, "epsilon at delta 1e-7, at most"),
    (1e-9, "epsilon at delta 1e-9, at most"),
];
const SHOWN_PRECISION: f64 = 0.01;

/// The privacy-loss distribution of a mechanism. It is made from one step, composed, and asked for epsilon, delta or a whole profile.
/// Every answer is an upper bound that counts everything: discretisation, truncation and rounding.
///
/// >>> import dapple
/// >>> step = dapple.Pld.poisson_gaussian(sample_rate=0.01, noise_multiplier=1.0)
/// >>> run = step.self_compose(1000).compose(dapple.Pld.laplace(0.1))
/// >>> lower, upper = run.epsilon_bracket(1e-5)
/// >>> lower <= upper == run.epsilon(1e-5)
/// True
#[pyclass(name = "Pld", module = "dapple", frozen)]
pub(crate) struct PyPld(Arc<Pld>);

impl From<Pld> for PyPld {
    fn from(pld: Pld) -> Self {
        Self(Arc::new(pld))
    }
}

impl PyPld {
    /// Asks a question without holding the interpreter's lock.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        precision: f64,
        question: impl FnOnce(&Pld, BracketPrecision) -> Result<T, AccountingError> + Send + 'static,
    ) -> PyResult<T> {
        let precision = precision_of(py, precision)?;
        let pld = self.0.clone();
        let answer = worker::run(py, move |_| question(&pld, precision))?;
        answer.map_err(|error| PlanError::from(error).raise(py))
    }
}

fn made(py: Python<'_>, pld: Result<Pld, AccountingError>) -> PyResult<PyPld> {
    pld.map(PyPld::from).map_err(|error| PlanError::from(error).raise(py))
}

#[pymethods]
impl PyPld {
    /// The mechanism that releases nothing.
    #[staticmethod]
    fn identity() -> Self {
        Pld::identity().into()
    }

    /// The Gaussian mechanism: two normals whose means differ by `sensitivity` at a standard deviation of `noise_multiplier`.
    #[staticmethod]
    #[pyo3(signature = (noise_multiplier, *, sensitivity = 1.0))]
    fn gaussian(py: Python<'_>, noise_multiplier: f64, sensitivity: f64) -> PyResult<Self> {
        made(py, Pld::gaussian(sensitivity, noise_multiplier))
    }

    /// The Laplace mechanism with pure privacy parameter `epsilon`.
    #[staticmethod]
    fn laplace(py: Python<'_>, epsilon: f64) -> PyResult<Self> {
        made(py, Pld::laplace(epsilon))
    }

    /// One step of DP-SGD with Poisson sampling, where records are added or removed (`add-remove`) or substituted (`replace`).
    #[staticmethod]
    #[pyo3(signature = (sample_rate, noise_multiplier, *, relation: "Literal[\"add-remove\", \"replace\"]" = "add-remove"))]
    fn poisson_gaussian(
        py: Python<'_>,
        sample_rate: f64,
        noise_multiplier: f64,
        relation: &str,
    ) -> PyResult<Self> {
        match relation {
            "add-remove" | "add_remove" => made(py, Pld::poisson_gaussian(sample_rate, noise_multiplier)),
            "replace" => made(py, Pld::poisson_gaussian_replace(sample_rate, noise_multiplier)),
            other => {
                let message = format!("relation: there is no step under `{other}` here");
                Err(errors::raise(
                    py,
                    Class::Plan,
                    &message,
                    Some("choose add-remove or replace; a plan has the others"),
                ))
            }
        }
    }

    /// One step of DP-SGD on a sample of fixed size that is drawn without replacement, where records are substituted.
    #[staticmethod]
    fn fixed_size_gaussian(py: Python<'_>, sample_rate: f64, noise_multiplier: f64) -> PyResult<Self> {
        made(py, Pld::fixed_size_gaussian(sample_rate, noise_multiplier))
    }

    /// The Gaussian mechanism whose sensitivity is random: one of `sensitivities`, each with its probability. Records are added or
    /// removed.
    #[staticmethod]
    fn gaussian_mixture(
        py: Python<'_>,
        noise_multiplier: f64,
        sensitivities: Vec<f64>,
        probabilities: Vec<f64>,
    ) -> PyResult<Self> {
        if sensitivities.len() != probabilities.len() {
            let message =
                format!("{} sensitivities with {} probabilities", sensitivities.len(), probabilities.len());
            return Err(errors::raise(
                py,
                Class::Plan,
                &message,
                Some("give each sensitivity its probability"),
            ));
        }
        let parts: Vec<(f64, f64)> = probabilities.into_iter().zip(sensitivities).collect();
        made(py, Pld::gaussian_mixture(&parts, noise_multiplier))
    }

    /// A mechanism given by its losses: pairs of a loss and its probability, in increasing order of the losses, and the probability of an
    /// infinite loss. `addition` and `addition_infinite` are those of adding a record, where they differ from those of removing one.
    #[staticmethod]
    #[pyo3(signature = (losses: "Sequence[tuple[float, float]]", infinite = 0.0, *, addition: "Sequence[tuple[float, float]] | None" = None, addition_infinite = 0.0))]
    fn from_losses(
        py: Python<'_>,
        losses: Vec<(f64, f64)>,
        infinite: f64,
        addition: Option<Vec<(f64, f64)>>,
        addition_infinite: f64,
    ) -> PyResult<Self> {
        let removal = GivenLosses { losses, infinite };
        let addition = addition.map(|losses| GivenLosses { losses, infinite: addition_infinite });
        made(py, Pld::from_losses(&removal, addition.as_ref()))
    }

    /// Both mechanisms on the same data. The second may be chosen after seeing what the first gave.
    fn compose(&self, other: &Self) -> Self {
        self.0.compose(&other.0).into()
    }

    /// The mechanism run `count` times.
    fn self_compose(&self, count: u64) -> Self {
        self.0.self_compose(count).into()
    }

    /// The mechanism on a sample of the records, each in it with probability `rate`: `poisson` (records added or removed), or
    /// `without-replacement` (records substituted).
    #[pyo3(signature = (rate, sampling: "Literal[\"poisson\", \"without-replacement\"]" = "poisson"))]
    fn subsample(&self, py: Python<'_>, rate: f64, sampling: &str) -> PyResult<Self> {
        let without = match sampling {
            "poisson" => false,
            "without-replacement" | "without_replacement" => true,
            other => {
                let hint = "sample by poisson or without-replacement";
                let message = format!("sampling: there is no way to subsample called `{other}`");
                return Err(errors::raise(py, Class::Plan, &message, Some(hint)));
            }
        };
        let pld = self.0.clone();
        // This may take long, because a composed mechanism is first composed numerically.
        let sampled = worker::run(py, move |_| match without {
            false => pld.subsample_poisson(rate),
            true => pld.subsample_without_replacement(rate),
        })?;
        made(py, sampled)
    }

    /// Whether one pair of distributions bounds both directions of the relation.
    #[getter]
    fn is_symmetric(&self) -> bool {
        self.0.is_symmetric()
    }

    /// The least epsilon for which the mechanism is (epsilon, `delta`)-private, never too small. `delta` may be anything from 1e-15 to
    /// below 1, and also 0 for mechanisms whose losses are bounded.
    #[pyo3(signature = (delta, *, precision = 0.001))]
    fn epsilon(&self, py: Python<'_>, delta: f64, precision: f64) -> PyResult<f64> {
        Ok(self.epsilon_bracket(py, delta, precision)?.1)
    }

    /// A lower and an upper bound on the exact epsilon at `delta`.
    #[pyo3(signature = (delta, *, precision = 0.001))]
    fn epsilon_bracket(&self, py: Python<'_>, delta: f64, precision: f64) -> PyResult<(f64, f64)> {
        self.ask(py, precision, move |pld, precision| pld.epsilon(delta, precision)).map(ends)
    }

    /// The least delta for which the mechanism is (`epsilon`, delta)-private, never too small.
    #[pyo3(signature = (epsilon, *, precision = 0.001))]
    fn delta(&self, py: Python<'_>, epsilon: f64, precision: f64) -> PyResult<f64> {
        Ok(self.delta_bracket(py, epsilon, precision)?.1)
    }

    /// A lower and an upper bound on the exact delta at `epsilon`.
    #[pyo3(signature = (epsilon, *, precision = 0.001))]
    fn delta_bracket(&self, py: Python<'_>, epsilon: f64, precision: f64) -> PyResult<(f64, f64)> {
        self.ask(py, precision, move |pld, precision| pld.delta(epsilon, precision)).map(ends)
    }

    /// The delta at each of the epsilons, never too small.
    #[pyo3(signature = (epsilons: "Iterable[float]", *, precision = 0.001))]
    fn profile(&self, py: Python<'_>, epsilons: &Bound<'_, PyAny>, precision: f64) -> PyResult<Vec<f64>> {
        let epsilons = numbers(epsilons)?;
        let deltas = self.ask(py, precision, move |pld, precision| pld.profile(&epsilons, precision))?;
        Ok(deltas.into_iter().map(|delta| delta.upper).collect())
    }

    /// The trade-off curve: at each type-I error of a test between neighbours, a lower bound on its type-II error.
    #[pyo3(signature = (alphas: "Iterable[float]", *, precision = 0.001))]
    fn trade_off(&self, py: Python<'_>, alphas: &Bound<'_, PyAny>, precision: f64) -> PyResult<Vec<f64>> {
        let alphas = numbers(alphas)?;
        self.ask(py, precision, move |pld, precision| pld.trade_off(&alphas, precision))
    }

    fn __repr__(&self) -> &'static str {
        match self.0.is_symmetric() {
            true => "<Pld, the same in both directions>",
            false => "<Pld, one distribution for each direction>",
        }
    }

    /// A table of epsilon at usual deltas.
    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let shown = BracketPrecision { relative: SHOWN_PRECISION };
        let pld = self.0.clone();
        let rows = worker::run(py, move |_| {
            SHOWN_DELTAS.map(|(delta, words)| {
                let epsilon = pld.epsilon(delta, shown).map(|bracket| number::up(bracket.upper, 4));
                (words, epsilon.unwrap_or_else(|error| error.to_string()))
            })
        })?;
        Ok(html::table("Privacy-loss distribution", &rows))
    }
}

fn ends(bracket: Bracket) -> (f64, f64) {
    (bracket.least(), bracket.upper)
}
