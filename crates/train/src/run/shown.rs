//! What the steps of a run see of the records.

use std::sync::Arc;

use dapple_data::{Dataset, Views};

use super::Run;
use crate::error::TrainError;
use crate::features::FrozenFeatures;
use crate::observer::{Event, Observer};

/// Records, and the views of each phase of the plan.
pub(super) struct ShownRecords {
    pub(super) records: Arc<dyn Dataset>,
    pub(super) views: Vec<Views>,
}

impl Run {
    /// The records as the model in training sees them: as features, if a frozen trunk makes the same of them in every step. `None` if the
    /// run was asked to stop while the features were computed.
    ///
    /// Cards round features otherwise than they round the whole model, so on cards the whole plan decides whether there are features, and a
    /// run that goes on takes its steps in the same way. The processor computes the same bits either way, and counts the steps that are left.
    pub(super) fn shown(&mut self, observer: &mut dyn Observer) -> Result<Option<ShownRecords>, TrainError> {
        let on_card = self.trainer.machine() != "cpu";
        let from = if on_card { 0 } else { self.step };
        let halves = FrozenFeatures::halves(&self.prepared, from);
        let Some(halves) = halves else {
            let (records, views) = (Arc::clone(&self.prepared.data.train), self.prepared.views.clone());
            return Ok(Some(ShownRecords { records, views }));
        };
        let records = self.prepared.data.train.len();
        let mut told = |done| observer.notice(&Event::Features { done, records });
        let places = (&self.folder, self.ledger.history().start());
        let Some(features) = FrozenFeatures::open(halves, &self.prepared, places, on_card, &mut told)? else {
            return Ok(None);
        };
        self.trainer.train_behind(features.rest)?;
        Ok(Some(ShownRecords { records: features.records, views: vec![features.views] }))
    }
}
