//! What a run tells while it is going on. The crate itself prints nothing.

use std::ops::ControlFlow;

use crate::error::TrainError;
use crate::evaluation::Evaluation;
use crate::prepare::Prepared;

/// Listens to a run, and may end it.
pub trait Observer {
    /// Called at every event. `Break` ends the run in order, ready to be resumed, within one step or two seconds, whichever is longer.
    fn notice(&mut self, event: &Event<'_>) -> ControlFlow<()>;
}

/// Listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn notice(&mut self, _: &Event<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Everything is checked, and the first step comes next.
    Begins {
        /// Steps of the plan.
        steps: u64,
        /// Steps after which the run goes on.
        after: u64,
        /// Number of values that train.
        trainable: usize,
        /// Epsilon of the whole plan; `None` without privacy.
        epsilon: Option<f64>,
        /// The machine that computes, in words.
        machine: &'a str,
    },
    /// The features that a frozen trunk makes of every record are being computed, once and for all.
    Features {
        /// Records done.
        done: usize,
        /// Records of the data set.
        records: usize,
    },
    /// A step was taken.
    Step(StepReport<'a>),
    /// The model was evaluated on the test set.
    Evaluated {
        /// Steps taken.
        step: u64,
        /// The result.
        evaluation: &'a Evaluation,
    },
    /// A checkpoint was written.
    Checkpoint {
        /// Steps taken.
        step: u64,
    },
    /// Something that a user should know.
    Warning(&'a str),
}

/// What a step reports. Losses, batch sizes and clipped shares come straight from private records: they may be shown to whoever may see
/// the data, and to nobody else.
#[derive(Clone, Copy)]
pub struct StepReport<'a> {
    /// Steps taken, this one included.
    pub step: u64,
    /// Steps of the plan.
    pub steps: u64,
    /// The learning rate.
    pub learning_rate: f64,
    /// Records drawn. The guarantee does not cover this number.
    pub drawn: usize,
    /// Mean loss of the records drawn; `None` for an empty batch. The guarantee does not cover this number.
    pub loss: Option<f64>,
    /// Share of the records whose gradient was longer than the clip norm. The guarantee does not cover this number.
    pub clipped: Option<f64>,
    /// Seconds since the run began or was resumed.
    pub seconds: f64,
    pub(crate) prepared: &'a Prepared,
}

impl StepReport<'_> {
    /// An upper bound on the epsilon spent by the steps so far; `None` without privacy. It is computed when it is asked for, which takes
    /// from a millisecond to a second, so ask only now and then.
    ///
    /// # Errors
    /// A number beyond the accountant's limits.
    pub fn epsilon(&self) -> Result<Option<f64>, TrainError> {
        Ok(self.prepared.terms().price(self.step)?.map(|certificate| certificate.epsilon.upper))
    }
}

impl std::fmt::Debug for StepReport<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StepReport")
            .field("step", &self.step)
            .field("loss", &self.loss)
            .finish_non_exhaustive()
    }
}
