//! What each source of a run's randomness is worth, in noise.

use dapple_accounting::{BracketPrecision, Effort, Work, search};

use crate::error::PlanError;
use crate::{Plan, Relation, Sampling};

/// The largest noise multiplier that is searched.
const MOST_NOISE: f64 = 1e4;
/// The least noise multiplier that is searched, where nothing else is known of it.
const LEAST_NOISE: f64 = 1e-2;
/// The most units of work of one search, which take less than two seconds.
const MOST_WORK: f64 = 2e7;

/// Something drawn at random in secret that a price may count on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RandomnessSource {
    /// Which records a step sees.
    Sampling,
    /// Which submodel a record updates.
    Submodels,
    /// Which part of an image a view shows.
    Crops,
}

impl Plan {
    /// The noise multiplier at which the run would cost `epsilon` without a source of randomness: if every step saw every record, if everybody
    /// knew the submodels, or if every view showed the region. It is found to about one part in a hundred. The answer is `None` if the price
    /// does not count the source, or if no noise multiplier is enough; and for schedules, whose phases have noise of their own.
    ///
    /// # Errors
    /// As [`Plan::epsilon`], but for an epsilon too large to report.
    pub fn noise_without(
        &self,
        source: RandomnessSource,
        epsilon: f64,
        precision: BracketPrecision,
    ) -> Result<Option<f64>, PlanError> {
        let Some(known) = self.known(source).filter(|_| self.phases().is_empty()) else { return Ok(None) };
        // Without the source, no less noise is enough.
        known.noise_for(epsilon, self.noise_multiplier(), precision)
    }

    /// The noise multiplier at which the run would cost `epsilon` if each step had noise of its own, found to about one part in a hundred. The
    /// answer is `None` if it has, or if no noise multiplier is enough.
    ///
    /// # Errors
    /// As [`Plan::epsilon`], but for an epsilon too large to report.
    pub fn independent_noise(
        &self,
        epsilon: f64,
        precision: BracketPrecision,
    ) -> Result<Option<f64>, PlanError> {
        if self.correlated_noise().is_none() {
            return Ok(None);
        }
        let independent = self.changed(|plan| plan.correlated = None);
        independent.noise_for(epsilon, LEAST_NOISE, precision)
    }

    /// The least noise multiplier from `low` on at which the run costs `epsilon`.
    fn noise_for(
        &self,
        epsilon: f64,
        low: f64,
        precision: BracketPrecision,
    ) -> Result<Option<f64>, PlanError> {
        let work = Work::at_most(MOST_WORK);
        let effort = || Effort::counted(BracketPrecision { relative: precision.relative.max(1e-2) }, &work);
        let cost = |noise: f64| {
            let plan = self.changed(|plan| plan.noise_multiplier = noise);
            match plan.epsilon_upper(effort()) {
                Err(error) if error.is_too_large() => Ok(f64::INFINITY),
                other => other,
            }
        };
        let start = self.noise_multiplier().max(low);
        search::smallest_real_from(start, 2.0, (low, MOST_NOISE), epsilon, cost)
    }

    /// The run without a source of randomness; `None` if its price does not count the source.
    fn known(&self, source: RandomnessSource) -> Option<Self> {
        match source {
            RandomnessSource::Sampling => (self.sample_rate() < 1.0).then(|| self.with_every_record()),
            RandomnessSource::Submodels => self.counts_submodels().then(|| self.with_known_submodels()),
            RandomnessSource::Crops => {
                let counted = self.relation() == Relation::Patch && self.inclusion_probability() < 1.0;
                counted.then(|| self.changed(|plan| plan.spatial = plan.spatial.always_seen()))
            }
        }
    }

    /// The same steps if each saw every record.
    fn with_every_record(&self) -> Self {
        self.changed(|plan| {
            plan.batch = plan.records;
            if let Sampling::Balanced { epoch_steps, .. } = plan.sampling {
                plan.sampling = Sampling::Balanced { per_record: epoch_steps, epoch_steps };
            }
        })
    }
}
