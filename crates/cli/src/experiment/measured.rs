//! What came of the settings of an experiment.

use std::path::Path;

use dapple_plan::Certificate;
use dapple_train::{Measure, Request, Within};

use super::run::Planned;
use super::{Setting, carry_out};
use crate::failure::Failure;

/// One run.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) setting: Setting,
    pub(crate) measure: Measure,
    /// After the last step.
    pub(crate) quality: f64,
    /// The price of its steps; none without privacy.
    pub(crate) spent: Option<Certificate>,
    pub(crate) steps: u64,
}

/// Carries out a run for each setting, by the plan that it asks for and from initial weights of its seed,
/// counted in a budget if one is given.
pub(crate) fn measure(
    settings: &[Setting],
    plan: impl Fn(&Setting) -> Result<Request, Failure>,
    place: &Path,
    jobs: Option<usize>,
    budget: Option<Within>,
    quiet: bool,
) -> Result<Vec<Measured>, Failure> {
    let planned = |setting: &Setting| {
        let mut request = plan(setting)?;
        request.spec.model.seed = Some(setting.seed);
        Ok(Planned { budget: budget.clone(), ..Planned::new(setting.name(), request) })
    };
    let runs = settings.iter().map(planned).collect::<Result<Vec<_>, Failure>>()?;
    let finished = carry_out(&runs, place, jobs, quiet)?;
    settings
        .iter()
        .zip(finished)
        .map(|(&setting, run)| {
            Ok(Measured {
                setting,
                measure: run.measure,
                quality: run.quality()?,
                steps: run.certificate.steps_spent,
                spent: run.certificate.spent,
            })
        })
        .collect()
}
