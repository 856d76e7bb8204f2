//! The records of a run's steps, from where they lie to microbatches.

use std::ops::Range;

use dapple_data::{Loader, Sampler};

use super::keys::Keys;
use super::loader_options;
use super::shown::{ShownPasses, ShownRecords};
use crate::error::TrainError;
use crate::masked::MaskedPasses;
use crate::prepare::Prepared;
use crate::step::{StepKeys, Taken, Trainer};

/// What loads the records of each step: all of each record, or its private part, and then another one the public parts.
pub(super) struct StepLoaders {
    own: Loader,
    public: Option<Loader>,
}

impl StepLoaders {
    /// Loads these steps for a machine of so many cards: this process's part of them, if several share the run.
    ///
    /// # Guarantee
    /// If the plan says that public parts come from a batch of their own, which records these are and how they are shown follows from keys
    /// that nothing else is drawn with. Otherwise they are the records whose private parts are seen, in the same views.
    pub(super) fn new(
        (prepared, keys): (&Prepared, &Keys),
        shown: ShownPasses,
        sampler: &Sampler,
        steps: Range<u64>,
        cards: usize,
    ) -> Result<Self, TrainError> {
        let options = loader_options(prepared, cards);
        let load = |ShownRecords { records, views }, sampler, keys| {
            Loader::train(records, sampler, views, keys, steps.clone(), options.clone())
        };
        let ShownPasses { own, public } = shown;
        let decoupled = prepared.masked.as_ref().is_some_and(MaskedPasses::decoupled);
        let load_public = |public: ShownRecords| {
            if decoupled {
                let key = keys.public_sampling.clone();
                let sampler = Sampler::new(prepared.plan(), public.records.len(), key)?;
                load(public, sampler, keys.public_loader.clone())
            } else {
                load(public, sampler.clone(), keys.loader.clone())
            }
        };
        Ok(Self {
            public: public.map(load_public).transpose()?,
            own: load(own, sampler.clone(), keys.loader.clone())?,
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
