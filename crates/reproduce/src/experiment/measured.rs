//! What came of the settings of an experiment.

use dapple_plan::Certificate;
use dapple_train::{Measure, Request, Within};

use super::{Experiment, FinishedRun, PlannedRun, Setting};
use crate::ReproduceError;

/// A run of an experiment, with what came of it.
#[derive(Debug)]
pub struct MeasuredRun {
    /// What was asked for.
    pub setting: Setting,
    /// What its quality is measured by.
    pub measure: Measure,
    /// Its quality after the last step.
    pub quality: f64,
    /// The price of its steps; there is none without privacy.
    pub spent: Option<Certificate>,
    /// Steps that count as taken.
    pub steps: u64,
    /// Those of them whose updates a crash lost.
    pub lost: u64,
}

impl Experiment<'_> {
    /// Carries out a run for each setting, by the plan that it asks for and from initial weights of its seed, counted in a budget if
    /// one is given.
    ///
    /// # Errors
    /// A plan that cannot be made, a run that fails or is stopped.
    pub fn measure<E: From<ReproduceError>>(
        &self,
        settings: &[Setting],
        budget: Option<&Within>,
        plan: impl Fn(&Setting) -> Result<Request, E>,
    ) -> Result<Vec<MeasuredRun>, E> {
        let planned = |setting: &Setting| {
            let mut request = plan(setting)?;
            request.spec.model.seed = Some(setting.seed);
            Ok(PlannedRun { budget: budget.cloned(), ..PlannedRun::new(setting.name(), request) })
        };
        let runs = settings.iter().map(planned).collect::<Result<Vec<_>, E>>()?;
        let finished = self.carry_out(&runs)?;
        let measured = |(&setting, run): (&Setting, FinishedRun)| {
            Ok(MeasuredRun {
                setting,
                measure: run.measure,
                quality: run.quality()?,
                steps: run.certificate.steps_spent,
                lost: run.lost,
                spent: run.certificate.spent,
            })
        };
        settings.iter().zip(finished).map(measured).collect()
    }
}
