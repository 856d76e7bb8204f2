//! What a run tells Python while it goes on.

use std::ops::ControlFlow;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};

use dapple_train::{Event, Observer, Score, StepReport, TrainError};
use pyo3::prelude::*;

use crate::errors::Raise;
use crate::worker::{Teller, Wanted};

/// Something that happened in a run. `kind` says what: `begins`, `features`, `step`, `evaluated`, `checkpoint` or `warning`; what does
/// not belong to it is `None`.
///
/// `drawn`, `loss` and `clipped` come straight from private records: show them to whoever may see the data, and to nobody else.
#[pyclass(module = "dapple", frozen)]
#[derive(Default)]
pub(crate) struct TrainingEvent {
    /// What happened.
    #[pyo3(get)]
    kind: &'static str,
    /// Steps taken, or records whose features are computed.
    #[pyo3(get)]
    step: Option<u64>,
    /// Steps of the plan, or records of the data set.
    #[pyo3(get)]
    steps: Option<u64>,
    /// Records drawn. The guarantee does not cover this number.
    #[pyo3(get)]
    drawn: Option<usize>,
    /// Mean loss of the records drawn; `None` for an empty batch. The guarantee does not cover this number.
    #[pyo3(get)]
    loss: Option<f64>,
    /// Share of the records whose gradient was longer than the clip norm. The guarantee does not cover this number.
    #[pyo3(get)]
    clipped: Option<f64>,
    /// The learning rate of the step.
    #[pyo3(get)]
    learning_rate: Option<f64>,
    /// Seconds since the run began or was resumed.
    #[pyo3(get)]
    seconds: Option<f64>,
    /// What was measured on the test set, in words.
    #[pyo3(get)]
    measure: Option<&'static str>,
    /// How good the model was by that measure.
    #[pyo3(get)]
    score: Option<f64>,
    /// What a user should know: a warning, or the machine that computes.
    #[pyo3(get)]
    text: Option<String>,
    /// Epsilon of the whole plan, when the run begins; `None` without privacy.
    #[pyo3(get)]
    planned_epsilon: Option<f64>,
    /// Where to ask the run, as long as it waits.
    questions: Mutex<Option<Sender<Question>>>,
}

/// What the run hears while it waits.
enum Question {
    Epsilon(Sender<Result<Option<f64>, TrainError>>),
    GoOn(bool),
}

impl TrainingEvent {
    fn of(event: &Event<'_>) -> Self {
        let none = Self::default();
        match event {
            Event::Begins { steps, after, epsilon, machine, .. } => Self {
                kind: "begins",
                step: Some(*after),
                steps: Some(*steps),
                planned_epsilon: *epsilon,
                text: Some((*machine).to_owned()),
                ..none
            },
            Event::Features { done, records } => {
                Self { kind: "features", step: Some(*done as u64), steps: Some(*records as u64), ..none }
            }
            Event::Step(report) => Self {
                kind: "step",
                step: Some(report.step),
                steps: Some(report.steps),
                drawn: Some(report.drawn),
                loss: report.loss,
                clipped: report.clipped,
                learning_rate: Some(report.learning_rate),
                seconds: Some(report.seconds),
                ..none
            },
            Event::Evaluated { step, evaluation } => {
                let Score { measure, value } = evaluation.score();
                let (measure, score) = (Some(measure.words()), Some(value));
                Self { kind: "evaluated", step: Some(*step), measure, score, ..none }
            }
            Event::Checkpoint { step } => Self { kind: "checkpoint", step: Some(*step), ..none },
            Event::Warning(text) => Self { kind: "warning", text: Some((*text).to_owned()), ..none },
            _ => Self { kind: "other", ..none },
        }
    }

    fn questions(&self) -> std::sync::MutexGuard<'_, Option<Sender<Question>>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl TrainingEvent {
    /// An upper bound on the epsilon spent by the steps so far; `None` without privacy, and for whatever is no step. It is computed when
    /// it is asked for, which takes from a millisecond to a second, and can be asked for only while the callback runs.
    fn epsilon(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let Some(questions) = self.questions().clone() else { return Ok(None) };
        let (sender, receiver) = mpsc::channel();
        if questions.send(Question::Epsilon(sender)).is_err() {
            return Ok(None);
        }
        py.detach(move || receiver.recv()).unwrap_or(Ok(None)).map_err(|error| error.raise(py))
    }

    fn __repr__(&self) -> String {
        let mut text = format!("TrainingEvent(kind='{}'", self.kind);
        if let Some(step) = self.step {
            text.push_str(&format!(", step={step}"));
        }
        if let Some(score) = self.score {
            text.push_str(&format!(", score={score}"));
        }
        if let Some(words) = &self.text {
            text.push_str(&format!(", text={words:?}"));
        }
        text + ")"
    }
}

/// An event, and where to answer it.
pub(crate) struct Told {
    event: TrainingEvent,
    answers: Sender<Question>,
}

impl Told {
    /// Calls back. An answer of `False` ends the run in order.
    pub(crate) fn call(self, py: Python<'_>, callback: &Py<PyAny>) -> PyResult<()> {
        let Self { mut event, answers } = self;
        let asks = event.kind == "step";
        event.questions = Mutex::new(asks.then(|| answers.clone()));
        let event = Py::new(py, event)?;
        let said = callback.call1(py, (event.clone_ref(py),));
        event.get().questions().take();
        let go_on = said.as_ref().is_ok_and(|said| !said.bind(py).is(pyo3::types::PyBool::new(py, false)));
        // The run may have ended by an interrupt.
        let _ = answers.send(Question::GoOn(go_on));
        said.map(|_| ())
    }
}

/// Tells Python of a run's events, and waits for its answers.
pub(crate) struct CallingObserver<'a, T> {
    pub(crate) wanted: &'a Wanted,
    /// `None` if nobody wants to hear of events.
    pub(crate) teller: Option<&'a Teller<Told, T>>,
}

impl<T> CallingObserver<'_, T> {
    /// Tells an event, and answers what is asked about it. Whether the run goes on.
    fn told(&self, teller: &Teller<Told, T>, event: &Event<'_>) -> bool {
        let (answers, questions) = mpsc::channel();
        if !teller.tell(Told { event: TrainingEvent::of(event), answers }) {
            return false;
        }
        loop {
            match questions.recv() {
                Ok(Question::Epsilon(sender)) => {
                    let epsilon = match event {
                        Event::Step(report) => StepReport::epsilon(report),
                        _ => Ok(None),
                    };
                    // Whoever asked waits for the answer.
                    let _ = sender.send(epsilon);
                }
                Ok(Question::GoOn(go_on)) => return go_on,
                Err(_) => return false,
            }
        }
    }
}

impl<T> Observer for CallingObserver<'_, T> {
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if self.wanted.still() && self.teller.is_some_and(|teller| !self.told(teller, event)) {
            // A run listens to this answer only at some events, and is told it again at the next of them.
            self.wanted.drop_it();
        }
        if self.wanted.still() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}
