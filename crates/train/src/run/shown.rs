//! What of the records a run's steps are shown.

use std::sync::Arc;

use dapple_data::{Dataset, Views};

use super::Run;
use crate::error::TrainError;
use crate::features::Features;
use crate::observer::{Event, Observer};

impl Run {
    /// The records as the model that trains sees them: their features where a frozen trunk makes the same of them in every step. `None`
    /// if the run was asked to stop while these were computed.
    ///
    /// Cards compute the whole model in every step: what they make of a record may depend on how many are shown at once.
    pub(super) fn shown(
        &mut self,
        observer: &mut dyn Observer,
    ) -> Result<Option<(Arc<dyn Dataset>, Vec<Views>)>, TrainError> {
        let halves = match self.trainer.machine() {
            "cpu" => Features::halves(&self.prepared, self.step),
            _ => None,
        };
        let Some(halves) = halves else {
            return Ok(Some((Arc::clone(&self.prepared.data.train), self.prepared.views.clone())));
        };
        let records = self.prepared.data.train.len();
        let mut told = |done| observer.notice(&Event::Features { done, records });
        let start = self.ledger.history().start();
        let Some(features) = Features::open(halves, &self.prepared, &self.folder, start, &mut told)? else {
            return Ok(None);
        };
        self.trainer.train_behind(features.rest)?;
        Ok(Some((features.records, vec![features.views])))
    }
}
