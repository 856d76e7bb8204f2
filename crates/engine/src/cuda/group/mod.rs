//! One or several cards of one machine that train a model together.
//!
//! Every card takes a share of the batch's samples and adds up their clipped gradients. Then the cards' sums are added, so that all cards
//! hold the same numbers. From these and the same key every card makes the same noisy sum, and takes the same step. So noise enters the sum
//! once, and parameters never travel between cards.

mod error;
mod share;
mod team;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use dapple_graph::{Graph, Parameters};

use super::device::device_count;
use super::error::CudaError;
use super::nccl::{Communicators, CudaLink, Summed};
use super::{CudaExecutor, CudaGradientSum, CudaOptions, CudaState, CudaUpdate, StateValues};
use crate::batch::{self, Batch};
use crate::clipping::ClippingRule;
use crate::cpu::Total;
use crate::error::EngineError;
use crate::layout::Layout;
use crate::stats::StepStats;
pub use error::CudaGroupError;
use team::{Addition, Failed, OnHost, Rank, each};

/// How a group adds its cards' sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CudaAddition {
    /// By NCCL, over the links between the cards.
    #[default]
    Nccl,
    /// In the host's memory, in the order of the cards. This is slower, but needs no library, and takes a card that is named twice for two
    /// cards.
    Host,
}

/// Executors of the same graph on one or several cards.
#[derive(Debug)]
pub struct CudaGroup {
    adder: Adder,
    devices: Vec<usize>,
    graph: Graph,
    /// Whether all cards hold the same parameters.
    agree: bool,
    // The executors come last, because the communicators use their streams and must be dropped first.
    ranks: Vec<CudaExecutor>,
}

/// Who adds the sums.
#[derive(Debug)]
enum Adder {
    /// Nobody, because there is only one sum.
    Alone,
    Host,
    Nccl(Communicators),
}

/// A sum of clipped gradients, of which every card has a part.
#[derive(Debug)]
pub struct CudaGroupSum(Vec<CudaGradientSum>);

/// What an optimiser remembers, the same on every card.
#[derive(Debug)]
pub struct CudaGroupState(Vec<CudaState>);

impl CudaGroup {
    /// Makes executors on these cards. `options.device` is not used, and `options.batch` counts the samples of all cards together. With
    /// [`CudaAddition::Host`] nothing but each card's own libraries is needed.
    ///
    /// # Errors
    /// If the list has no card, or for NCCL has one twice; those of [`CudaExecutor::new`]; and if NCCL is not found or cannot join the cards.
    pub fn new(
        graph: &Graph,
        devices: &[usize],
        options: CudaOptions,
        addition: CudaAddition,
    ) -> Result<Self, CudaGroupError> {
        Self::with_submodels(graph, &[], devices, options, addition)
    }

    /// Makes executors as [`CudaGroup::new`] does, whose batches may belong to submodels of the graph.
    ///
    /// # Errors
    /// Those of [`CudaGroup::new`] and of [`CudaExecutor::with_submodels`].
    pub fn with_submodels(
        graph: &Graph,
        submodels: &[Graph],
        devices: &[usize],
        options: CudaOptions,
        addition: CudaAddition,
    ) -> Result<Self, CudaGroupError> {
        check(devices, addition)?;
        let count = device_count()?;
        if addition == CudaAddition::Nccl {
            Communicators::check()?;
        }
        if let Some(&device) = devices.iter().find(|&&device| device >= count) {
            return Err(named(devices, Failed::from(CudaError::NoDevice { ordinal: device, count })));
        }
        let batch = options.batch.div_ceil(devices.len());
        let open = |&device: &usize| {
            CudaExecutor::with_submodels(graph, submodels.to_vec(), CudaOptions { device, batch, ..options })
        };
        let ranks = each(devices, open).map_err(|failed| named(devices, failed))?;
        let adder = match addition {
            CudaAddition::Nccl => Adder::Nccl(Communicators::new(devices)?),
            CudaAddition::Host if devices.len() > 1 => Adder::Host,
            CudaAddition::Host => Adder::Alone,
        };
        Ok(Self { adder, devices: devices.to_vec(), graph: graph.clone(), agree: false, ranks })
    }

    /// Where the trainable parameters lie in a gradient.
    pub fn layout(&self) -> &Layout {
        // A group has at least one card.
        self.ranks[0].layout()
    }

    /// The names of the cards, in order.
    pub fn device_names(&self) -> Vec<String> {
        self.ranks.iter().map(CudaExecutor::device_name).collect()
    }

    /// Puts the same parameters on every card.
    ///
    /// # Errors
    /// Those of [`CudaExecutor::load`].
    pub fn load(&mut self, parameters: &Parameters) -> Result<(), CudaGroupError> {
        self.agree = false;
        self.each(|rank| rank.load(parameters).map(|_| ()))?;
        self.agree = true;
        Ok(())
    }

    /// Puts the same state of the optimiser on every card.
    ///
    /// # Errors
    /// Those of [`CudaExecutor::state`].
    pub fn state(
        &mut self,
        values: &StateValues,
        groups: &[usize],
    ) -> Result<CudaGroupState, CudaGroupError> {
        self.each(|rank| rank.state(values, groups)).map(CudaGroupState)
    }

    /// Lets the sums of successive updates be released together, by the same coefficients on every card.
    ///
    /// # Errors
    /// Those of [`CudaExecutor::correlate`].
    pub fn correlate(
        &mut self,
        state: &mut CudaGroupState,
        coefficients: &[i32],
        unit: f64,
    ) -> Result<(), CudaGroupError> {
        self.own(state.0.len())?;
        let ranks = self.ranks.iter_mut().zip(&mut state.0);
        each(ranks, |(rank, state)| rank.correlate(state, coefficients, unit))
            .map_err(|failed| named(&self.devices, failed))?;
        Ok(())
    }

    /// Makes an empty sum.
    ///
    /// # Errors
    /// If a card has too little memory.
    pub fn gradient_sum(&mut self) -> Result<CudaGroupSum, CudaGroupError> {
        self.each(CudaExecutor::gradient_sum).map(CudaGroupSum)
    }

    /// The outputs of all samples, one after the other in row-major order, with dropout off. Every card takes a share of the samples.
    ///
    /// # Errors
    /// Those of [`super::CudaLoaded::forward`], or if nothing was loaded.
    pub fn forward(&mut self, inputs: &[f32]) -> Result<Vec<f32>, CudaGroupError> {
        self.in_agreement()?;
        let size: usize = self.graph.input_shape().iter().product();
        let samples = batch::samples(&self.graph, inputs, 1).map_err(CudaError::from)?;
        let shares = share::ranges(samples, self.ranks.len());
        let parts = each(self.ranks.iter_mut().zip(shares), |(rank, range)| {
            rank.resident()?.forward(&inputs[range.start * size..range.end * size])
        });
        Ok(parts.map_err(|failed| named(&self.devices, failed))?.concat())
    }

    /// Adds every sample's clipped gradient to a sum.
    ///
    /// # Errors
    /// Those of [`super::CudaLoaded::clipped_sum`], or if nothing was loaded. Then the sum must not be used.
    ///
    /// # Guarantee
    /// That of [`super::CudaLoaded::clipped_sum`]: every sample is on one card and adds a vector that depends on no other sample and whose
    /// norm is at most [`ClippingRule::sensitivity`].
    pub fn clipped_sum(
        &mut self,
        batch: &Batch<'_>,
        rule: &ClippingRule,
        sum: &mut CudaGroupSum,
    ) -> Result<StepStats, CudaGroupError> {
        self.in_agreement()?;
        self.own(sum.0.len())?;
        let samples = batch.sizes(&self.graph).map_err(CudaError::from)?;
        fits(rule, sum.0.iter().map(|sum| sum.samples), samples).map_err(CudaError::from)?;
        team::clipped_sum(&mut self.ranks, &self.graph, batch, rule, &mut sum.0)
            .map_err(|failed| named(&self.devices, failed))
    }

    /// The sum over all cards in the order of [`CudaGroup::layout`], in whole numbers if it was clipped.
    ///
    /// # Errors
    /// If a card or the addition fails.
    pub fn total(&mut self, mut sum: CudaGroupSum) -> Result<Total, CudaGroupError> {
        self.in_agreement()?;
        self.own(sum.0.len())?;
        self.add_up(&mut sum)?;
        let first = self.ranks.iter_mut().zip(sum.0).take(1);
        let total = each(first, |(rank, sum)| rank.resident()?.total(sum));
        let total = total.map_err(|failed| named(&self.devices, failed))?;
        total.into_iter().next().ok_or(CudaGroupError::Empty)
    }

    /// Like [`CudaGroup::total`], but in single precision.
    ///
    /// # Errors
    /// Those of [`CudaGroup::total`].
    pub fn gradient(&mut self, sum: CudaGroupSum) -> Result<Vec<f32>, CudaGroupError> {
        self.total(sum).map(Total::into_gradient)
    }

    /// Waits until everything that was started on the cards has run, and says whether it failed.
    ///
    /// # Errors
    /// If a card failed.
    pub fn settle(&mut self) -> Result<(), CudaGroupError> {
        self.each(Rank::settle).map(drop)
    }

    /// The sum of a single card as it is to be added to those of other processes, in whole numbers if the rule bounds it.
    ///
    /// # Errors
    /// If there are several cards, the sum began by another rule, or the card fails.
    pub fn read(&mut self, sum: &mut CudaGroupSum, rule: &ClippingRule) -> Result<Total, CudaGroupError> {
        let (rank, sum) = self.alone(sum, rule)?;
        Ok(rank.read(sum)?)
    }

    /// Replaces the sum of a single card by one that [`CudaGroup::read`] gave and to which others were added.
    ///
    /// # Errors
    /// If there are several cards, or the card fails.
    pub fn write(
        &mut self,
        sum: &mut CudaGroupSum,
        rule: &ClippingRule,
        total: &Total,
    ) -> Result<(), CudaGroupError> {
        let (rank, sum) = self.alone(sum, rule)?;
        Ok(rank.write(sum, total)?)
    }

    /// Adds to the sum of a single card those of the cards of other processes, which must all do the same with sums by the same rule.
    ///
    /// # Guarantee
    /// All cards then have the same bits, and where gradients are clipped those of the exact sum.
    ///
    /// # Errors
    /// If there are several cards, the sum began by another rule, or this card or another one fails. Then nothing can be added over this link any
    /// more.
    pub fn add_over(
        &mut self,
        sum: &mut CudaGroupSum,
        rule: &ClippingRule,
        link: &mut CudaLink,
    ) -> Result<(), CudaGroupError> {
        let (rank, sum) = self.alone(sum, rule)?;
        let device = &rank.device;
        device.bind()?;
        sum.carry(device, 0)?;
        let numbers = sum.wide().map_or_else(|| Summed::Plain(sum.values()), Summed::Whole);
        Ok(link.add(device, numbers)?)
    }

    /// The only card and its part of a sum, which holds numbers of the rule's kind even if nothing was added to it.
    fn alone<'g>(
        &'g mut self,
        sum: &'g mut CudaGroupSum,
        rule: &ClippingRule,
    ) -> Result<(&'g mut CudaExecutor, &'g mut CudaGradientSum), CudaGroupError> {
        let ([rank], [sum]) = (&mut self.ranks[..], &mut sum.0[..]) else {
            return Err(CudaError::from(EngineError::Parameters).into());
        };
        rank.device.bind()?;
        sum.reserve(&rank.device, rule, 0)?;
        Ok((rank, sum))
    }

    /// Adds the cards' sums, adds noise to the whole once, and takes the optimiser's step on every card.
    ///
    /// # Guarantee
    /// That of [`super::CudaLoaded::update`], for the sum over all cards. The noise is a function of that sum and the key, and every card has
    /// the same bits of both (NCCL's all-reduce leaves identical copies of its result), so all cards hold one and the same draw of it.
    ///
    /// # Errors
    /// Those of [`super::CudaLoaded::update`], or if nothing was loaded, or the addition fails. Then cards may be a step apart, so parameters
    /// and state must be put on them again.
    pub fn update(
        &mut self,
        mut sum: CudaGroupSum,
        state: &mut CudaGroupState,
        update: &CudaUpdate<'_>,
    ) -> Result<(), CudaGroupError> {
        self.in_agreement()?;
        self.own(sum.0.len())?;
        self.own(state.0.len())?;
        self.agree = false;
        self.add_up(&mut sum)?;
        team::update(&mut self.ranks, sum.0, &mut state.0, update)
            .map_err(|failed| named(&self.devices, failed))?;
        self.agree = true;
        Ok(())
    }

    /// Fetches parameters and state from the first card, after checking that the parameters have the same bits on every card.
    ///
    /// # Guarantee
    /// What is fetched is what a single card would have reached by [`CudaGroup::update`] with one draw of noise in each step. Cards that had
    /// added different sums, or noise of their own, would hold different parameters, and then nothing is fetched.
    ///
    /// # Errors
    /// If nothing was loaded, the parameters belong to another graph, a card holds other parameters than the first, or a card fails.
    pub fn fetch(
        &mut self,
        parameters: &mut Parameters,
        state: &CudaGroupState,
    ) -> Result<StateValues, CudaGroupError> {
        self.in_agreement()?;
        let fetch = |rank: &mut CudaExecutor| {
            let mut own = parameters.clone();
            rank.resident()?.fetch(&mut own)?;
            Ok(own)
        };
        let own = self.each(fetch)?;
        let mut cards = self.devices.iter().zip(own);
        let Some((_, first)) = cards.next() else { return Err(CudaGroupError::Empty) };
        if let Some((&device, _)) = cards.find(|(_, other)| !same_bits(first.values(), other.values())) {
            self.agree = false;
            return Err(CudaGroupError::Apart { device });
        }
        *parameters = first;
        let (Some(rank), Some(state)) = (self.ranks.first_mut(), state.0.first()) else {
            return Err(CudaGroupError::Empty);
        };
        state.fetch(rank).map_err(|error| named(&self.devices, Failed { rank: Some(0), error }))
    }

    /// Does something on every card at the same time.
    fn each<T: Send>(
        &mut self,
        run: impl Fn(&mut CudaExecutor) -> Result<T, CudaError> + Sync,
    ) -> Result<Vec<T>, CudaGroupError> {
        each(&mut self.ranks, run).map_err(|failed| named(&self.devices, failed))
    }

    /// Checks that all cards hold the same parameters.
    fn in_agreement(&self) -> Result<(), CudaError> {
        if self.agree { Ok(()) } else { Err(EngineError::Parameters.into()) }
    }

    /// Refuses what was made by a group of other cards.
    fn own(&self, parts: usize) -> Result<(), CudaError> {
        if parts == self.ranks.len() { Ok(()) } else { Err(EngineError::Parameters.into()) }
    }

    fn add_up(&mut self, sum: &mut CudaGroupSum) -> Result<(), CudaGroupError> {
        let (ranks, sums) = (&mut self.ranks, &mut sum.0);
        match &mut self.adder {
            Adder::Alone => Ok(()),
            Adder::Host => team::add_up(ranks, sums, &mut OnHost),
            Adder::Nccl(communicators) => team::add_up(ranks, sums, communicators),
        }
        .map_err(|failed| named(&self.devices, failed))
    }
}

/// Refuses more samples than a sum over all cards may hold. Every card checks its own sum, but together they must not overflow either.
fn fits(rule: &ClippingRule, held: impl Iterator<Item = usize>, samples: usize) -> Result<(), EngineError> {
    match held.fold(samples, usize::saturating_add) > rule.capacity() {
        true => Err(EngineError::Sum { capacity: rule.capacity() }),
        false => Ok(()),
    }
}

/// Refuses a list of cards that cannot be a group.
fn check(devices: &[usize], addition: CudaAddition) -> Result<(), CudaGroupError> {
    let mut seen = BTreeSet::new();
    match devices.iter().find(|device| !seen.insert(**device)) {
        _ if devices.is_empty() => Err(CudaGroupError::Empty),
        Some(&device) if addition == CudaAddition::Nccl => Err(CudaGroupError::Twice { device }),
        _ => Ok(()),
    }
}

fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.to_bits() == other.to_bits())
}

/// Gives a failure the number of its card, unless it is the batch that is at fault.
fn named(devices: &[usize], Failed { rank, error }: Failed) -> CudaGroupError {
    match (rank.and_then(|rank| devices.get(rank)), error) {
        (_, error @ (CudaError::Engine(_) | CudaError::NoDevice { .. })) | (None, error) => error.into(),
        (Some(&device), source) => CudaGroupError::Card { device, source },
    }
}

impl Rank for CudaExecutor {
    type Sum = CudaGradientSum;
    type State = CudaState;

    fn clipped_sum(
        &mut self,
        share: &Batch<'_>,
        rule: &ClippingRule,
        sum: &mut CudaGradientSum,
    ) -> Result<StepStats, CudaError> {
        self.resident()?.clipped_sum(share, rule, sum)
    }

    fn settle(&mut self) -> Result<(), CudaError> {
        self.device.bind()?;
        self.synchronize()
    }

    fn read(&mut self, sum: &mut CudaGradientSum) -> Result<Total, CudaError> {
        self.device.bind()?;
        sum.read(self)
    }

    fn write(&mut self, sum: &mut CudaGradientSum, total: &Total) -> Result<(), CudaError> {
        self.device.bind()?;
        sum.write(&self.device, total)
    }

    fn update(
        &mut self,
        sum: CudaGradientSum,
        state: &mut CudaState,
        update: &CudaUpdate<'_>,
    ) -> Result<(), CudaError> {
        self.resident()?.update(sum, state, update)
    }
}

impl Addition<CudaExecutor> for Communicators {
    fn add_up(&mut self, ranks: &mut [CudaExecutor], sums: &mut [CudaGradientSum]) -> Result<(), Failed> {
        let whole = sums.first().is_some_and(|sum| sum.unit().is_some());
        if sums.iter().any(|sum| sum.unit().is_some() != whole) {
            return Err(CudaError::from(EngineError::Parameters).into());
        }
        let mut places = Vec::with_capacity(ranks.len());
        for (CudaExecutor { device, .. }, sum) in ranks.iter().zip(sums) {
            device.bind()?;
            sum.carry(device, 0)?;
            let numbers = sum.wide().map_or_else(|| Summed::Plain(sum.values()), Summed::Whole);
            places.push((device, numbers));
        }
        Ok(self.all_reduce(&places)?)
    }
}
