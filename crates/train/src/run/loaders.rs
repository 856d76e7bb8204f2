//! The records of a run's steps, from where they lie to microbatches.

use dapple_data::{Loader, RecordPart, Sampler};

use super::keys::Keys;
use super::loader_options;
use super::shown::ShownRecords;
use crate::error::TrainError;
use crate::prepare::Prepared;
use crate::step::{StepKeys, Taken, Trainer};

/// What loads the records of each step: all of each record, or its private part, and then another one the public parts.
pub(super) struct StepLoaders {
    own: Loader,
    public: Option<Loader>,
}

impl StepLoaders {
    /// Loads the steps of a run that are left: this process's part of them, if several share the run.
    ///
    /// # Guarantee
    /// If the plan says that public parts come from a batch of their own, which records these are and how they are shown follows from keys
    /// that nothing else is drawn with. Otherwise they are the records whose private parts are seen, in the same views.
    pub(super) fn new(
        prepared: &Prepared,
        keys: &Keys,
        (shown, sampler): (ShownRecords, &Sampler),
        step: u64,
        cards: usize,
    ) -> Result<Self, TrainError> {
        let steps = step..prepared.plan().steps();
        let options = loader_options(prepared, cards);
        let load = |views, sampler, keys| {
            Loader::train(shown.records.clone(), sampler, views, keys, steps.clone(), options)
        };
        let Some(passes) = &prepared.masked else {
            return Ok(Self {
                own: load(shown.views.clone(), sampler.clone(), keys.loader.clone())?,
                public: None,
            });
        };
        let private = passes.views(&shown.views, RecordPart::Private)?;
        let public = passes.views(&shown.views, RecordPart::Public)?;
        let (public_sampler, public_keys) = match passes.decoupled() {
            true => {
                let key = keys.public_sampling.clone();
                let sampler = Sampler::new(prepared.plan(), shown.records.len(), key)?;
                (sampler, keys.public_loader.clone())
            }
            false => (sampler.clone(), keys.loader.clone()),
        };
        Ok(Self {
            own: load(private, sampler.clone(), keys.loader.clone())?,
            public: Some(load(public, public_sampler, public_keys)?),
        })
    }

    /// Waits for the first microbatches, so that a fault in them costs no step.
    pub(super) fn prepared(mut self) -> Result<Self, TrainError> {
        self.own.prepare()?;
        self.public.as_mut().map_or(Ok(()), Loader::prepare)?;
        Ok(self)
    }

    /// Takes the next step with their microbatches.
    pub(super) fn step(
        &mut self,
        trainer: &mut Trainer,
        keys: &StepKeys,
        step: u64,
    ) -> Result<Taken, TrainError> {
        trainer.step(&mut self.own, self.public.as_mut(), keys, step)
    }
}
