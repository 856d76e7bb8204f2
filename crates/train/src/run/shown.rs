//! What the steps of a run see of the records.

use std::sync::Arc;

use dapple_data::{Dataset, RecordPart, Views};
use dapple_graph::Halves;

use super::Run;
use crate::error::TrainError;
use crate::features::FrozenFeatures;
use crate::masked::MaskedPasses;
use crate::observer::{Event, Observer};
use crate::prepare::Prepared;

/// Records, and the views of each phase of the plan.
pub(super) struct ShownRecords {
    pub(super) records: Arc<dyn Dataset>,
    pub(super) views: Vec<Views>,
}

/// What the passes of a step are shown: whole records, or the private parts of some and the public parts of some.
pub(super) struct ShownPasses {
    pub(super) own: ShownRecords,
    pub(super) public: Option<ShownRecords>,
}

impl ShownPasses {
    /// The records themselves.
    ///
    /// # Errors
    /// Views of which no part can be shown.
    pub(super) fn of_records(prepared: &Prepared) -> Result<Self, TrainError> {
        let of = |views| ShownRecords { records: Arc::clone(&prepared.data.train), views };
        let Some(passes) = &prepared.masked else {
            return Ok(Self { own: of(prepared.views.clone()), public: None });
        };
        let part = |part| passes.views(&prepared.views, part).map(of);
        Ok(Self { own: part(RecordPart::Private)?, public: Some(part(RecordPart::Public)?) })
    }
}

impl Run {
    /// The records as the model in training sees them: as features, if a frozen trunk makes the same of them in every step. `None` if the
    /// run was asked to stop while the features were computed.
    ///
    /// Cards round features otherwise than they round the whole model, so on cards the whole plan decides whether there are features, and a
    /// run that goes on takes its steps in the same way. The processor computes the same bits either way, and counts the steps that are left.
    pub(super) fn shown(&mut self, observer: &mut dyn Observer) -> Result<Option<ShownPasses>, TrainError> {
        let on_card = self.trainer.machine() != "cpu";
        let from = if on_card { 0 } else { self.step };
        let Some(Halves { trunk, rest }) = FrozenFeatures::halves(&self.prepared, from) else {
            return ShownPasses::of_records(&self.prepared).map(Some);
        };
        let parts: &[Option<RecordPart>] = match self.prepared.masked {
            None => &[None],
            Some(_) => &[Some(RecordPart::Private), Some(RecordPart::Public)],
        };
        let each = self.prepared.data.train.len();
        let records = parts.len() * each;
        let mut shown = Vec::new();
        for (number, &part) in parts.iter().enumerate() {
            let mut told = |done| observer.notice(&Event::Features { done: number * each + done, records });
            let places = (&self.folder, self.ledger.history().start());
            let features = FrozenFeatures::open(
                (&trunk, part),
                &self.prepared,
                places,
                (&self.shelf, on_card),
                &mut told,
            )?;
            let Some(FrozenFeatures { records, views }) = features else { return Ok(None) };
            shown.push(ShownRecords { records, views: vec![views] });
        }
        self.trainer.train_behind(rest)?;
        let of_subsets = self.prepared.masked.as_ref().and_then(MaskedPasses::graphs).is_some();
        // On cards the whole model would round otherwise, and a trunk of some tokens alone is not that of a whole image.
        if !on_card && !of_subsets {
            self.evaluator.keep_trunk(trunk, self.shelf.clone());
        }
        let public = (shown.len() == 2).then(|| shown.pop()).flatten();
        Ok(shown.pop().map(|own| ShownPasses { own, public }))
    }
}
